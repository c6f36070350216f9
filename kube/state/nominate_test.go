// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// A decision nominates pods a, b and c to the node of claim web-1, which holds three such pods,
// after something happened that it did not see. Pods that need no capacity any more are ignored;
// the next decision is about those that still do.
//
// Rule LAUNCH-12.
func TestNominationAfterEvents(t *testing.T) {
	small := func(name string) *corev1.Pod {
		p := pendingPod(name)
		p.Spec.Containers = []corev1.Container{container("cpu", "600m")}
		return p
	}
	claim, node := joined(claimNamed("web-1"))
	a, b, c := small("a"), small("b"), small("c")
	refs := []cluster.PodRef{kube.Ref(a), kube.Ref(b), kube.Ref(c)}
	deleting := claim.DeepCopy()
	deleting.DeletionTimestamp = &metav1.Time{Time: noon}
	all := []string{"uid-a", "uid-b", "uid-c"}
	for _, tc := range []struct {
		name      string
		event     func(m *Mirror)
		nominated []string // to web-1
		woken     []string
		waiting   int
	}{
		{"nothing", func(*Mirror) {}, all, nil, 0},
		{"a pod was bound elsewhere", func(m *Mirror) { m.SetPod(boundTo(a, "elsewhere"), false) }, []string{"uid-b", "uid-c"}, nil, 0},
		{"a pod was deleted", func(m *Mirror) { m.RemovePod(a) }, []string{"uid-b", "uid-c"}, nil, 0},
		{"a pod was nominated elsewhere", func(m *Mirror) { m.RecordCreatedClaim(claimNamed("web-2"), nil, refs[:1]) }, []string{"uid-b", "uid-c"}, nil, 0},
		{"the node was removed", func(m *Mirror) { m.RemoveNode(node); m.RemoveClaim(claim) }, nil, all, 3},
		{"the node is being deleted", func(m *Mirror) { m.SetClaim(deleting) }, nil, all, 3},
		{"another pod took some capacity", func(m *Mirror) { m.SetPod(boundTo(small("other"), node.Name), false) }, []string{"uid-a", "uid-b"}, []string{"uid-c"}, 1},
		{"other pods took all capacity", func(m *Mirror) {
			other := pendingPod("other")
			other.Spec.Containers = []corev1.Container{container("cpu", "1500m")}
			m.SetPod(boundTo(other, node.Name), false)
		}, nil, all, 3},
		{"the node was nominated for other pods", func(m *Mirror) {
			m.SetPod(small("other"), false)
			m.BeginMove(BeginMoveRequest{Nominations: []schedule.Nomination{{Node: "web-1", Pods: []cluster.PodRef{kube.Ref(small("other"))}}}})
		}, []string{"uid-a", "uid-b", "uid-other"}, []string{"uid-c"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var woken []string
			m := NewMirror(func(pod string) { woken = append(woken, pod) })
			m.SetClaim(claim)
			m.SetNode(node)
			for _, p := range []*corev1.Pod{a, b, c} {
				m.SetPod(p, false)
			}
			m.View(func(*cluster.Snapshot) { tc.event(m) })
			woken = nil
			m.Nominate("web-1", refs)
			var got []string
			for _, p := range m.NominatedTo("web-1") {
				got = append(got, string(p.UID))
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.nominated) || !slices.Equal(woken, tc.woken) || m.CountWaiting() != tc.waiting {
				t.Errorf("%v are nominated, %v woken, %d wait; want %v, %v, %d", got, woken, m.CountWaiting(), tc.nominated, tc.woken, tc.waiting)
			}
		})
	}
}
