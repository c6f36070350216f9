// SPDX-License-Identifier: Apache-2.0

package disrupt

import "github.com/karve-dev/karve/engine/reason"

// Reasons to leave a node alone whatever the cause. Values are part of karve's API: never
// renamed, never reused.
const (
	NoNodePool                   reason.Reason = "NoNodePool"                   // no NodePool of the cluster owns the node
	NotInitialized               reason.Reason = "NotInitialized"               // the node is not initialized yet
	MarkedForDeletion            reason.Reason = "MarkedForDeletion"            // the node is deleting or marked for deletion
	MoveInProgress               reason.Reason = "MoveInProgress"               // a move of the node was decided before
	Nominated                    reason.Reason = "Nominated"                    // the node is nominated for pending pods
	DoNotDisrupt                 reason.Reason = "DoNotDisrupt"                 // the node or a pod on it asks not to be disrupted
	PodDisruptionBudget          reason.Reason = "PodDisruptionBudget"          // a PodDisruptionBudget allows no eviction of its pods
	MultiplePodDisruptionBudgets reason.Reason = "MultiplePodDisruptionBudgets" // a pod has several PodDisruptionBudgets, which the eviction API refuses
	DuplicateNodes               reason.Reason = "DuplicateNodes"               // several Nodes match its instance
	BackingOff                   reason.Reason = "BackingOff"                   // a move of the node, or too many moves in its pool, failed
)

// Reasons why a node is not disrupted for one cause.
const (
	NoReplacementNeeded   reason.Reason = "NoReplacementNeeded"  // no cause requires its replacement
	NotEmpty              reason.Reason = "NotEmpty"             // pods on the node need another node
	NotOccupied           reason.Reason = "NotOccupied"          // the node is empty, and is handled as such
	BufferCapacity        reason.Reason = "BufferCapacity"       // the node keeps free capacity for capacity buffers
	ConsolidateAfterNever reason.Reason = "Never"                // the pool's consolidateAfter is Never
	WhenEmptyPolicy       reason.Reason = "WhenEmptyPolicy"      // the pool consolidates empty nodes only
	PriceUnknown          reason.Reason = "PriceUnknown"         // the node's price is unknown
	NotYetConsolidatable  reason.Reason = "NotYetConsolidatable" // consolidateAfter has not passed since the last pod was bound or left
	ConsolidationUndone   reason.Reason = "ConsolidationUndone"  // capacity that was consolidated in its pool had to be launched again
	RecentlyLaunched      reason.Reason = "RecentlyLaunched"     // the node was launched too recently
	BudgetExhausted       reason.Reason = "BudgetExhausted"      // the pool's budgets allow no further disruption now
	ScoreTooLow           reason.Reason = "ScoreTooLow"          // it saves too little for the disruption, by the pool's Balanced policy
	RehearsalFailed       reason.Reason = "RehearsalFailed"      // kube-scheduler may put its pods so that the move does not pay
	SavingsTooSmall       reason.Reason = "SavingsTooSmall"      // it saves less than the pool's minimum savings
	ShortLivedPods        reason.Reason = "ShortLivedPods"       // it saves too little in the time that its pods may be expected to stay
)

// Event is the reason of the event that Karpenter publishes for a node that is kept; empty when
// Karpenter publishes none.
func Event(because reason.Reason) string {
	switch because {
	case NoNodePool, NotInitialized, MarkedForDeletion, Nominated, DoNotDisrupt, PodDisruptionBudget, MultiplePodDisruptionBudgets, DuplicateNodes:
		return "DisruptionBlocked"
	case "", MoveInProgress, BackingOff, NoReplacementNeeded, NotEmpty, NotOccupied, NotYetConsolidatable, ConsolidationUndone, BudgetExhausted, reason.Static:
		return ""
	}
	return "Unconsolidatable"
}
