// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/lifetime"
	"github.com/karve-dev/karve/kube"
)

// Lifetimes learns how long the pods of each workload stay on their nodes, from those that leave of
// their own accord. It is not written anywhere: after a restart it knows only how long pods have
// stayed so far. It may be used from several goroutines. The zero value knows nothing.
type Lifetimes struct {
	mu        sync.RWMutex
	workloads map[kube.Workload]*workloadRecord
	limit     int // replaces mostWorkloads in tests
}

type workloadRecord struct {
	lifetime.Record
	last time.Time // when a pod left
}

// mostWorkloads bounds the workloads that are known: jobs may have a new name each time. About 2 MB.
const mostWorkloads = 10_000

// Remaining is for how much longer the pod may be expected to stay on its node.
func (l *Lifetimes) Remaining(p *corev1.Pod, now time.Time) time.Duration {
	var r lifetime.Record
	if workload, owned := kube.WorkloadOf(p); owned {
		r = l.recordOf(workload)
	}
	return r.Remaining(kube.Stayed(p, now))
}

func (l *Lifetimes) recordOf(w kube.Workload) lifetime.Record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if known := l.workloads[w]; known != nil {
		return known.Record
	}
	return lifetime.Record{}
}

// record counts the pod when it now leaves its node of its own accord. Either pod may be nil; leaving
// reports whether the node of that name goes.
func (l *Lifetimes) record(old, now *knownPod, leaving func(node string) bool) {
	if phaseOnNode(old) != 1 || now == nil || phaseOnNode(now) < 2 || now.facts.DaemonSet != "" || now.facts.OwnedByNode {
		return
	}
	workload, owned := kube.WorkloadOf(now.Pod)
	if !owned || kube.Disrupted(now.Pod) || leaving(now.Spec.NodeName) {
		return
	}
	at := kube.LeftAt(now.Pod)
	if at.IsZero() {
		return
	}
	if seen := time.Now(); at.After(seen) { // by the clock of a node that is fast
		at = seen
	}
	l.add(workload, kube.Stayed(now.Pod, at), at)
}

func (l *Lifetimes) add(w kube.Workload, stay time.Duration, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workloads == nil {
		l.workloads = map[kube.Workload]*workloadRecord{}
	}
	r := l.workloads[w]
	if r == nil {
		l.makeRoom()
		r = &workloadRecord{}
		l.workloads[w] = r
	}
	r.Add(stay)
	if at.After(r.last) {
		r.last = at
	}
}

// makeRoom forgets half of the workloads when there are too many: those whose last pod left longest
// ago.
func (l *Lifetimes) makeRoom() {
	if len(l.workloads) < cmp.Or(l.limit, mostWorkloads) {
		return
	}
	all := slices.SortedFunc(maps.Keys(l.workloads), func(a, b kube.Workload) int {
		return cmp.Or(l.workloads[a].last.Compare(l.workloads[b].last), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	for _, w := range all[:len(all)/2] {
		delete(l.workloads, w)
	}
}
