// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"fmt"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// view is the cluster as one round sees it.
type view struct {
	now      time.Time
	round    int
	byClaim  map[string]kube.ManagedNode // by name of the NodeClaim
	nodes    []disrupt.Node              // those with a Node and a NodePool, by key
	pools    map[string]disrupt.Pool
	revision uint64 // of the mirror, no newer than the rest of the view
	// readyWithin is how long replacements may take from their creation until they are ready.
	readyWithin time.Duration
}

// observer makes views.
type observer struct {
	mirror  *state.Mirror
	buffers *buffer.Keeper
	events  *events.Recorder
	// expectedStay is disrupt.Settings.ExpectedStay.
	expectedStay time.Duration
}

func (o *observer) observe(now time.Time, round int) *view {
	v := &view{now: now, round: round, byClaim: map[string]kube.ManagedNode{}, pools: map[string]disrupt.Pool{}, revision: o.mirror.Revision()}
	var nodes []kube.ManagedNode
	for _, node := range o.mirror.ManagedNodes() {
		v.byClaim[node.Claim.Name] = node
		if node.Node == nil || node.InSnapshot.Pool == "" {
			continue // there is no node to delete yet, or no NodePool whose rules hold for it
		}
		nodes = append(nodes, node)
	}
	softExpiry := map[string]bool{}
	for _, p := range o.mirror.Pools() { // those without nodes, too: replacements may be launched there
		v.pools[p.Name], softExpiry[p.Name] = o.pool(p, now), kube.SoftExpiry(p)
	}
	stays := kube.Stays{Lifetimes: o.mirror.Lifetimes(), Expected: o.expectedStay}
	v.nodes = make([]disrupt.Node, len(nodes))
	panics.Each(len(nodes), func(i int) {
		v.nodes[i] = kube.DisruptionNode(nodes[i], o.mirror.PDBs(), stays, softExpiry[nodes[i].InSnapshot.Pool], now)
		v.nodes[i].HasBufferCapacity = o.buffers.Holds(v.nodes[i].Key)
	})
	return v
}

// pool reads a NodePool, and publishes an event for each setting that cannot be read.
func (o *observer) pool(p *karpv1.NodePool, now time.Time) disrupt.Pool {
	pool, problems := kube.DisruptionPool(p, now)
	for _, problem := range problems {
		o.events.Publish(events.Event{About: p, Warning: true, Reason: "InvalidDisruptionSettings", Every: repeatKept,
			Message: fmt.Sprintf("The NodePool's disruption settings cannot be read: %v", problem)})
	}
	return pool
}

// deletedOrDeleting reports whether the NodeClaim or its Node is being deleted, or the NodeClaim is
// deleted.
func deletedOrDeleting(node kube.ManagedNode) bool {
	return node.Claim == nil || node.Claim.DeletionTimestamp != nil || node.Node != nil && node.Node.DeletionTimestamp != nil
}

// deletedOrDeleting lists the move's nodes that are being deleted, by karve or by others, or are
// deleted.
func (v *view) deletedOrDeleting(m *move) []string {
	var keys []string
	for _, key := range m.Nodes {
		if deletedOrDeleting(v.byClaim[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// anyExists reports whether any of the NodeClaims is still there.
func (v *view) anyExists(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { _, ok := v.byClaim[key]; return ok })
}

// showsMarks reports whether a node that is not being deleted shows a mark of a move: the
// annotation or the condition on its NodeClaim, or the taint on its Node.
func showsMarks(node kube.ManagedNode) bool {
	return !deletedOrDeleting(node) && (node.Claim.Annotations[kube.MoveAnnotation] != "" || tainted(node.Node) ||
		kube.ConditionTrue(node.Claim, karpv1.ConditionTypeDisruptionReason))
}

// unmarked reports whether no node of the move shows marks any more.
func (v *view) unmarked(m *move) bool {
	return !slices.ContainsFunc(m.all, func(key string) bool { return showsMarks(v.byClaim[key]) })
}

// stillCounted lists nodes that have left the move but do not look like it in the view. A node
// whose NodeClaim was deleted after the view was taken counts as disrupted all the same. While a
// node shows marks of this move, marks of another move could not be distinguished from those that
// must be removed.
func (v *view) stillCounted(m *move) []string {
	var keys []string
	for _, key := range m.all {
		node := v.byClaim[key]
		if (m.dropped[key] || m.phase == ended) && !deletedOrDeleting(node) && (m.round == v.round || showsMarks(node)) {
			keys = append(keys, key)
		}
	}
	return keys
}
