// SPDX-License-Identifier: Apache-2.0

package kubelets

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestOnlySimulated(t *testing.T) {
	ours := nodeWith(map[string]string{simulatedAnnotation: simulatedValue})
	other := nodeWith(map[string]string{simulatedAnnotation: "real"})
	bare := nodeWith(nil)
	for _, c := range []struct {
		name string
		in   watch.Event
		want watch.EventType // empty: nothing is passed on
	}{
		{"ours appears", watch.Event{Type: watch.Added, Object: ours}, watch.Added},
		{"ours changes", watch.Event{Type: watch.Modified, Object: ours}, watch.Modified},
		{"ours goes", watch.Event{Type: watch.Deleted, Object: ours}, watch.Deleted},
		{"another appears", watch.Event{Type: watch.Added, Object: other}, ""},
		{"ours is taken from us", watch.Event{Type: watch.Modified, Object: other}, watch.Deleted},
		{"the annotation is removed", watch.Event{Type: watch.Modified, Object: bare}, watch.Deleted},
		{"it goes after that", watch.Event{Type: watch.Deleted, Object: bare}, watch.Deleted},
		{"a bookmark", watch.Event{Type: watch.Bookmark, Object: bare}, watch.Bookmark},
		{"an error", watch.Event{Type: watch.Error, Object: &metav1.Status{}}, watch.Error},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, passed := onlySimulated(c.in)
			if passed != (c.want != "") {
				t.Fatalf("passed on: %v", passed)
			}
			if passed && out.Type != c.want {
				t.Errorf("got %s, want %s", out.Type, c.want)
			}
		})
	}
}

func nodeWith(annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: annotations}}
}
