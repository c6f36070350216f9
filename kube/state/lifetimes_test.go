// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// jobPod is a pod of a CronJob's Job that has run on the node since then.
func jobPod(name, node string, since time.Time) *corev1.Pod {
	p := boundTo(pendingPod(name), node)
	yes, start := true, metav1.NewTime(since)
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "report-29409" + fmt.Sprintf("%03d", since.Minute()), UID: "job", Controller: &yes}}
	p.CreationTimestamp, p.Status.StartTime, p.Status.Phase = start, &start, corev1.PodRunning
	return p
}

func succeeded(p *corev1.Pod, at time.Time) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = corev1.PodSucceeded
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at)}}}}
	return p
}

func deletedAt(p *corev1.Pod, at time.Time) *corev1.Pod {
	p = p.DeepCopy()
	grace := int64(30)
	when := metav1.NewTime(at.Add(30 * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &when, &grace
	return p
}

func evicted(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	return p
}

// Rule CONSOLIDATION-24: pods that leave of their own accord say how long others of their workload
// will stay; pods that are taken away do not.
func TestLifetimesAreLearned(t *testing.T) {
	const long = 48 * time.Hour
	for name, tc := range map[string]struct {
		leave   func(m *Mirror, p *corev1.Pod)
		learned bool
	}{
		"ended":       {func(m *Mirror, p *corev1.Pod) { m.SetPod(succeeded(p, noon), false) }, true},
		"deleted":     {func(m *Mirror, p *corev1.Pod) { m.SetPod(deletedAt(p, noon), false) }, true},
		"evicted":     {func(m *Mirror, p *corev1.Pod) { m.SetPod(evicted(deletedAt(p, noon)), false) }, false},
		"only listed": {func(m *Mirror, p *corev1.Pod) { m.SetPod(succeeded(p, noon), true) }, false},
		"vanished":    {func(m *Mirror, p *corev1.Pod) { m.RemovePod(p) }, false},
		"still there": {func(m *Mirror, p *corev1.Pod) { m.SetPod(p, false) }, false},
		"its node is leaving": {func(m *Mirror, p *corev1.Pod) {
			claim, _ := joined(claimNamed("a"))
			now := metav1.NewTime(noon)
			claim.DeletionTimestamp = &now
			m.SetClaim(claim)
			m.SetPod(deletedAt(p, noon), false)
		}, false},
	} {
		m := NewMirror(nil)
		claim, node := joined(claimNamed("a"))
		m.SetClaim(claim)
		m.SetNode(node)
		p := jobPod("one", node.Name, noon.Add(-long))
		m.SetPod(p, true)
		tc.leave(m, p)
		next := jobPod("next", node.Name, noon.Add(-time.Minute))
		got := m.Lifetimes().Remaining(next, noon)
		if learned := got > time.Hour; learned != tc.learned {
			t.Errorf("%s after %v: a pod that came a minute ago is expected to stay for another %v", name, long, got)
		}
	}
}

// A pod that ends is counted once, however often it is shown.
func TestLifetimesCountEachPodOnce(t *testing.T) {
	m := NewMirror(nil)
	claim, node := joined(claimNamed("a"))
	m.SetClaim(claim)
	m.SetNode(node)
	p := jobPod("one", node.Name, noon.Add(-time.Hour))
	m.SetPod(p, true)
	for _, shown := range []*corev1.Pod{p, deletedAt(p, noon), deletedAt(succeeded(p, noon), noon), succeeded(p, noon)} {
		m.SetPod(shown, false)
	}
	m.RemovePod(p)
	w, _ := kube.WorkloadOf(p)
	if got := m.lifetimes.workloads[w].Pods(); got != 1 {
		t.Errorf("one pod counts as %d", got)
	}
}

func TestLifetimesAreBounded(t *testing.T) {
	l := &Lifetimes{limit: 100}
	for i := range 1000 {
		l.add(kube.Workload{Name: fmt.Sprint(i)}, time.Minute, noon.Add(time.Duration(i)*time.Minute))
		if len(l.workloads) > 100 {
			t.Fatalf("%d workloads", len(l.workloads))
		}
	}
	if l.workloads[kube.Workload{Name: "999"}] == nil || l.workloads[kube.Workload{Name: "1"}] != nil {
		t.Error("not those were forgotten whose pods left longest ago")
	}
}

func TestWorkloadOf(t *testing.T) {
	yes := true
	for _, tc := range []struct {
		kind, name, hash string
		want             kube.Workload
	}{
		{"ReplicaSet", "web-6d4cf56db6", "6d4cf56db6", kube.Workload{Namespace: "default", Kind: "Deployment", Name: "web"}},
		{"ReplicaSet", "web-6d4cf56db6", "", kube.Workload{Namespace: "default", Kind: "ReplicaSet", Name: "web-6d4cf56db6"}},
		{"ReplicaSet", "6d4cf56db6", "6d4cf56db6", kube.Workload{Namespace: "default", Kind: "ReplicaSet", Name: "6d4cf56db6"}},
		{"StatefulSet", "db-12345678", "", kube.Workload{Namespace: "default", Kind: "StatefulSet", Name: "db-12345678"}},
		{"Job", "report-29409120", "", kube.Workload{Namespace: "default", Kind: "CronJob", Name: "report"}},
		{"Job", "report-7", "", kube.Workload{Namespace: "default", Kind: "Job", Name: "report-7"}},
		{"Job", "29409120", "", kube.Workload{Namespace: "default", Kind: "Job", Name: "29409120"}},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", OwnerReferences: []metav1.OwnerReference{{Kind: tc.kind, Name: tc.name, Controller: &yes}}}}
		if tc.hash != "" {
			p.Labels = map[string]string{"pod-template-hash": tc.hash}
		}
		if got, ok := kube.WorkloadOf(p); got != tc.want || !ok {
			t.Errorf("%s %s: %v, want %v", tc.kind, tc.name, got, tc.want)
		}
	}
	if w, ok := kube.WorkloadOf(&corev1.Pod{}); ok {
		t.Errorf("a pod without a controller is of %v", w)
	}
}

// A node says what its pods cost to move that may leave soon, and which leaves first.
func TestShortStaysOfANode(t *testing.T) {
	m := NewMirror(nil)
	claim, node := joined(claimNamed("a"))
	m.SetClaim(claim)
	m.SetNode(node)
	m.SetPod(jobPod("old", node.Name, noon.Add(-5*time.Hour)), true)
	m.SetPod(jobPod("young", node.Name, noon.Add(-10*time.Minute)), true)
	m.SetPod(jobPod("hour", node.Name, noon.Add(-time.Hour)), true)
	x, _ := m.ManagedNode("a")
	n := kube.DisruptionNode(x, nil, kube.Stays{Lifetimes: m.Lifetimes(), Expected: 2 * time.Hour}, false, noon)
	if want := disrupt.ShortStayCost(1, 10*time.Minute, 2*time.Hour) + disrupt.ShortStayCost(1, time.Hour, 2*time.Hour); n.ShortStayCost != want || n.ShortestStay != 10*time.Minute || n.ShortestStayPod != "default/young" {
		t.Errorf("%v for the short stays, the shortest %v of %s; want %v for them", n.ShortStayCost, n.ShortestStay, n.ShortestStayPod, want)
	}
	if n := kube.DisruptionNode(x, nil, kube.Stays{}, false, noon); n.ShortStayCost != 0 || n.ShortestStayPod != "" {
		t.Errorf("without lifetimes short stays cost %v", n.ShortStayCost)
	}
}
