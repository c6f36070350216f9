// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// made is a pending pod that its owner recreates when it is deleted.
func made(name string, by types.UID) *corev1.Pod {
	p := pendingPod(name)
	p.OwnerReferences = []metav1.OwnerReference{{UID: "a friend"}, {UID: by, Controller: new(true)}}
	return p
}

func TestCountPods(t *testing.T) {
	m := NewMirror(nil)
	ends, done, replaced := made("ends", "web"), made("done", "web"), made("replaced", "web")
	now := metav1.Now()
	ends.DeletionTimestamp = &now
	done.Status.Phase = corev1.PodSucceeded
	for _, p := range []*corev1.Pod{made("a", "web"), made("b", "web"), made("c", "db"), made("d", "other"), pendingPod("alone"), ends, done, replaced} {
		m.SetPod(p, false)
	}
	m.Supersede(replaced)
	got := m.CountPods(map[types.UID]bool{"web": true, "db": true, "nobody": true})
	if diff := cmp.Diff(map[types.UID]int{"web": 2, "db": 1}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNominatedTo(t *testing.T) {
	m := NewMirror(nil)
	m.SetClaim(claimNamed("x"))
	p := made("a", "web")
	m.SetPod(p, false)
	if got := m.NominatedTo("x"); len(got) != 0 {
		t.Errorf("%d pods are nominated before any was", len(got))
	}
	m.Nominate("x", []cluster.PodRef{kube.Ref(p)})
	if got := m.NominatedTo("x"); len(got) != 1 || got[0] != p {
		t.Errorf("nominated: %v", got)
	}
	m.RemovePod(p)
	if got := m.NominatedTo("x"); len(got) != 0 {
		t.Errorf("%d pods that are gone are nominated", len(got))
	}
}
