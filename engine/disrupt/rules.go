// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"fmt"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/reason"
)

// Eligible reports whether the node may be disrupted for that cause, as far as the node and its
// pool decide it. If not, Kept is the first reason, with Karpenter's text where Karpenter has
// one. The order is Karpenter's too: reasons against every cause precede the others.
//
// Budgets, prices and free capacity elsewhere are checked separately. p is nil when the pool is
// not known.
func Eligible(n *Node, p *Pool, cause Cause, in *Input) (Kept, bool) {
	kept := keptForAnyCause(n, p, cause, in)
	if kept.Because == "" && cause.respectsBlocks() {
		kept = keptFromConsolidation(n, p, cause, in)
	}
	if kept.Because == "" && !cause.respectsBlocks() {
		kept = notDue(n, cause)
	}
	kept.Key = n.Key
	return kept, kept.Because == ""
}

// respectsBlocks reports whether the cause respects every pod that blocks disruption. The other
// causes ignore such pods on nodes with a terminationGracePeriod.
func (c Cause) respectsBlocks() bool { return c == Empty || c == Underutilized }

// keptForAnyCause returns the first reason that holds for every cause.
func keptForAnyCause(n *Node, p *Pool, cause Cause, in *Input) Kept {
	switch {
	case underway(n.Key, in.Underway):
		return Kept{Because: MoveInProgress, Detail: "A move of the node is under way"}
	case n.Initialized.IsZero():
		return Kept{Because: NotInitialized, Detail: "Node isn't initialized"}
	case n.MarkedForDeletion || n.Terminating:
		return Kept{Because: MarkedForDeletion, Detail: "Node is deleting or marked for deletion"}
	case n.Nominated:
		return Kept{Because: Nominated, Detail: "Node is nominated for a pending pod", Until: n.NominatedUntil}
	}
	if b := n.firstBlock(false); b != nil {
		return b.kept()
	}
	switch {
	case n.Pool == "":
		return Kept{Because: NoNodePool, Detail: "Node doesn't have required label (label=karpenter.sh/nodepool)"}
	case p == nil:
		return Kept{Because: NoNodePool, Detail: fmt.Sprintf("NodePool not found (NodePool=%s)", n.Pool)}
	}
	if b := n.firstBlock(true); b != nil && (cause.respectsBlocks() || !n.HasTerminationGracePeriod) {
		return b.kept()
	}
	return backingOff(n, p, in)
}

func underway(key string, moves []Move) bool {
	for i := range moves {
		if _, found := slices.BinarySearch(moves[i].Nodes, key); found {
			return true
		}
	}
	return false
}

// firstBlock is the first block whose reason is a pod (with byPod), or the node itself.
func (n *Node) firstBlock(byPod bool) *Block {
	for i := range n.Blocks {
		if n.Blocks[i].ByPod == byPod {
			return &n.Blocks[i]
		}
	}
	return nil
}

func (b *Block) kept() Kept {
	return Kept{Because: b.Because, Detail: b.Detail, Facts: b.Facts, Until: b.Until}
}

// backingOff keeps the node from every cause while a move of it or of its pool failed recently.
func backingOff(n *Node, p *Pool, in *Input) Kept {
	if until := in.BackOffUntil[n.Key]; in.Now.Before(until) {
		return Kept{Because: BackingOff, Detail: "A move of the node failed, it is tried again later", Until: until}
	}
	if in.Now.Before(p.BackOffUntil) {
		return Kept{Because: BackingOff, Detail: fmt.Sprintf("Moves in NodePool %q failed, it is tried again later", p.Name), Until: p.BackOffUntil}
	}
	return Kept{}
}

func notDue(n *Node, cause Cause) Kept {
	if slices.ContainsFunc(n.Due, func(d DueCause) bool { return d.Cause == cause }) {
		return Kept{}
	}
	return Kept{Because: NoReplacementNeeded}
}

// keptFromConsolidation returns the first reason not to consolidate the node.
func keptFromConsolidation(n *Node, p *Pool, cause Cause, in *Input) Kept {
	switch {
	case p.Static:
		return Kept{Because: reason.Static, Detail: fmt.Sprintf("NodePool %q keeps a fixed number of nodes", p.Name)}
	case cause == Underutilized && n.PriceUnknownDetail != "":
		return Kept{Because: PriceUnknown, Detail: n.PriceUnknownDetail}
	case p.ConsolidationDisabled:
		return Kept{Because: ConsolidateAfterNever, Detail: fmt.Sprintf("NodePool %q has consolidation disabled", p.Name)}
	case n.HasBufferCapacity:
		return Kept{Because: BufferCapacity, Detail: fmt.Sprintf("Node %q has buffer pods", n.Name)}
	}
	if kept := occupancy(n, p, cause, in.Settings); kept.Because != "" {
		return kept
	}
	if at, ok := Consolidatable(n, p, in.Now); !ok {
		return Kept{Because: NotYetConsolidatable, Until: at,
			Detail: fmt.Sprintf("Quiet for %s of %s", in.Now.Sub(n.LastPodEvent).Truncate(time.Second), p.ConsolidateAfter)}
	}
	if cause == Underutilized && in.Now.Before(p.ConsolidationPausedUntil) {
		return Kept{Because: ConsolidationUndone, Until: p.ConsolidationPausedUntil,
			Detail: fmt.Sprintf("The last consolidation in NodePool %q did not come true, it is tried again later", p.Name)}
	}
	if cause == Underutilized {
		return belowMinAge(n, p, in)
	}
	return Kept{}
}

// occupancy keeps empty nodes from other causes, and other nodes from being removed as empty.
func occupancy(n *Node, p *Pool, cause Cause, s Settings) Kept {
	empty := IsEmpty(n, s)
	switch {
	case cause == Empty && !empty:
		return Kept{Because: NotEmpty, Detail: fmt.Sprintf("%d pods need another node", n.Pods)}
	case cause == Underutilized && empty:
		return Kept{Because: NotOccupied}
	case cause == Underutilized && p.Policy == WhenEmpty:
		return Kept{Because: WhenEmptyPolicy, Detail: fmt.Sprintf("NodePool %q has consolidation policy WhenEmpty, but node is not empty", p.Name)}
	}
	return Kept{}
}

// IsEmpty reports whether the node counts as empty: no pod on it needs another node. Karpenter
// instead asks whether eviction costs anything, so it also treats a node as empty when all its
// pods have an eviction cost of zero or less.
func IsEmpty(n *Node, s Settings) bool { return n.Pods == 0 || s.Upstream && n.EvictionCost <= 0 }

// Consolidatable reports whether no pod was bound to the node or left it for the pool's
// consolidateAfter, and the time from which that holds or will hold. This is the Consolidatable
// condition of a NodeClaim.
func Consolidatable(n *Node, p *Pool, now time.Time) (at time.Time, ok bool) {
	at = n.LastPodEvent.Add(p.ConsolidateAfter)
	return at, !n.Initialized.IsZero() && !p.ConsolidationDisabled && !p.Static && !now.Before(at)
}

// belowMinAge keeps nodes below the minimum age: the pods that they were launched for may not be
// bound yet. Karpenter has no minimum age.
func belowMinAge(n *Node, p *Pool, in *Input) Kept {
	minAge := p.MinAge
	if minAge < 0 {
		minAge = in.Settings.MinAge
	}
	if reached := n.Created.Add(minAge); in.Now.Before(reached) && !in.Settings.Upstream {
		return Kept{Because: RecentlyLaunched, Until: reached,
			Detail: fmt.Sprintf("Node is %s old, NodePool %q asks for %s", in.Now.Sub(n.Created).Truncate(time.Second), p.Name, minAge)}
	}
	return Kept{}
}

// CanReceive reports whether pods of consolidated nodes may move to the node, as far as the
// node and its pool decide it. A node cannot receive pods before it is initialized, while it is
// leaving or in a move itself, or until consolidateAfter has passed since the last pod was
// bound or left: until then it may become empty or fill up. Static pools and consolidateAfter:
// Never have no such wait.
func CanReceive(n *Node, p *Pool, in *Input) bool {
	if n.Initialized.IsZero() || n.MarkedForDeletion || n.Terminating || underway(n.Key, in.Underway) {
		return false
	}
	return p == nil || p.Static || p.ConsolidationDisabled || !in.Now.Before(n.LastPodEvent.Add(p.ConsolidateAfter))
}
