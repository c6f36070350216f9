package disrupt

import "github.com/karve-dev/karve/engine/reason"

// Reasons to leave a node alone whatever the cause. Values are part of karve's API: never
// renamed, never reused.
const (
	NoPool         reason.Reason = "NoPool"         // no known NodePool owns the node
	NotInitialized reason.Reason = "NotInitialized" // the node is not initialized yet
	AlreadyLeaving reason.Reason = "AlreadyLeaving" // the node is deleting or marked for deletion
	MoveUnderway   reason.Reason = "MoveUnderway"   // a move of the node was decided before
	Nominated      reason.Reason = "Nominated"      // the node is nominated for pending pods
	DoNotDisrupt   reason.Reason = "DoNotDisrupt"   // the node or a pod on it asks not to be disrupted
	Budgeted       reason.Reason = "PodBudget"      // a PodDisruptionBudget allows no eviction of its pods
	ManyBudgets    reason.Reason = "ManyPodBudgets" // a pod has several PodDisruptionBudgets, which the eviction API refuses
	SeveralNodes   reason.Reason = "SeveralNodes"   // several Nodes match its instance
	Resting        reason.Reason = "Resting"        // a move of the node, or too many moves in its pool, failed
)

// Reasons why a node does not go for one cause.
const (
	NotDue          reason.Reason = "NotDue"          // no cause requires its replacement
	NotEmpty        reason.Reason = "NotEmpty"        // pods on the node need another node
	NotOccupied     reason.Reason = "NotOccupied"     // the node is empty, and is handled as such
	SpareRoom       reason.Reason = "SpareRoom"       // the node keeps free capacity for capacity buffers
	Never           reason.Reason = "Never"           // the pool's consolidateAfter is Never
	OnlyEmpty       reason.Reason = "OnlyEmpty"       // the pool consolidates empty nodes only
	Unpriced        reason.Reason = "Unpriced"        // the node's price is unknown
	TooSoon         reason.Reason = "TooSoon"         // consolidateAfter has not passed since the last pod came or went
	Unsettled       reason.Reason = "Unsettled"       // capacity that was consolidated in its pool had to be launched again
	TooYoung        reason.Reason = "TooYoung"        // the node was launched too recently
	BudgetExhausted reason.Reason = "BudgetExhausted" // the pool's budgets allow no further disruption now
	PoorScore       reason.Reason = "PoorScore"       // it saves too little for the disruption, by the pool's Balanced policy
	Scattered       reason.Reason = "Scattered"       // wherever kube-scheduler may put its pods, the move does not pay
	TooDear         reason.Reason = "TooDear"         // it saves less than the pool's minimum savings
)

// Event is the reason of the event that Karpenter publishes for a node that stays; empty when
// Karpenter publishes none.
func Event(because reason.Reason) string {
	switch because {
	case NoPool, NotInitialized, AlreadyLeaving, Nominated, DoNotDisrupt, Budgeted, ManyBudgets, SeveralNodes:
		return "DisruptionBlocked"
	case "", MoveUnderway, Resting, NotDue, NotEmpty, NotOccupied, TooSoon, Unsettled, BudgetExhausted, reason.Static:
		return ""
	}
	return "Unconsolidatable"
}
