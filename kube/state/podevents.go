// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podEvents passes a pod's event to every part that it concerns.
type podEvents struct {
	revision        *revision
	pods            *podStore
	nodes           *nodeStore
	activity        activity
	protections     *protections
	volumes         *volumes
	nominations     *nominations
	podReplacements *podReplacements
	daemonSets      *daemonSets
	interruptions   *interruptions
	evictions       *evictions
	nominator       *nominator
	podWriter       *podWriter
	lifetimes       *Lifetimes
}

// set adds or replaces a pod; see Mirror.SetPod.
func (e *podEvents) set(p *corev1.Pod, listed bool) wakeups {
	uid := string(p.UID)
	old, now := e.pods.set(p)
	if !listed {
		e.activity.record(old, now)
		e.lifetimes.record(old, now, e.nodes.leaving)
	}
	e.revision.incrementIf(podChanged(old, now))
	e.protections.recordInvalidAnnotation(uid, now)
	sharers := e.volumes.setPod(old, now)
	if p.Spec.NodeName != "" && (old == nil || old.Spec.NodeName == "") {
		e.nominations.remove(uid) // it has a node now, whichever it was nominated to
	}
	e.daemonSets.setPod(now)
	if old == nil && !listed {
		e.evictions.pair(now)
	}
	node := e.evictions.update(now)
	n := wakeups{pods: e.podWriter.write(uid)}
	if node != "" {
		n.nominated = map[string]string{uid: node}
	}
	n.pods = append(n.pods, e.podWriter.pending(sharers)...)
	n.pods = append(n.pods, e.nominator.endOvercommitted(p.Spec.NodeName)...)
	if slices.Contains(n.pods, uid) && e.interruptions.urgent(now) {
		n.urgent = []string{uid}
	}
	return n
}

// remove forgets a pod.
func (e *podEvents) remove(p *corev1.Pod) wakeups {
	uid := string(p.UID)
	old := e.pods.get(uid)
	var sharers []string
	if old != nil {
		e.interruptions.recordLost(old)
		e.activity.record(old, nil)
		sharers = e.volumes.removePod(old)
	}
	e.pods.remove(p)
	if old != nil {
		e.forgetActivity(old.Spec.NodeName)
	}
	e.podReplacements.forget(uid)
	e.protections.forget(uid)
	e.nominations.remove(uid)
	e.daemonSets.removePod(uid)
	e.podWriter.write(uid)
	return wakeups{pods: e.podWriter.pending(sharers)}
}

// forgetActivity drops the record of a node that was deleted, once the last of its pods is
// deleted too.
func (e *podEvents) forgetActivity(node string) {
	if e.nodes.node(node) == nil && len(e.pods.on(node)) == 0 {
		delete(e.activity, node)
	}
}
