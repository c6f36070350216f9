// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// NominatedFor is how long a promise of capacity holds on a node that is ready: twice the longest
// batch, since the scheduler may need a moment.
const NominatedFor = 20 * time.Second

// reservations keeps capacity for pods: for those that were promised some, and for the
// replacements of evicted pods.
type reservations struct {
	pods         *podStore
	nodes        *nodeStore
	promises     *promises
	replacements *replacements
	snapshot     *snapshot
	podWriter    *podWriter
	nodeWriter   *nodeWriter
}

// promise promises pods capacity on a node, by its key. It ignores a node that is unknown or
// leaving, and pods that need none.
func (r *reservations) promise(key string, pods []cluster.PodRef) {
	n, ok := r.snapshot.node(key)
	if !ok || n.MarkedForDeletion {
		return
	}
	r.promises.extend(key, time.Now().Add(NominatedFor))
	for _, p := range pods {
		uid := r.replacements.counting(p.UID)
		if pod := r.pods.get(uid); pod != nil && r.needsCapacity(pod) {
			r.promises.make(uid, key)
			r.podWriter.write(uid)
		}
		if replacement := r.pods.get(r.replacements.of(p.UID)); replacement != nil {
			r.update(replacement)
		}
	}
	n.NominatedUntil = r.promises.endsOn(key)
	r.nodeWriter.write(n)
}

// needsCapacity reports whether the pod needs a promise: it is unbound, or its node is leaving,
// and no replacement counts in its place.
func (r *reservations) needsCapacity(p *corev1.Pod) bool {
	return !r.replacements.isSuperseded(string(p.UID)) &&
		(p.Spec.NodeName == "" || r.snapshot.leaving(r.nodes.key(p.Spec.NodeName)))
}

// beginEviction records that the pod is about to be evicted; see Mirror.BeginEviction.
func (r *reservations) beginEviction(p *corev1.Pod) {
	uid := string(p.UID)
	if r.pods.get(uid) != nil && kube.ReplacedAtOnce(p) && r.replacements.begin(uid, kube.OwnerOf(p)) {
		r.podWriter.write(uid)
	}
}

// match finds the evicted pod that a new pod replaces.
func (r *reservations) match(p *corev1.Pod) {
	r.replacements.match(p, func(uid string) bool { return r.pods.get(uid).DeletionTimestamp != nil })
}

// update makes a pod that replaces an evicted one count instead of it, as soon as the snapshot can
// show it: it is bound, capacity is promised to the pod it replaces, or the scheduler found it
// unschedulable.
func (r *reservations) update(replacement *corev1.Pod) {
	uid := string(replacement.UID)
	old, ok := r.replacements.evictedBy(uid)
	if !ok {
		return
	}
	bound := replacement.Spec.NodeName != ""
	key, promised := r.promises.of(old)
	if (bound || promised || kube.Provisionable(replacement)) && r.supersede(old) && promised && !bound {
		r.promises.make(uid, key)
		r.podWriter.write(uid)
	}
	if bound {
		r.replacements.bound(uid)
	}
}

// supersede records that another pod counts instead of this one, which may still run. It
// reports false when the pod was deleted, or superseded already.
func (r *reservations) supersede(uid string) bool {
	if r.pods.get(uid) == nil || r.replacements.isSuperseded(uid) {
		return false
	}
	r.replacements.supersede(uid)
	r.promises.end(uid)
	r.podWriter.write(uid)
	return true
}

// releaseOvercommitted ends the promises on an initialized node, by its name, once other pods
// use so much of it that not all promises can be kept. Promises that still fit are made again
// by the next decision.
func (r *reservations) releaseOvercommitted(node string) (waiting []string) {
	key := r.nodes.key(node)
	n, _ := r.snapshot.node(key)
	if len(r.promises.on(key)) == 0 || !n.Initialized {
		return nil
	}
	free := n.Allocatable
	for _, uids := range []map[string]bool{r.pods.on(node), r.promises.on(key)} {
		for uid := range uids {
			p, _ := r.snapshot.pod(uid)
			free = free.Sub(p.Requests)
		}
	}
	for _, left := range free {
		if left < 0 {
			return r.podWriter.release(key)
		}
	}
	return nil
}

// releaseLapsed ends the promises that have lapsed.
func (r *reservations) releaseLapsed(now time.Time) (waiting []string) {
	for _, key := range r.promises.keys() {
		if r.lapsed(key, now) {
			waiting = append(waiting, r.podWriter.release(key)...)
		}
	}
	return waiting
}

func (r *reservations) lapsed(key string, now time.Time) bool {
	n, ok := r.snapshot.node(key)
	switch {
	case !ok || n.MarkedForDeletion || n.TakesNoPods:
		return true
	case n.Initialized:
		return now.After(r.promises.endsOn(key)) && !r.awaitsMove(key)
	}
	return false
}

// awaitsMove reports whether a pod on a moving node was promised capacity on this one. Such a
// promise does not lapse, since the scheduler cannot bind the pod yet.
func (r *reservations) awaitsMove(key string) bool {
	if !r.nodes.anyMoving() {
		return false
	}
	for uid := range r.promises.on(key) {
		if p := r.pods.get(uid); p != nil && p.Spec.NodeName != "" && r.nodes.isMoving(r.nodes.key(p.Spec.NodeName)) {
			return true
		}
	}
	return false
}
