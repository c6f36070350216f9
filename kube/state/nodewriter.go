// SPDX-License-Identifier: Apache-2.0

package state

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// StuckAfter is the age from which a node that is not initialized is expected never to be: no
// pod is nominated to it any more.
const StuckAfter = 15 * time.Minute

// nodeWriter writes nodes to the snapshot, and the pods that a change of a node concerns.
type nodeWriter struct {
	nodes       *nodeStore
	catalogs    *catalogs
	nominations *nominations
	builder     *builder
	podWriter   *podWriter
}

// writeNode updates a Node in the snapshot, with its NodeClaim if it has one. Like all writers
// it returns the pods that start to need capacity.
func (w *nodeWriter) writeNode(n *corev1.Node) (waiting []string) {
	if claim, ok := w.nodes.claimNameWithID(n.Spec.ProviderID); ok {
		w.builder.removeNode(n.Name) // it counted as unmanaged while it had no provider ID
		return w.writeClaim(claim)
	}
	unmanaged := kube.Node(n, nil, nil, nil)
	w.catalogs.limits.apply(&unmanaged, nil)
	return w.write(unmanaged)
}

// writeClaim updates a NodeClaim in the snapshot, with its Node if there is one. It ignores the
// name of a claim that does not exist, and removes one that is superfluous.
func (w *nodeWriter) writeClaim(name string) (waiting []string) {
	c := w.nodes.claim(name)
	if c == nil {
		return nil
	}
	if w.nodes.superfluous(c) {
		w.builder.removeNode(name)
		return w.podWriter.removeNominations(name)
	}
	return w.write(w.catalogs.convertNode(w.nodes.nodeWithID(c.Status.ProviderID), c))
}

// write updates one node in the snapshot, and the pods nominated to it when the name that they
// count under changes.
func (w *nodeWriter) write(n cluster.Node) (waiting []string) {
	old, had := w.builder.node(n.Key)
	if n.Initialized && had && !old.Initialized && len(w.nominations.to(n.Key)) > 0 {
		w.nominations.extend(n.Key, time.Now().Add(NominatedFor)) // the scheduler can bind only from now on
	}
	n.NominatedUntil = w.nominations.until(n.Key)
	n.MarkedForDeletion = n.MarkedForDeletion || w.nodes.isMoving(n.Key)
	n.TakesNoPods = stuck(n, time.Now())
	if had && reflect.DeepEqual(old, n) {
		return nil
	}
	w.builder.setNode(n)
	if old.Name != n.Name {
		for uid := range w.nominations.to(n.Key) {
			w.podWriter.write(uid) // none of them waits: they are nominated
		}
	}
	if !n.MarkedForDeletion || old.MarkedForDeletion {
		return nil
	}
	if kube.Interrupted(w.nodes.claim(n.Key)) {
		w.podWriter.writeBoundTo(n.Name)
	}
	return append(w.podWriter.removeNominations(n.Key), w.podWriter.reschedulablePods(n.Name)...)
}

// writeStuck updates the nodes in the snapshot that have become stuck.
func (w *nodeWriter) writeStuck(now time.Time) (waiting []string) {
	for key := range w.builder.starting {
		if n, _ := w.builder.node(key); !n.TakesNoPods && stuck(n, now) {
			waiting = append(waiting, w.write(n)...)
		}
	}
	return waiting
}

func stuck(n cluster.Node, now time.Time) bool {
	return !n.Initialized && !n.Created.IsZero() && now.Sub(n.Created) > StuckAfter
}
