// SPDX-License-Identifier: Apache-2.0

package state

import (
	"reflect"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// podWriter writes pods to the snapshot: each by its object, its nomination, its
// replacement, its volumes and its node.
type podWriter struct {
	pods            *podStore
	nodes           *nodeStore
	nominations     *nominations
	podReplacements *podReplacements
	protections     *protections
	volumes         *volumes
	owners          *owners
	builder         *builder
	convert         kube.Converter
}

// write updates one pod in the snapshot and returns its UID when it starts to need capacity.
func (w *podWriter) write(uid string) []string {
	now, ok := w.convertPod(uid)
	old, had := w.builder.pod(uid)
	switch {
	case !ok && had:
		w.builder.removePod(uid)
		w.owners.count(old.Owner, -1)
		w.protections.forgetBlocked(uid)
		return nil
	case !ok || had && reflect.DeepEqual(old, now):
		return nil
	}
	w.builder.setPod(now)
	if old.Owner != now.Owner || !had {
		w.owners.count(old.Owner, -1)
		w.owners.count(now.Owner, 1)
	}
	if now.ReschedulableNow && had && !old.ReschedulableNow && w.builder.markedForDeletion(w.nodes.key(now.Node)) {
		return []string{uid} // no PodDisruptionBudget or annotation protects it any more
	}
	if now.Node == "" && (!had || old.Node != "" || old.Refused != "" && now.Refused == "") {
		return []string{uid}
	}
	return nil
}

// writeAll updates several pods in the snapshot and returns those that start to need capacity.
func (w *podWriter) writeAll(uids []string) (waiting []string) {
	for _, uid := range uids {
		waiting = append(waiting, w.write(uid)...)
	}
	return waiting
}

// pending are those of the pods that need capacity: they are bound and nominated to no node.
func (w *podWriter) pending(uids []string) (waiting []string) {
	for _, uid := range uids {
		if p, ok := w.builder.pod(uid); ok && p.Node == "" {
			waiting = append(waiting, uid)
		}
	}
	return waiting
}

// writeBoundTo updates the pods bound to a node, by its name. It does not say which start to need
// capacity: all of them, if any, are among reschedulablePods.
func (w *podWriter) writeBoundTo(node string) {
	for uid := range w.pods.on(node) {
		w.write(uid)
	}
}

// convertPod is the pod as the snapshot should show it; false when it should not be there.
func (w *podWriter) convertPod(uid string) (cluster.Pod, bool) {
	p := w.pods.get(uid)
	if p == nil || p.facts.Terminal {
		return cluster.Pod{}, false
	}
	role := w.podReplacements.roleOf(uid)
	key, nominated := w.nominations.of(uid)
	if p.Spec.NodeName == "" && !p.facts.Provisionable && !(role == replacing && nominated && p.mayBeBound()) {
		return cluster.Pod{}, false
	}
	now := time.Now()
	out := w.convert.Pod(p.Pod, now)
	w.volumes.mount(&out, p.Pod)
	blocked := w.protections.record(uid, p, now)
	out.ReschedulableNow = role != superseded && (out.ReschedulableNow && !blocked || w.losesNode(p))
	switch {
	case role == evicting && p.facts.Terminating:
		out.ReschedulableNow, out.Terminating = true, false
	case role == superseded && p.facts.Terminating:
		out.ExclusiveClaims = nil // its replacement takes them over as soon as it is gone
	}
	if role != evicting && p.facts.Terminating && p.facts.ReplacedAtOnce {
		out.Owner = "" // its owner owes the next one already
	}
	if nominated {
		node, _ := w.builder.node(key)
		out.Node, out.ReschedulableNow = node.Name, true
	}
	return out, true
}

// losesNode reports whether a bound pod needs a new node because the cloud interrupts its node:
// no annotation or PodDisruptionBudget prevents that.
func (w *podWriter) losesNode(p *knownPod) bool {
	return p.facts.Reschedulable && w.nodes.interrupted(p.Spec.NodeName) && w.builder.markedForDeletion(w.nodes.key(p.Spec.NodeName))
}

// removeNominations ends every nomination to a node and returns the pods that need capacity again.
func (w *podWriter) removeNominations(key string) (waiting []string) {
	return w.writeAll(w.nominations.removeAll(key))
}

// reschedulablePods lists the pods on a node, by its name, that need another one when it is
// removed.
func (w *podWriter) reschedulablePods(node string) (uids []string) {
	for uid := range w.pods.on(node) {
		if p, _ := w.builder.pod(uid); p.ReschedulableNow {
			uids = append(uids, uid)
		}
	}
	return uids
}

// tidy drops the values that the converter shares between pods once most pods that had them are
// deleted.
func (w *podWriter) tidy() {
	if w.convert.Shared() > 4*len(w.builder.pods)+spareEntries {
		w.convert = kube.Converter{}
	}
}
