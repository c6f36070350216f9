// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/local"
)

// manifest reads a file of testdata.
func manifest(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// apply applies YAML and removes it when the test ends, together with every node
// that came of it. Each test leaves the cluster as it found it.
func apply(t *testing.T, env *local.Environment, yaml []byte) {
	t.Helper()
	if err := env.Apply(t.Context(), yaml); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, env, yaml) })
}

func remove(t *testing.T, env *local.Environment, yaml []byte) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := env.Delete(ctx, yaml); err != nil {
		t.Error(err)
	}
}

// settle waits, after everything was deleted, until nothing is left anywhere: no
// claim, no node of ours, no VM, network interface or disk.
func settle(t *testing.T, env *local.Environment) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := local.Until(ctx, waitLimit, "every NodeClaim and node is gone", func(ctx context.Context) (bool, error) {
			claims, err := env.Claims(ctx)
			if err != nil {
				return false, err
			}
			nodes, err := ownNodes(ctx, env)
			if len(claims)+len(nodes) > 0 {
				return false, fmt.Errorf("%d claims and %d nodes are left", len(claims), len(nodes))
			}
			return err == nil, err
		})
		if err != nil {
			t.Error(err)
		}
		if err := env.CheckVMs(ctx, waitLimit); err != nil {
			t.Error(err)
		}
	})
}

// ownNodes lists nodes that karve launched.
func ownNodes(ctx context.Context, env *local.Environment) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	err := env.Client().List(ctx, &nodes, client.HasLabels{"karpenter.sh/nodepool"})
	return nodes.Items, err
}

// pool is a NodePool for one test: pods reach it, and only it, through the node
// selector pool=<name>.
func pool(name, class, more string) []byte {
	return fmt.Appendf(nil, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  template:
    metadata: {labels: {pool: %[1]s}}
    spec:
      nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: %[2]s}
      requirements:
        - {key: karpenter.azure.com/sku-family, operator: In, values: [D]}
%[3]s
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s, budgets: [{nodes: 100%%}]}
`, name, class, indent(more, 8))
}

// deployment is a Deployment of simulated pods; more is added to the pod's spec.
func deployment(name string, replicas int, requests, more string) []byte {
	return fmt.Appendf(nil, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: none, resources: {requests: %[3]s}}]
%[4]s
`, name, replicas, requests, indent(more, 6))
}

func indent(text string, by int) string {
	if text == "" {
		return ""
	}
	prefix := strings.Repeat(" ", by)
	return prefix + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+prefix)
}

// pods lists the pods of an app.
func pods(ctx context.Context, env *local.Environment, app string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := env.Client().List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"app": app})
	return list.Items, err
}

// running counts pods of an app that run and stay.
func running(ctx context.Context, env *local.Environment, app string) (int, error) {
	all, err := pods(ctx, env, app)
	n := 0
	for _, p := range all {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n, err
}

// waitRunning waits until an app has exactly n running pods.
func waitRunning(t *testing.T, env *local.Environment, app string, n int) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, fmt.Sprintf("%d pods of %s run", n, app), func(ctx context.Context) (bool, error) {
		if err := env.Err(); err != nil {
			return false, err
		}
		got, err := running(ctx, env, app)
		if err == nil && got != n {
			err = fmt.Errorf("%d run", got)
		}
		return got == n, err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, whyNot(t, env, app))
	}
}

// whyNot collects what a person would look at: the events of one pod that does
// not run.
func whyNot(t *testing.T, env *local.Environment, app string) string {
	ctx := context.WithoutCancel(t.Context())
	all, err := pods(ctx, env, app)
	if err != nil {
		return err.Error()
	}
	for _, p := range all {
		if p.Status.Phase == corev1.PodRunning {
			continue
		}
		events, err := podEvents(ctx, env, p.Name)
		if err != nil {
			return err.Error()
		}
		lines := []string{"pod " + p.Name + " is " + string(p.Status.Phase) + ":"}
		for _, e := range events {
			lines = append(lines, fmt.Sprintf("  %s %s: %s", e.Source.Component, e.Reason, e.Message))
		}
		return strings.Join(lines, "\n")
	}
	return "no pod is waiting"
}

func podEvents(ctx context.Context, env *local.Environment, pod string) ([]corev1.Event, error) {
	var events corev1.EventList
	if err := env.Client().List(ctx, &events, client.InNamespace("default")); err != nil {
		return nil, err
	}
	var about []corev1.Event
	for _, e := range events.Items {
		if e.InvolvedObject.Name == pod {
			about = append(about, e)
		}
	}
	return about, nil
}
