package world

import (
	"time"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// Label keys that the engine itself gives meaning to.
const (
	LabelPool         = "karpenter.sh/nodepool"
	LabelCapacityType = "karpenter.sh/capacity-type"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelHostname     = "kubernetes.io/hostname"
)

// Term is a conjunction of label requirements.
type Term []constraint.Rule

// Effect of a taint, spelled as Kubernetes spells it.
type Effect string

const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint keeps pods that do not tolerate it away from a node.
type Taint struct {
	Key, Value string
	Effect     Effect
}

// Toleration lets a pod ignore a taint. Operator is "Exists" or "Equal" (also
// when empty); an empty Key with Exists matches every taint, an empty Effect
// every effect.
type Toleration struct {
	Key, Operator, Value string
	Effect               Effect
}

// Ref names a pod.
type Ref struct{ Namespace, Name, UID string }

// Pod is a pod as the engine sees it.
type Pod struct {
	Ref
	Created  time.Time
	Priority int32
	// Requests is what the scheduler counts, including pods: 1.
	Requests quantity.Amounts
	// Required is nodeSelector as In rules: all must hold.
	Required Term
	// AnyOf are the OR-terms of required node affinity: one of them must hold.
	// Empty means no such affinity.
	AnyOf       []Term
	Tolerations []Toleration
	// Unplanned lists, in words, the constraints of the pod that this version
	// cannot plan for ("pod anti-affinity", …). A pod that has one is left out
	// with a reason rather than placed wrongly.
	Unplanned []string
	// Node is the node the pod is bound to, by name; empty while pending.
	Node string
	// Daemon is the UID of the DaemonSet that owns the pod; empty for all others.
	// A node keeps room for each matching DaemonSet until its pod is bound there.
	Daemon string
	// Movable is set on a bound pod that will need another home when its node
	// goes: not owned by a DaemonSet or the node itself, not finished.
	Movable bool
}

// Daemon is the pod that a DaemonSet will put on every node it matches.
type Daemon struct {
	Ref         // of the DaemonSet
	Requests    quantity.Amounts
	Required    Term
	AnyOf       []Term
	Tolerations []Toleration
}

// Node is a machine that exists or is on its way.
type Node struct {
	// Key identifies the node for its whole life: the NodeClaim's name where there
	// is one, else the Node's name.
	Key string
	// Name is the Kubernetes Node's name; empty until it registers.
	Name string
	Pool string // owning NodePool; empty for nodes karve does not manage
	// Labels and Taints as the scheduler will see them once the node is
	// initialized: startup and ephemeral taints are left out before.
	Labels map[string]string
	Taints []Taint
	// Capacity is what counts against the pool's limits, Allocatable what pods can
	// use. For a claim whose machine is not chosen yet Capacity is the largest and
	// Allocatable the smallest, per resource, over the types it accepts: limits stay
	// hard and promised room is really there.
	Capacity, Allocatable quantity.Amounts
	// Draws is what the node takes from the region's budgets, while the cloud does not count it yet.
	Draws []offer.Draw
	Price offer.Price
	// Initialized nodes are filled first; others are on their way.
	Initialized bool
	// Leaving nodes take no new pods, and their movable pods need new homes.
	Leaving bool
	// Stuck nodes take no new pods either, though those they have stay: they should
	// have been initialized long since.
	Stuck bool
	// Claim is set when a NodeClaim stands behind the node.
	Claim bool
	// NominatedUntil protects the node from being taken as empty: pods were
	// promised room on it.
	NominatedUntil time.Time
	Created        time.Time
}

// Pool is a NodePool.
type Pool struct {
	Name   string
	Weight int32
	// Requirements are spec.template.spec.requirements; Labels the template's labels.
	Requirements Term
	Labels       map[string]string
	Taints       []Taint // startup taints are not part of the decision
	// Limits by resource name, in base units; quantity.NameNodes caps the number
	// of nodes. Nil means no limit.
	Limits quantity.Amounts
	// Class names the catalog the pool buys from (see Builder.SetCatalog).
	Class string
	// Blocked says why nothing may be bought for this pool now; empty when it may.
	Blocked reason.Reason
	// BlockedDetail says it in words.
	BlockedDetail string
}
