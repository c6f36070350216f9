// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// exclusive adds the claim "data", which one pod at a time may use, to the Mirror.
func exclusive(m *Mirror) {
	alone := unboundClaim("data", "late")
	alone.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	m.SetStorageClass(late("late"))
	m.SetPVC(alone)
}

// waitsFor is what a plan says of the pod when it waits for the claim "data"; empty when it may use
// it.
func waitsFor(m *Mirror, uid string) (why string) {
	m.View(func(snapshot *cluster.Snapshot) {
		for _, u := range schedule.Solve(snapshot).Unplaced {
			for _, p := range u.Pods {
				if p.UID == uid && u.Facts.Text("claim") == "default/data" {
					why = u.Detail
				}
			}
		}
	})
	return why
}

// Rule VOLUME-5: pods wait while another one uses a claim that one pod at a time may use, and are
// looked at again once it does not.
func TestOnePodAtATimeUsesAnExclusiveClaim(t *testing.T) {
	var woken []string
	m := NewMirror(func(pod string) { woken = append(woken, pod) })
	exclusive(m)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	m.SetNode(node)
	bound, done := mounting("b", "data"), mounting("b", "data")
	next := mounting("b", "data") // of a StatefulSet: another pod of the same name
	bound.Spec.NodeName, done.Spec.NodeName, next.Spec.NodeName = "n", "n", "n"
	next.UID = "uid-next"
	done.Status.Phase = corev1.PodSucceeded
	const uses, goesFirst = "is used by pod default/b", "goes to pod default/0"
	for _, step := range []struct {
		change func()
		waits  string // pod a, and why
		wakes  string
	}{
		{func() { m.SetPod(mounting("a", "data"), false) }, "", "uid-a"},
		{func() { m.SetPod(mounting("b", "data"), false) }, "", "uid-b"},
		{func() { m.SetPod(bound, false) }, uses, ""},
		{func() { m.SetPod(done, false) }, "", "uid-a"},
		{func() { m.SetPod(bound, false) }, uses, ""},
		{func() { m.SetPod(next, false) }, uses, ""},
		{func() { m.RemovePod(bound) }, uses, "uid-a"},
		{func() { m.RemovePod(next) }, "", "uid-a"},
		{func() { m.SetPod(mounting("0", "data"), false) }, goesFirst, "uid-0"},
		{func() { m.RemovePod(mounting("0", "data")) }, "", "uid-a"},
		{func() { m.SetPod(bound, false) }, uses, ""},
		{func() { m.RemoveNode(node) }, "", ""},
	} {
		woken = nil
		step.change()
		if why := waitsFor(m, "uid-a"); !strings.Contains(why, step.waits) || (why == "") != (step.waits == "") || strings.Join(woken, "") != step.wakes {
			t.Errorf("a waits: %q, and %v are woken, want %q and %q", why, woken, step.waits, step.wakes)
		}
	}
	m.RemovePod(bound)
	if n := len(m.parts.volumes.mounts); n != 1 {
		t.Errorf("the users of %d claims are remembered, want 1", n)
	}
}

// Rule VOLUME-5: a pod that is nominated to a node uses its claims.
func TestNominatedPodUsesItsExclusiveClaim(t *testing.T) {
	m, _, _ := succeeding(t)
	exclusive(m)
	first, second := mounting("first", "data"), mounting("second", "data")
	m.SetPod(first, false)
	m.SetPod(second, false)
	m.Nominate("staying", []cluster.PodRef{kube.Ref(second)})
	if why := waitsFor(m, "uid-first"); !strings.Contains(why, "is used by pod default/second") {
		t.Errorf("the first pod waits: %q, want for the second one", why)
	}
}

// Rule VOLUME-5: the pod that replaces an evicted one takes over its claim, and no other pod gets
// it in between.
func TestReplacementTakesOverItsExclusiveClaim(t *testing.T) {
	m, old, _ := succeeding(t)
	exclusive(m)
	withClaim := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Volumes = mounting("any", "data").Spec.Volumes
		return p
	}
	m.RemovePod(old)
	old = withClaim(old.DeepCopy())
	m.SetPod(old, true)
	m.SetPod(mounting("other", "data"), false)
	expect := func(when, placed, waits string) {
		t.Helper()
		if why := waitsFor(m, placed); why != "" {
			t.Errorf("%s: %s waits: %s", when, placed, why)
		}
		if why := waitsFor(m, "uid-other"); !strings.Contains(why, waits) {
			t.Errorf("%s: another pod waits: %q, want %q", when, why, waits)
		}
	}
	expect("on the leaving node", "uid-old", "is used by pod default/old")
	m.BeginEviction(old)
	m.SetPod(askedToLeave(old), false)
	expect("evicted", "uid-old", "is used by pod default/old")
	m.SetPod(withClaim(untried("new")), false)
	expect("its replacement exists", "uid-old", "is used by pod default/old")
	m.SetPod(withClaim(ofReplicaSet(pendingPod("new"))), false)
	expect("its replacement is pending", "uid-new", "goes to pod default/new")
	m.RemovePod(old)
	expect("it is gone", "uid-new", "goes to pod default/new")
}
