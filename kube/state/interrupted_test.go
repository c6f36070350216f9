// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// losing is a Mirror with a node that is interrupted, or merely leaving, on which the pod "old"
// of a ReplicaSet runs.
func losing(t *testing.T, interrupted bool) (m *Mirror, old *corev1.Pod) {
	t.Helper()
	m = NewMirror(nil)
	claim, node := joined(claimNamed("leaving"))
	now := metav1.Now()
	claim.DeletionTimestamp = &now
	if interrupted {
		claim.Annotations = map[string]string{kube.InterruptedAnnotation: "Preempt"}
	}
	m.SetClaim(claim)
	m.SetNode(node)
	staying, free := joined(claimNamed("staying"))
	m.SetClaim(staying)
	m.SetNode(free)
	old = boundTo(ofReplicaSet(pendingPod("old")), node.Name)
	m.SetPod(old, true)
	return m, old
}

// A pod that replaces one whose node was interrupted is as urgent as that one, although the old
// pod is deleted already and no capacity was found for it.
//
// Rule DRAIN-9.
func TestWhoComesForALostPodIsUrgent(t *testing.T) {
	for name, test := range map[string]struct {
		interrupted bool
		before      func(m *Mirror, old *corev1.Pod)
		next        *corev1.Pod
		later       time.Duration
		want        bool
	}{
		"gone at once":                 {interrupted: true, next: ofReplicaSet(pendingPod("next")), want: true},
		"half a minute later":          {interrupted: true, next: ofReplicaSet(pendingPod("next")), later: 30 * time.Second, want: true},
		"long after":                   {interrupted: true, next: ofReplicaSet(pendingPod("next")), later: 2 * time.Minute},
		"of somebody else":             {interrupted: true, next: pendingPod("next")},
		"of an instance that may stay": {next: ofReplicaSet(pendingPod("next"))},
		"there was room for it":        {interrupted: true, before: func(m *Mirror, old *corev1.Pod) { m.Nominate("staying", []cluster.PodRef{kube.Ref(old)}) }, next: ofReplicaSet(pendingPod("next"))},
		"it came while the old was there": {interrupted: true, before: func(m *Mirror, old *corev1.Pod) {
			m.BeginEviction(old)
			m.SetPod(askedToLeave(old), false)
			m.SetPod(untried("next"), false)
		}, next: ofReplicaSet(pendingPod("next")), want: true},
		"the scheduler gave up on it while the old was there": {interrupted: true, before: func(m *Mirror, old *corev1.Pod) {
			m.BeginEviction(old)
			m.SetPod(askedToLeave(old), false)
			m.SetPod(ofReplicaSet(pendingPod("next")), false)
		}, next: ofReplicaSet(pendingPod("next")), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, old := losing(t, test.interrupted)
				if test.before != nil {
					test.before(m, old)
				}
				m.RemovePod(old)
				time.Sleep(test.later)
				var hurried []string
				m.OnUrgent = func(uid string) { hurried = append(hurried, uid) }
				known := m.parts.pods.byUID["uid-next"] != nil && m.parts.pods.byUID["uid-next"].facts.Provisionable
				m.SetPod(test.next, false)
				if got := m.AnyInterrupted([]cluster.PodRef{kube.Ref(test.next)}); got != test.want {
					t.Errorf("urgent: %t, want %t", got, test.want)
				}
				if got := slices.Contains(hurried, "uid-next"); !known && got != test.want {
					t.Errorf("in a hurry: %t, want %t", got, test.want)
				}
			})
		})
	}
}

// Interrupted owners are not remembered for ever.
func TestInterruptedOwnersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, old := losing(t, true)
		other := old.DeepCopy()
		other.Name, other.UID, other.OwnerReferences[0].UID = "other", "uid-other", "rs-2"
		m.SetPod(other, true)
		m.RemovePod(old)
		time.Sleep(2 * time.Minute)
		m.RemovePod(other)
		if len(m.parts.interruptions.owners) != 1 {
			t.Errorf("remembers %v", m.parts.interruptions.owners)
		}
	})
}
