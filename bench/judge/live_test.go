// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// TestLive: a pod for which a node has no room is refused until another leaves.
func TestLive(t *testing.T) {
	l := NewLive()
	defer l.Close()
	one := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("9")}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	n.Status.Capacity, n.Status.Allocatable = one, one
	l.AddNode(n)
	pod := func(name string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: name, UID: types.UID(name)}}
		p.Spec.NodeName = "n"
		p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("600m")},
		}}}
		return p
	}
	a, b := pod("a"), pod("b")
	l.Bind([]*corev1.Pod{a})
	if got := l.Standing([]*corev1.Pod{a}); len(got) > 0 {
		t.Errorf("one pod: %v", got)
	}
	l.Bind([]*corev1.Pod{b})
	if got := l.Standing([]*corev1.Pod{b}); len(got) != 1 || got[0].Plugin != names.NodeResourcesFit {
		t.Errorf("two pods of 600m on a core: %v", got)
	}
	l.Remove(a.UID)
	if got := l.Standing([]*corev1.Pod{b}); len(got) > 0 {
		t.Errorf("the other one has left: %v", got)
	}
	l.Remove(b.UID)
	l.RemoveNode(n)
}
