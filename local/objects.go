// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/api/crds"
)

// kinds are the typed objects our client knows: Kubernetes' own and CRDs. Objects
// of karpenter.sh and karpenter.azure.com are used as people write them, as YAML.
func kinds() *runtime.Scheme {
	s := runtime.NewScheme()
	// Both fail only on a type registered twice under one name, which is a bug here.
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// owner is the field manager of everything we apply.
const owner = client.FieldOwner("karve-demo")

// Apply creates or updates the objects of a YAML stream, as "kubectl apply
// --server-side" would. The first object that is refused ends it.
func (e *Environment) Apply(ctx context.Context, manifest []byte) error {
	objects, err := parse(manifest)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := e.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), owner, client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Delete deletes the objects of a YAML stream; objects that do not exist are no error.
// It does not wait for finalizers.
func (e *Environment) Delete(ctx context.Context, manifest []byte) error {
	objects, err := parse(manifest)
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range objects {
		err := e.client.Delete(ctx, object)
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// parse reads a YAML stream; documents that hold only comments are skipped.
func parse(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading YAML: %w", err)
		}
		var content map[string]any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, fmt.Errorf("reading YAML: %w", err)
		}
		if len(content) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
}

// installDefinitions applies the CRDs, waits until the API server serves them,
// and creates the default AKSNodeClass.
func (e *Environment) installDefinitions(ctx context.Context) error {
	all, err := crds.All()
	if err != nil {
		return err
	}
	for _, definition := range all {
		if err := e.client.Create(ctx, definition); err != nil {
			return fmt.Errorf("installing %s: %w", definition.Name, err)
		}
	}
	for _, definition := range all {
		if err := e.waitServed(ctx, definition.Name); err != nil {
			return err
		}
	}
	if err := e.Apply(ctx, []byte(DefaultNodeClass)); err != nil {
		return err
	}
	e.options.Progress(fmt.Sprintf("%d custom resource definitions and the default AKSNodeClass are installed", len(all)))
	return nil
}

func (e *Environment) waitServed(ctx context.Context, name string) error {
	return Until(ctx, 30*time.Second, "the API server serves "+name, func(ctx context.Context) (bool, error) {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := e.client.Get(ctx, client.ObjectKey{Name: name}, &definition); err != nil {
			return false, err
		}
		for _, condition := range definition.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

// installAccess gives karve the permissions of its role and no more, so that a missing
// one shows here first: a kubeconfig with which it is the service account that it
// runs as elsewhere.
func (e *Environment) installAccess(ctx context.Context) error {
	for _, object := range access.Objects(access.Options{Namespace: karveNamespace, SurgeNamespaces: surgeNamespaces, TokenID: e.cluster.BootstrapTokenID()}) {
		if err := e.client.Create(ctx, object); err != nil {
			return fmt.Errorf("installing the role of karve: %w", err)
		}
	}
	config, err := clientcmd.LoadFromFile(e.cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for _, who := range config.AuthInfos {
		who.Impersonate = access.User(karveNamespace)
	}
	if err := clientcmd.WriteToFile(*config, e.karveKubeconfig()); err != nil {
		return fmt.Errorf("writing the kubeconfig of karve: %w", err)
	}
	return nil
}

// karveKubeconfig is the path of the kubeconfig with which karve runs.
func (e *Environment) karveKubeconfig() string { return filepath.Join(e.dir, "karve.kubeconfig") }

// karveNamespace is where karve would run, were it a pod.
const karveNamespace = metav1.NamespaceSystem

// surgeNamespaces are those in which karve may restart Deployments.
var surgeNamespaces = []string{metav1.NamespaceDefault}

// Claim is a NodeClaim and the state of its instance.
type Claim struct {
	Name, UID, Pool          string
	Type, Zone, CapacityType string
	ProviderID, Node         string
	// Acceptable is how many instance types would have done.
	Acceptable int
	Created    time.Time
	Deleting   bool
	Conditions []metav1.Condition
}

// True reports whether the condition holds.
func (c Claim) True(condition string) bool {
	for _, have := range c.Conditions {
		if have.Type == condition {
			return have.Status == metav1.ConditionTrue
		}
	}
	return false
}

// Claims lists all NodeClaims.
func (e *Environment) Claims(ctx context.Context) ([]Claim, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("karpenter.sh/v1")
	list.SetKind("NodeClaimList")
	if err := e.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	claims := make([]Claim, 0, len(list.Items))
	for i := range list.Items {
		claim, err := readClaim(&list.Items[i])
		if err != nil {
			return nil, err
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// claimFields are the parts of a NodeClaim that a Claim is made of.
type claimFields struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Requirements []struct {
			Key    string   `json:"key"`
			Values []string `json:"values"`
		} `json:"requirements"`
	} `json:"spec"`
	Status struct {
		ProviderID string             `json:"providerID"`
		NodeName   string             `json:"nodeName"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func readClaim(object *unstructured.Unstructured) (Claim, error) {
	var fields claimFields
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &fields); err != nil {
		return Claim{}, fmt.Errorf("reading NodeClaim %s: %w", object.GetName(), err)
	}
	labels := fields.Metadata.Labels
	claim := Claim{
		Name: fields.Metadata.Name, UID: string(fields.Metadata.UID), Pool: labels["karpenter.sh/nodepool"],
		Type: labels["node.kubernetes.io/instance-type"], Zone: labels["topology.kubernetes.io/zone"],
		CapacityType: labels["karpenter.sh/capacity-type"],
		ProviderID:   fields.Status.ProviderID, Node: fields.Status.NodeName,
		Created: fields.Metadata.CreationTimestamp.Time, Deleting: fields.Metadata.DeletionTimestamp != nil,
		Conditions: fields.Status.Conditions,
	}
	for _, requirement := range fields.Spec.Requirements {
		if requirement.Key == "node.kubernetes.io/instance-type" {
			claim.Acceptable = len(requirement.Values)
		}
	}
	return claim, nil
}

// Until calls holds again and again until it is true. It gives up when limit has passed without
// news, which is an error of holds that it has not seen before ("85 claims are left"), and in any
// case after four times the limit: a slow computer must not look like one that hangs. The last
// error is kept for the message: API servers and networks fail for moments. The calls take a
// third of the time at most: what lists a thousand pods must not keep a busy computer from running
// them.
func Until(ctx context.Context, limit time.Duration, what string, holds func(context.Context) (bool, error)) error {
	began := time.Now()
	lastNews, seen := began, map[string]bool{}
	for {
		asked := time.Now()
		yes, err := holds(ctx)
		if yes && err == nil {
			return nil
		}
		if state := fmt.Sprint(err); !seen[state] {
			seen[state], lastNews = true, time.Now()
		}
		if time.Since(lastNews) > limit || time.Since(began) > 4*limit {
			return errors.Join(fmt.Errorf("waited %s for this to be true: %s", time.Since(began).Round(time.Second), strings.TrimSpace(what)), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		case <-time.After(max(100*time.Millisecond, 2*time.Since(asked))):
		}
	}
}
