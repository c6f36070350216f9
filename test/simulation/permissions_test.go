// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	_ "embed"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed testdata/permissions.yaml
var roleObjects []byte

// ofCommand are grants that the command needs beside what a world runs.
var ofCommand = []string{
	"get namespaces named kube-system",           // cmd/karve TestStartReadsByName
	"get services named kube-dns in kube-system", // the same
	"list secrets in kube-system",                // cmd/karve TestTokenIsReadLive
	"watch secrets in kube-system",               // the same
}

// karve's role permits no verb on any resource that no request needs, and karve makes no request that it does not
// permit. All other runs of this package make sure of the latter as well.
//
// Rule PERMISSION-1.
func TestRoleHoldsNothingUnused(t *testing.T) {
	authority()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Seed: 1})
		defer w.close()
		s := &script{world: w, features: usual}
		s.startKarve()
		useAll(t, s)
		for begun := time.Now(); time.Since(begun) < time.Hour && !slices.Equal(w.access.unused(), ofCommand); time.Sleep(restartsWithin) {
			s.restartEnded()
		}
		unused := w.access.unused()
		for _, g := range unused {
			if !slices.Contains(ofCommand, g) {
				t.Errorf("karve may %s, and did not within an hour in which everything happens: take it out of api/access, or add to testdata/permissions.yaml what needs it", g)
			}
		}
		for _, g := range ofCommand {
			if !slices.Contains(unused, g) {
				t.Errorf("karve may not %s, or did so without the command: take it out of ofCommand", g)
			}
		}
		if w.problems != nil {
			t.Error(strings.Join(w.problems, "\n"))
		}
	})
}

// useAll has users wish for everything that karve has a permission for, and undo some of it.
func useAll(t *testing.T, s *script) {
	w, decoder := s.world, yaml.NewYAMLOrJSONDecoder(bytes.NewReader(roleObjects), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := w.client.Create(w.ctx, o); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "Deployment" {
			rollOutOnce(t, w, o)
		}
	}
	for s.waitUntil(time.Now().Add(time.Minute)); len(nodesOf(w)) < 3 && time.Since(w.begun) < time.Hour; {
		s.waitUntil(time.Now().Add(time.Minute))
	}
	nodes := nodesOf(w)
	for _, n := range w.objects.nodes() { // they drain
		if n.Name == nodes["single"] || n.Name == nodes["steadfast"] {
			s.do("deleting node "+n.Name, w.client.Delete(w.ctx, n))
		}
	}
	for _, x := range w.objects.replicaSets() {
		if x.Name == "large" {
			s.do("deleting "+x.Name, w.client.Delete(w.ctx, x))
		}
	}
}

// rollOutOnce does what the controller of Deployments does with a new one.
func rollOutOnce(t *testing.T, w *world, o *unstructured.Unstructured) {
	d := &appsv1.Deployment{}
	if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(o), d); err != nil {
		t.Fatal(err)
	}
	x := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}
	x.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	x.Spec = appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}
	d.Status.ObservedGeneration = d.Generation
	if err := errors.Join(w.client.Create(w.ctx, x), w.client.Status().Update(w.ctx, d)); err != nil {
		t.Fatal(err)
	}
}

// nodesOf are the nodes of apps whose pods are ready.
func nodesOf(w *world) map[string]string {
	nodes := map[string]string{}
	for _, p := range w.objects.pods() {
		if isReady(p) {
			nodes[p.Labels["app"]] = p.Spec.NodeName
		}
	}
	return nodes
}
