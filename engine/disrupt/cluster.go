package disrupt

import (
	"time"

	"github.com/karve-dev/karve/engine/reason"
)

// Cluster is what decides about nodes besides the World: who may be disturbed, when,
// how many at once, and for how much. Nodes and Pools are in no particular order.
type Cluster struct {
	Now   time.Time
	Nodes []Node
	Pools []Pool
	// Underway are moves that were decided before and have not ended. Their nodes count
	// as gone, their pods as being where the moves take them.
	Underway []Move
	// Resting are nodes of which a move failed: they are left alone until then, by key.
	Resting  map[string]time.Time
	Settings Settings
}

// Cause is why a node is to go. Spelled as Karpenter spells the reasons of its budgets,
// conditions and events; metrics have them in lower case.
type Cause string

const (
	Empty         Cause = "Empty"
	Drifted       Cause = "Drifted"
	Expired       Cause = "Expired" // soft expiry; budgets count it as Drifted
	Underutilized Cause = "Underutilized"
)

// Node is a node of a pool as far as the World does not know it.
type Node struct {
	Key  string // cluster.Node.Key
	Name string // of the Kubernetes Node, for texts
	Pool string

	Created time.Time
	// Initialized is when it became ready for pods; zero while it is not.
	Initialized time.Time
	// Ready is what the kubelet says now.
	Ready bool
	// Leaving is set once somebody deleted it; Terminating when its machine is going already.
	Leaving, Terminating bool
	// QuietSince is when a pod last came or went, or the node became ready.
	QuietSince time.Time
	// ExpireAfter is its life; zero means for ever.
	ExpireAfter time.Duration
	// Grace is set when it has a terminationGracePeriod: drift then need not wait for
	// pods that refuse to leave.
	Grace bool

	// Pods counts those that would need another home; Cost is what it costs to evict them:
	// upstream's eviction cost of each, 1 for an ordinary pod, -10 to 10, negative ones as 0.
	Pods int
	Cost float64
	// Promised is set while pods are expected on the node; PromisedUntil is when that
	// lapses by itself, zero when it does not.
	Promised      bool
	PromisedUntil time.Time
	// Spare is set while room is kept there for capacity buffers: the node is then neither
	// empty nor consolidated, but replaced when due.
	Spare bool
	// Unpriced says why nobody knows what the node costs; empty when that is known.
	Unpriced string
	// Blocks are who asks for the node to be left alone, in a fixed order.
	Blocks []Block
	// Guards are the PodDisruptionBudgets of its pods that let some go, though not all at once
	// perhaps: the others leave later.
	PDBs []PDB
	// Due are the causes for which it must be replaced whatever that costs, oldest first.
	Due []Due
}

// PDB is a PodDisruptionBudget, the pods of a node that it selects, by UID, and how many of all
// that it selects may be evicted now.
type PDB struct {
	Name    string
	Allowed int
	Pods    []string
}

// Block is one reason to leave a node alone.
type Block struct {
	Because reason.Reason
	// Detail is the text of Karpenter's event.
	Detail string
	Facts  reason.Facts
	// Until is when it lapses by itself; zero when it is not a matter of time.
	Until time.Time
	// Pod is set when a pod on the node is the reason, not the node itself: with a
	// terminationGracePeriod drift goes ahead all the same.
	Pod bool
}

// Due is one cause to replace a node.
type Due struct {
	Cause  Cause
	Detail string // NodePoolDrifted, ImageDrift, …
	Since  time.Time
}

// Policy is a pool's consolidationPolicy.
type Policy string

const (
	WhenEmpty                Policy = "WhenEmpty"
	WhenEmptyOrUnderutilized Policy = "WhenEmptyOrUnderutilized"
	Balanced                 Policy = "Balanced"
)

// Pool is what a NodePool says about losing nodes.
type Pool struct {
	Name string
	// Policy is WhenEmptyOrUnderutilized when empty.
	Policy Policy
	// ConsolidateAfter is how long a node must be quiet; Never overrides it.
	ConsolidateAfter time.Duration
	Never            bool
	// Static pools keep a number of nodes: theirs are replaced when due, and never consolidated.
	Static  bool
	Budgets []Budget
	// MinSavings is what a move must save at least; nil means Settings.MinSavings.
	MinSavings *MinSavings
	// MinAge is how old a node must be before it is consolidated; negative means Settings.MinAge.
	MinAge time.Duration
	// Resting is until when nothing is tried in the pool, because too much failed there.
	Resting time.Time
	// Unsettled is until when its underutilized nodes are left alone, because what was
	// consolidated there did not come true.
	Unsettled time.Time
}

// Settings are the operator's wishes.
type Settings struct {
	// MinSavings and MinAge hold for pools that say nothing else.
	MinSavings MinSavings
	MinAge     time.Duration
	// SpotToSpot lets spot nodes be replaced by cheaper spot nodes.
	SpotToSpot bool
	// Upstream restores Karpenter's rules exactly where karve is more careful or does
	// more: any saving pays, new nodes count like old ones, several nodes are replaced by
	// one at most, and spot by spot only with 15 cheaper types.
	Upstream bool
	// Steps bounds how many sets of nodes one call looks into; 0 means no bound.
	Steps int
}
