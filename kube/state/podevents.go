// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podEvents passes a pod's event to every part that it concerns.
type podEvents struct {
	revision      *revision
	pods          *podStore
	nodes         *nodeStore
	activity      activity
	protections   *protections
	volumes       *volumes
	promises      *promises
	replacements  *replacements
	daemonSets    *daemonSets
	interruptions *interruptions
	reservations  *reservations
	podWriter     *podWriter
}

// set adds or replaces a pod; see Mirror.SetPod.
func (e *podEvents) set(p *corev1.Pod, listed bool) news {
	uid := string(p.UID)
	old := e.pods.set(p)
	if !listed {
		e.activity.record(old, p)
	}
	e.revision.incrementIf(podChanged(old, p))
	e.protections.readAnnotation(uid, p)
	if old == nil {
		e.volumes.addPod(p)
	}
	if p.Spec.NodeName != "" && (old == nil || old.Spec.NodeName == "") {
		e.promises.end(uid) // it has a node now, whichever node it was promised
	}
	e.daemonSets.setPod(p)
	if old == nil && !listed {
		e.reservations.match(p)
	}
	e.reservations.update(p)
	n := news{waiting: e.podWriter.write(uid)}
	n.waiting = append(n.waiting, e.reservations.releaseOvercommitted(p.Spec.NodeName)...)
	if slices.Contains(n.waiting, uid) && e.interruptions.urgent(p) {
		n.urgent = []string{uid}
	}
	return n
}

// remove forgets a pod.
func (e *podEvents) remove(p *corev1.Pod) news {
	uid := string(p.UID)
	old := e.pods.get(uid)
	if old != nil {
		e.interruptions.recordLost(old)
		e.activity.record(old, nil)
		e.volumes.removePod(old)
	}
	e.pods.remove(p)
	if old != nil {
		e.forgetActivity(old.Spec.NodeName)
	}
	e.replacements.forget(uid)
	e.protections.forget(uid)
	e.promises.end(uid)
	e.daemonSets.removePod(uid)
	e.podWriter.write(uid)
	return news{}
}

// forgetActivity drops the record of a node that was deleted, once the last of its pods is
// deleted too.
func (e *podEvents) forgetActivity(node string) {
	if e.nodes.node(node) == nil && len(e.pods.on(node)) == 0 {
		delete(e.activity, node)
	}
}
