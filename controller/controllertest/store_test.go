// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

func TestReadsAreCopies(t *testing.T) {
	e := New(t, memory.Options{})
	e.Create(Pod("web", "1", "1Gi"))
	e.Pods()[0].Labels = map[string]string{"mine": "yes"}
	Get(e, &corev1.Pod{}, "web").Spec.Containers[0].Image = "mine"
	if p := e.Pods()[0]; len(p.Labels) > 0 || p.Spec.Containers[0].Image != "app" {
		t.Errorf("a reader changed the cluster: %v, %s", p.Labels, p.Spec.Containers[0].Image)
	}
}

func TestTimesAreWholeSeconds(t *testing.T) {
	e := New(t, memory.Options{})
	p := Pod("web", "1", "1Gi")
	p.CreationTimestamp.Time = time.Unix(1, 999)
	p.Finalizers = []string{"karve.dev/stays"}
	e.Create(p)
	e.Delete(p)
	p = Get(e, &corev1.Pod{}, "web")
	if p.CreationTimestamp.Nanosecond() != 0 || p.DeletionTimestamp.Nanosecond() != 0 {
		t.Errorf("born %s, deleted %s", p.CreationTimestamp.Time, p.DeletionTimestamp.Time)
	}
}

func TestLists(t *testing.T) {
	e := New(t, memory.Options{})
	for _, name := range []string{"c", "a", "b", "z"} {
		p := Pod(name, "1", "1Gi")
		p.Labels = map[string]string{"last": map[bool]string{true: "yes"}[name == "z"]}
		e.Create(p)
	}
	e.Bind("c", "n1")
	e.Bind("a", "n1")
	e.Bind("b", "n2")
	for name, tc := range map[string]struct {
		of   client.ListOption
		want []string
	}{
		"of an index":     {client.MatchingFields{kube.IndexPodNode: "n1"}, []string{"a", "c"}},
		"of a label":      {client.MatchingLabels{"last": "yes"}, []string{"z"}},
		"of a namespace":  {client.InNamespace("default"), []string{"a", "b", "c", "z"}},
		"of an empty one": {client.InNamespace("other"), nil},
	} {
		pods := &corev1.PodList{}
		if err := e.API.List(t.Context(), pods, tc.of); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range pods.Items {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if e.API.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"spec.schedulerName": "x"}) == nil {
		t.Error("what has no index is found by it")
	}
}
