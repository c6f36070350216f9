// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"time"

	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedsim"
)

// Input is what disruption decisions need besides the snapshot: which nodes may be disrupted,
// when, how many at once, and at what cost. Nodes and Pools may be in any order.
type Input struct {
	Now   time.Time
	Nodes []Node
	Pools []Pool
	// Underway are moves that were decided before and have not ended. Their nodes count as
	// removed, and their pods as running on the nodes that the moves planned for them.
	Underway []Move
	// BackOffUntil is, by node key, until when a node with a failed move is left alone.
	BackOffUntil map[string]time.Time
	Settings     Settings
}

// Cause is why a node is disrupted. Values are spelled like Karpenter's reasons in budgets,
// conditions and events; metrics have them in lower case.
type Cause string

const (
	Empty   Cause = "Empty"
	Drifted Cause = "Drifted"
	// Expired is past expireAfter in a pool that asks for soft expiry (kube.SoftExpiry): the node
	// is replaced like a drifted one, not deleted, and budgets count it as Drifted.
	Expired       Cause = "Expired"
	Underutilized Cause = "Underutilized"
)

// Node is a node of a pool: what decisions need besides its cluster.Node in the snapshot.
type Node struct {
	Key  string // cluster.Node.Key
	Name string // name of the Kubernetes Node, for messages
	Pool string

	Created time.Time
	// Initialized is when the node was initialized; zero while it is not.
	Initialized time.Time
	// Ready is the node's Ready condition now.
	Ready bool
	// MarkedForDeletion is set once the node is deleted; Terminating once its instance is
	// terminating.
	MarkedForDeletion, Terminating bool
	// LastPodEvent is when a pod was last bound to the node or left it, or when the node was
	// initialized.
	LastPodEvent time.Time
	// ExpireAfter is the node's maximum lifetime; zero means no limit.
	ExpireAfter time.Duration
	// HasTerminationGracePeriod is set when the node has a terminationGracePeriod: drift then does
	// not wait for pods that block eviction.
	HasTerminationGracePeriod bool

	ReschedulablePods
	// Nominated is set while pods are nominated to the node; NominatedUntil is when that lapses by
	// itself, zero when it does not.
	Nominated      bool
	NominatedUntil time.Time
	// HasBufferCapacity is set while the node keeps free capacity for capacity buffers: it is then
	// neither removed as empty nor consolidated, but still replaced when due.
	HasBufferCapacity bool
	// PriceUnknownDetail says why the node's price is unknown; empty when the price is known.
	PriceUnknownDetail string
	// Blocks are the reasons to leave the node alone, in a fixed order.
	Blocks []Block
	// PDBs are the PodDisruptionBudgets of the node's pods that allow some evictions. They may not
	// allow all at once: the other pods are evicted later.
	PDBs []PDB
	// Due are the causes for which the node must be replaced whatever it costs, oldest first.
	Due []DueCause
}

// ReschedulablePods sums up the pods that need another node when theirs is removed.
type ReschedulablePods struct {
	Pods int
	// EvictionCost is what evicting them costs: the sum of Karpenter's eviction costs (1 for an
	// ordinary pod, -10 to 10), with negative ones counted as 0.
	EvictionCost float64
	// ShortStayCost is what it costs beyond that because some may be expected to leave soon; see the
	// function. ShortestStay is how long the first of these may be expected to stay, and
	// ShortestStayPod its namespace and name.
	ShortStayCost   float64
	ShortestStay    time.Duration
	ShortestStayPod string
}

// PDB is a PodDisruptionBudget that selects pods of a node.
type PDB = schedsim.PDB

// Block is one reason to leave a node alone.
type Block struct {
	Because reason.Reason
	// Detail is the message of Karpenter's event.
	Detail string
	Facts  reason.Facts
	// Until is when the block lapses by itself; zero when it does not depend on time.
	Until time.Time
	// ByPod is set when the reason is a pod on the node and not the node itself: with a
	// terminationGracePeriod such a block does not stop drift.
	ByPod bool
}

// DueCause is one cause for which a node must be replaced.
type DueCause struct {
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

// Pool is what a NodePool says about disruption.
type Pool struct {
	Name string
	// Policy is WhenEmptyOrUnderutilized when empty.
	Policy Policy
	// ConsolidateAfter is how long a node must be quiet. ConsolidationDisabled, which overrides it,
	// is set for consolidateAfter: Never.
	ConsolidateAfter      time.Duration
	ConsolidationDisabled bool
	// Static pools keep a fixed number of nodes: these are replaced when due, but never
	// consolidated.
	Static  bool
	Budgets []Budget
	// MinSavings is what a move must save at least; nil means Settings.MinSavings.
	MinSavings *MinSavings
	// MinAge is how old a node must be before it is consolidated; negative means Settings.MinAge.
	MinAge time.Duration
	// BackOffUntil is until when no move is tried in the pool, because too many failed there.
	BackOffUntil time.Time
	// ConsolidationPausedUntil is until when underutilized nodes of the pool are left alone,
	// because the last consolidation there did not bring the expected result.
	ConsolidationPausedUntil time.Time
}

// Settings are the operator's settings.
type Settings struct {
	// MinSavings and MinAge apply to pools without their own.
	MinSavings MinSavings
	MinAge     time.Duration
	// ExpectedStay is how long pods must be expected to stay for their evictions not to cost more;
	// see ShortStayCost. It is used where Nodes are made.
	ExpectedStay time.Duration
	// SpotToSpot allows spot nodes to be replaced by cheaper spot nodes.
	SpotToSpot bool
	// Upstream restores Karpenter's exact rules where karve is more careful or does more: any
	// saving is enough, new nodes count like old ones, several nodes are replaced by at most
	// one, and spot is replaced by spot only with 15 cheaper instance types.
	Upstream bool
	// MaxSteps bounds how many sets of nodes one call tries; 0 means no bound.
	MaxSteps int
}
