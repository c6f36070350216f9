// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"cmp"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// node is a node with its NodeClaim.
type node struct {
	key     string
	pool    *Pool
	version int // of the pool when it was ordered
	// acceptable are the offerings that may be launched, best first; offering is the launched one,
	// once it is known.
	acceptable []offering.Ref
	offering   offeringKey
	milli, mib int64 // allocatable, DaemonSet off

	created        time.Time
	initialized    time.Time // zero while it is not
	notReady       bool
	phase          nodePhase
	tainted        bool // karpenter.sh/disrupted
	doNotDisrupt   bool // annotated by a user
	stuckFinalizer bool // some finalizer is never removed

	lastPod        time.Time // a pod was bound or deleted
	pods           []*pod    // bound here, terminating ones included
	move           *move     // the move that disrupts it
	deadline       time.Time // when its terminationGracePeriod ends; zero for never
	replacementFor *move     // the move that launched it
}

// nodePhase is how far the deletion of a node has come.
type nodePhase int

const (
	present     nodePhase = iota
	deleting              // its claim was deleted, its pods are evicted
	terminating           // the instance is being deleted
	gone
)

func (n *node) isDeleting() bool { return n.phase >= deleting }

func (n *node) ready() bool {
	return !n.initialized.IsZero() && !n.notReady && n.phase < terminating
}

// schedulable reports whether the scheduler may use it.
func (n *node) schedulable() bool { return n.ready() && !n.tainted && !n.isDeleting() }

// quietSince is when a pod was last bound or deleted here.
func (n *node) quietSince() time.Time {
	if n.lastPod.After(n.initialized) {
		return n.lastPod
	}
	return n.initialized
}

// free is the node's free capacity.
func (n *node) free() (milli, mib int64, pods int) {
	milli, mib, pods = n.milli, n.mib, maxPods-1-len(n.pods)
	for _, p := range n.pods {
		milli, mib = milli-p.owner.Milli, mib-p.owner.MiB
	}
	return milli, mib, pods
}

// hasPods reports whether pods run there that would need another node.
func (n *node) hasPods() bool { return len(n.pods) > 0 }

// runs reports whether a pod of the workload is there, terminating or not.
func (n *node) runs(w *workload) bool {
	for _, p := range n.pods {
		if p.owner == w {
			return true
		}
	}
	return false
}

// podsNominatedElsewhere reports whether the node's pods are nominated to other nodes already.
func (n *node) podsNominatedElsewhere() bool { return n.move != nil && n.move.stage >= launched }

// largestFirst returns the node's pods in the order in which controller/termination evicts
// them.
func (n *node) largestFirst() []*pod {
	size := func(p *pod) float64 {
		return float64(p.owner.Milli)/float64(n.milli) + float64(p.owner.MiB)/float64(n.mib)
	}
	out := slices.Clone(n.pods)
	slices.SortStableFunc(out, func(a, b *pod) int { return cmp.Compare(size(b), size(a)) })
	return out
}
