// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// succeeding is a Mirror with a leaving node on which a ReplicaSet's pod "old" runs, and a free
// node.
func succeeding(t *testing.T) (m *Mirror, old *corev1.Pod, home string) {
	t.Helper()
	m = NewMirror(nil)
	leaving, node := joined(claimNamed("leaving"))
	staying, free := joined(claimNamed("staying"))
	now := metav1.Now()
	leaving.DeletionTimestamp = &now
	m.SetClaim(leaving)
	m.SetNode(node)
	m.SetClaim(staying)
	m.SetNode(free)
	old = boundTo(ofReplicaSet(pendingPod("old")), node.Name)
	m.SetPod(old, true)
	return m, old, free.Name
}

func ofReplicaSet(p *corev1.Pod) *corev1.Pod {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", UID: "rs", Controller: &yes}}
	return p
}

// untried is a pod that the scheduler has not tried.
func untried(name string) *corev1.Pod {
	p := ofReplicaSet(pendingPod(name))
	p.Status.Conditions = nil
	return p
}

func askedToLeave(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	terminating(p)
	return p
}

// needy lists the pods for which a plan would find capacity.
func needy(m *Mirror) []string {
	var out []string
	m.View(func(*cluster.Snapshot) {
		for uid, w := range m.parts.builder.pods {
			if w.Node == "" || w.ReschedulableNow && m.parts.builder.nodes[m.parts.nodes.key(w.Node)].MarkedForDeletion {
				out = append(out, uid)
			}
		}
	})
	slices.Sort(out)
	return out
}

// Between the eviction of a pod and the moment the scheduler finds its replacement unschedulable,
// a plan counts one pod: never none, never two.
//
// Rule DRAIN-8.
func TestEvictedPodAndReplacementCountAsOne(t *testing.T) {
	m, old, _ := succeeding(t)
	want := func(when string, uids ...string) {
		t.Helper()
		if got := needy(m); !slices.Equal(got, uids) {
			t.Fatalf("%s: %v need room, want %v", when, got, uids)
		}
	}
	m.BeginEviction(old)
	want("before it is asked", "uid-old")
	old = askedToLeave(old)
	m.SetPod(old, false)
	want("terminating", "uid-old")
	next := untried("next")
	m.SetPod(next, false)
	want("the replacement is there", "uid-old")
	m.SetPod(ofReplicaSet(pendingPod("next")), false)
	want("the scheduler gave up on the replacement", "uid-next")
	m.RemovePod(old)
	want("the old pod is gone", "uid-next")
	m.RemovePod(next)
	if s := m.parts.podReplacements; len(s.unmatched)+len(s.owners)+len(s.byEvicted)+len(s.byReplacement)+len(s.superseded) != 0 {
		t.Errorf("pods that are gone are remembered: %+v", s)
	}
}

// A replacement is nominated in place of the pod that it replaces, whichever of nomination and
// replacement is first, and only once.
//
// Rule DRAIN-8.
func TestReplacementTakesTheNomination(t *testing.T) {
	for name, nominatedFirst := range map[string]bool{"nominated first": true, "replacement first": false} {
		t.Run(name, func(t *testing.T) {
			m, old, home := succeeding(t)
			told := map[string]string{}
			m.OnNominated = func(pod, node string) { told[pod] = node }
			m.BeginEviction(old)
			m.SetPod(askedToLeave(old), false)
			next := untried("next")
			if !nominatedFirst {
				m.SetPod(next, false)
			}
			m.Nominate("staying", []cluster.PodRef{kube.Ref(old)})
			if nominatedFirst {
				if got := m.parts.builder.pods["uid-old"].Node; got != home {
					t.Fatalf("the old pod counts on %q, want %q", got, home)
				}
				m.SetPod(next, false)
			}
			if got := m.parts.builder.pods["uid-next"].Node; got != home {
				t.Errorf("the replacement counts on %q, want %q", got, home)
			}
			if got := m.EffectivePod("uid-old"); got == nil || got.UID != next.UID {
				t.Errorf("%v counts in the place of the old pod", got)
			}
			if nominatedFirst && (len(told) != 1 || told["uid-next"] == "") {
				t.Errorf("that the replacement took the nomination over was told as %v", told)
			}
			if w := m.parts.builder.pods["uid-old"]; w.Node == home || w.ReschedulableNow {
				t.Errorf("the old pod counts on %q, reschedulable now %t: want where it was, and not reschedulable now", w.Node, w.ReschedulableNow)
			}
			m.SetPod(boundTo(next, home), false)
			if len(m.parts.nominations.nodeOf) != 0 || len(m.parts.podReplacements.byReplacement) != 0 {
				t.Errorf("the replacement is bound, and still remembered: %v, %v", m.parts.nominations.nodeOf, m.parts.podReplacements.byReplacement)
			}
		})
	}
}

// A pod that the scheduler binds at once needs no capacity, nor does the pod it replaces.
//
// Rule DRAIN-8.
func TestBoundReplacementNeedsNothing(t *testing.T) {
	m, old, home := succeeding(t)
	m.BeginEviction(old)
	m.SetPod(askedToLeave(old), false)
	m.SetPod(untried("next"), false)
	m.SetPod(boundTo(untried("next"), home), false)
	if got := needy(m); len(got) != 0 {
		t.Errorf("%v need room", got)
	}
	m.Nominate("staying", []cluster.PodRef{kube.Ref(old)}) // an earlier plan
	if len(m.parts.nominations.nodeOf) != 0 {
		t.Errorf("these pods are nominated: %v", m.parts.nominations.nodeOf)
	}
}

// A pod that is scaled away has no replacement, and pods that are created or deleted for other
// reasons replace none.
//
// Rule DRAIN-8.
func TestEvictedPodsWithoutReplacement(t *testing.T) {
	m, old, _ := succeeding(t)
	m.SetPod(askedToLeave(old), false)
	if got := needy(m); len(got) != 0 {
		t.Errorf("nobody asked it to leave, and %v need room", got)
	}
	m, old, _ = succeeding(t)
	m.BeginEviction(old)
	m.SetPod(untried("more"), false) // scaled up, while a budget keeps the old one
	if len(m.parts.podReplacements.byReplacement) != 0 {
		t.Errorf("a pod came for one that was not asked to leave: %v", m.parts.podReplacements.byReplacement)
	}
	loner := boundTo(pendingPod("loner"), old.Spec.NodeName)
	m.SetPod(loner, true)
	m.BeginEviction(loner)
	m.SetPod(askedToLeave(loner), false)
	if got := needy(m); slices.Contains(got, "uid-loner") {
		t.Error("room is sought for a pod that nobody makes anew")
	}
}

// A pod that loses its owner while it terminates is forgotten like any other: the owner's next
// pods replace pods that exist.
//
// Rule DRAIN-8.
func TestEvictedPodLosesItsOwner(t *testing.T) {
	for name, seen := range map[string]bool{"seen before it goes": true, "seen as it goes": false} {
		t.Run(name, func(t *testing.T) {
			m, old, _ := succeeding(t)
			m.BeginEviction(old)
			orphan := askedToLeave(old)
			orphan.OwnerReferences = nil
			if seen {
				m.SetPod(orphan, false)
			}
			m.RemovePod(orphan)
			m.SetPod(untried("next"), false)
			if s := m.parts.podReplacements; len(s.unmatched)+len(s.owners)+len(s.byEvicted)+len(s.byReplacement) != 0 {
				t.Errorf("a pod that is gone is remembered: %+v", s)
			}
		})
	}
}
