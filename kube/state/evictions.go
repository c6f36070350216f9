// SPDX-License-Identifier: Apache-2.0

package state

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/kube"
)

// evictions follows evicted pods until their replacements count instead of them, and passes
// nominations on to the replacements.
type evictions struct {
	pods            *podStore
	nominations     *nominations
	podReplacements *podReplacements
	podWriter       *podWriter
}

// begin records that the pod is about to be evicted; see Mirror.BeginEviction.
func (e *evictions) begin(p *corev1.Pod) {
	uid := string(p.UID)
	if e.pods.get(uid) != nil && kube.ReplacedAtOnce(p) && e.podReplacements.expect(uid, kube.OwnerOf(p)) {
		e.podWriter.write(uid)
	}
}

// pair records which evicted pod a new pod replaces, if any.
func (e *evictions) pair(p *knownPod) {
	e.podReplacements.pair(string(p.UID), p.facts.Owner, func(old string) bool { return e.pods.get(old).facts.Terminating })
}

// update makes a pod that replaces an evicted one count instead of it, as soon as the snapshot can
// show it: it is bound, the pod that it replaces is nominated to a node, or the scheduler found it
// unschedulable. It returns the node of the nomination that it takes over; "" for none.
func (e *evictions) update(replacement *knownPod) (node string) {
	uid := string(replacement.UID)
	old, ok := e.podReplacements.predecessorOf(uid)
	if !ok {
		return ""
	}
	bound := replacement.Spec.NodeName != ""
	key, nominated := e.nominations.of(old)
	if (bound || nominated || replacement.facts.Provisionable) && e.supersede(old) && nominated && !bound {
		e.nominations.add(uid, key)
		e.podWriter.write(uid)
		node = key
	}
	if bound {
		e.podReplacements.markBound(uid)
	}
	return node
}

// supersede records that another pod counts instead of this one, which may still run. It
// reports false when the pod was deleted, or superseded already.
func (e *evictions) supersede(uid string) bool {
	if e.pods.get(uid) == nil || e.podReplacements.isSuperseded(uid) {
		return false
	}
	e.podReplacements.supersede(uid)
	e.nominations.remove(uid)
	e.podWriter.write(uid)
	return true
}
