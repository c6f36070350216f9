// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pollEvery is how often a component that is starting is asked. A question costs a
// millisecond; the whole start should take a few seconds.
const pollEvery = 50 * time.Millisecond

// patience bounds each wait. On two busy cores a start takes well under a minute; a component that
// takes longer is broken, and its log shows why.
const patience = 2 * time.Minute

func (c *Cluster) healthURL(component string) string {
	switch component {
	case "kube-apiserver":
		return c.ports.apiServer.url() + "/readyz"
	case "kube-controller-manager":
		return c.ports.controllerManager.url() + "/healthz"
	case "kube-scheduler":
		return c.ports.scheduler.url() + "/readyz"
	case "kwok":
		return "http://" + c.ports.kwok.address() + "/healthz"
	}
	panic("no health check for " + component)
}

// awaitHealthy returns once all components answer that they are well.
func (c *Cluster) awaitHealthy(ctx context.Context, components ...string) error {
	roots := x509.NewCertPool()
	roots.AddCert(c.credentials.cluster.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Second}
	for _, name := range components {
		err := c.await(ctx, "waiting for "+name, func(ctx context.Context) error {
			return healthy(ctx, client, c.healthURL(name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func healthy(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// awaitDefaults waits for the objects that every new cluster is expected to have:
// pods cannot be created before their namespace's service account exists.
func (c *Cluster) awaitDefaults(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		err := c.await(ctx, "waiting for the service account of "+namespace, func(ctx context.Context) error {
			_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.await(ctx, "waiting for node lease namespace", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, "kube-node-lease", metav1.GetOptions{})
		return err
	})
}

// await repeats ask until it returns no error. It gives up when ctx
// ends, a component ends, or patience has passed.
func (c *Cluster) await(ctx context.Context, act string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s: %w", act, c.err)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (last answer: %w); see %s", act, ctx.Err(), err, c.logs())
		case <-ticker.C:
		}
	}
}

// ignoreExists turns "already exists" into success: creating twice is creating once.
func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
