// SPDX-License-Identifier: Apache-2.0

package state

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// podWriter writes pods to the snapshot: each by its object, the promises made to it, its
// replacement, its volumes and its node.
type podWriter struct {
	pods         *podStore
	nodes        *nodeStore
	promises     *promises
	replacements *replacements
	protections  *protections
	volumes      *volumes
	snapshot     *snapshot
	convert      kube.Converter
}

// write updates one pod in the snapshot and returns its UID when it starts to need capacity.
func (w *podWriter) write(uid string) []string {
	now, ok := w.convertPod(uid)
	old, had := w.snapshot.pod(uid)
	switch {
	case !ok && had:
		w.snapshot.removePod(uid)
		w.protections.release(uid)
		return nil
	case !ok || had && reflect.DeepEqual(old, now):
		return nil
	}
	w.snapshot.setPod(now)
	if now.Reschedulable && had && !old.Reschedulable && w.snapshot.leaving(w.nodes.key(now.Node)) {
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

// writeOn does the same for the pods bound to a node, by its name.
func (w *podWriter) writeOn(node string) {
	for uid := range w.pods.on(node) {
		w.write(uid)
	}
}

// convertPod is the pod as the snapshot should show it; false when it should not be there.
func (w *podWriter) convertPod(uid string) (cluster.Pod, bool) {
	p := w.pods.get(uid)
	if p == nil || kube.Terminal(p) {
		return cluster.Pod{}, false
	}
	if p.Spec.NodeName == "" && !kube.Provisionable(p) && !w.expected(p) {
		return cluster.Pod{}, false
	}
	out := w.convert.Pod(p, time.Now())
	w.volumes.mount(&out, p)
	held := w.protections.record(uid, p)
	out.Reschedulable = (out.Reschedulable && !held || w.losesNode(p)) && !w.replacements.isSuperseded(uid)
	if w.replacements.counts(p) {
		out.Reschedulable, out.Terminating = true, false
	}
	if key, ok := w.promises.of(uid); ok {
		node, _ := w.snapshot.node(key)
		out.Node, out.Reschedulable = node.Name, true
	}
	return out, true
}

// expected reports whether capacity is promised to a replacement pod that the scheduler has not
// tried yet.
func (w *podWriter) expected(p *corev1.Pod) bool {
	_, replaces := w.replacements.evictedBy(string(p.UID))
	_, promised := w.promises.of(string(p.UID))
	return replaces && promised && p.DeletionTimestamp == nil && p.Status.NominatedNodeName == ""
}

// losesNode reports whether a bound pod needs a new node because the cloud interrupts its node:
// no annotation or PodDisruptionBudget prevents that.
func (w *podWriter) losesNode(p *corev1.Pod) bool {
	return kube.NeedsNode(p) && w.nodes.interrupted(p) && w.snapshot.leaving(w.nodes.key(p.Spec.NodeName))
}

// release ends every promise on a node and returns the pods that need capacity again.
func (w *podWriter) release(key string) (waiting []string) {
	return w.writeAll(w.promises.endAll(key))
}

// movable lists the pods on a node, by its name, that need another one when it is removed.
func (w *podWriter) movable(node string) (uids []string) {
	for uid := range w.pods.on(node) {
		if p, _ := w.snapshot.pod(uid); p.Reschedulable {
			uids = append(uids, uid)
		}
	}
	return uids
}

// tidy drops the values that the converter shares between pods once most pods that had them are
// deleted.
func (w *podWriter) tidy() {
	if w.convert.Shared() > 4*len(w.snapshot.pods)+spareNumbers {
		w.convert = kube.Converter{}
	}
}
