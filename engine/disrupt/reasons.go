package disrupt

import "github.com/karve-dev/karve/engine/reason"

// Why a node is left alone whatever it is to go for. Values are part of karve's API:
// never renamed, never reused.
const (
	NoPool         reason.Reason = "NoPool"         // nobody's rules apply to it
	NotInitialized reason.Reason = "NotInitialized" // it is still on its way up
	AlreadyLeaving reason.Reason = "AlreadyLeaving" // it is on its way out
	MoveUnderway   reason.Reason = "MoveUnderway"   // a move of it was decided before
	Nominated      reason.Reason = "Nominated"      // pods were promised room on it
	DoNotDisrupt   reason.Reason = "DoNotDisrupt"   // the node or a pod asks to be left alone
	Budgeted       reason.Reason = "PodBudget"      // a PodDisruptionBudget lets no pod of it go
	ManyBudgets    reason.Reason = "ManyPodBudgets" // the eviction API refuses pods with several PodDisruptionBudgets
	SeveralNodes   reason.Reason = "SeveralNodes"   // which Node its machine is cannot be told
	Resting        reason.Reason = "Resting"        // a move of it, or too many in its pool, failed
)

// Why a node does not go for one cause.
const (
	NotDue          reason.Reason = "NotDue"          // nothing says that it must be replaced
	NotEmpty        reason.Reason = "NotEmpty"        // pods on it would need another home
	NotOccupied     reason.Reason = "NotOccupied"     // it is empty, and goes as such
	SpareRoom       reason.Reason = "SpareRoom"       // room is kept on it for what is to come
	Never           reason.Reason = "Never"           // the pool's consolidateAfter is Never
	OnlyEmpty       reason.Reason = "OnlyEmpty"       // the pool gives back empty nodes only
	Unpriced        reason.Reason = "Unpriced"        // nobody knows what it costs
	TooSoon         reason.Reason = "TooSoon"         // consolidateAfter has not passed since the last pod came or went
	Unsettled       reason.Reason = "Unsettled"       // what was consolidated in its pool had to be bought again
	TooYoung        reason.Reason = "TooYoung"        // it was bought a moment ago
	BudgetExhausted reason.Reason = "BudgetExhausted" // the pool may not lose another node now
	PoorScore       reason.Reason = "PoorScore"       // it saves too little for what it disturbs, by the pool's Balanced policy
	Scattered       reason.Reason = "Scattered"       // wherever the scheduler may put its pods, it would not pay
	TooDear         reason.Reason = "TooDear"         // it saves less than the pool asks for
)

// Event is the reason of the event that tells a node's owner why it stays, as
// Karpenter names them; empty when Karpenter tells nobody.
func Event(because reason.Reason) string {
	switch because {
	case NoPool, NotInitialized, AlreadyLeaving, Nominated, DoNotDisrupt, Budgeted, ManyBudgets, SeveralNodes:
		return "DisruptionBlocked"
	case "", MoveUnderway, Resting, NotDue, NotEmpty, NotOccupied, TooSoon, Unsettled, BudgetExhausted, reason.Static:
		return ""
	}
	return "Unconsolidatable"
}
