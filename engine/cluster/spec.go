package cluster

import (
	"time"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
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

// PodRef names a pod.
type PodRef struct{ Namespace, Name, UID string }

// Pod is a pod as the engine sees it.
type Pod struct {
	PodRef
	Created  time.Time
	Priority int32
	// Labels are the pod's own: selectors of spread and affinity look at them.
	Labels map[string]string
	// Requests is what the scheduler counts, including pods: 1.
	Requests quantity.Amounts
	// Required is nodeSelector as In rules: all must hold.
	Required Term
	// AnyOf are the OR-terms of required node affinity: one of them must hold.
	// Empty means no such affinity.
	AnyOf       []Term
	Tolerations []Toleration
	// Preferred are the preferred terms of node affinity.
	Preferred []PreferredSchedulingTerm
	// Spreads are the topology spread constraints, hard and soft.
	Spreads []TopologySpreadConstraint
	// Affinity and AntiAffinity are the terms of pod (anti-)affinity, required and
	// preferred.
	Affinity, AntiAffinity []PodAffinityTerm
	// Ports are the host ports of the pod's containers.
	Ports   []Port
	Volumes []Volume
	// Refused says why nothing can be planned for the pod whatever is on sale, for
	// instance a lost volume; empty when something can. RefusedDetail says it in words.
	Refused       reason.Reason
	RefusedDetail string
	RefusedFacts  reason.Facts // the parameters of RefusedDetail as data
	// Node is the node the pod is bound to, by name; empty while pending.
	Node string
	// DaemonSet is the UID of the DaemonSet that owns the pod; empty for all others.
	// A node keeps room for each matching DaemonSet until its pod is bound there.
	DaemonSet string
	// Movable is set on a bound pod that will need another home when its node
	// goes: not owned by a DaemonSet or the node itself, not finished.
	Movable bool
	// Terminating pods still use their node's room, but selectors do not see them.
	Terminating bool
	// Virtual pods stand for spare capacity that somebody asked to keep: they are
	// placed after all others of whatever priority and never promised to.
	Virtual bool
}

// PreferredSchedulingTerm is a node affinity term that should hold, the more the larger its weight.
type PreferredSchedulingTerm struct {
	Weight int32 // 1 to 100
	Term   Term
}

// Selector picks pods by namespace and label. One whose Namespaces are empty and
// whose NamespaceLabels are nil picks none.
type Selector struct {
	// Namespaces are admitted by name.
	Namespaces []string
	// NamespaceLabels admits the namespaces that carry these labels besides; nil
	// admits none, empty all.
	NamespaceLabels Term
	// Labels must all hold on the pod; empty picks every pod.
	Labels Term
	// Nothing is set for the selector that is not there: it picks no pod at all.
	Nothing bool
}

// TopologySpreadConstraint keeps the pods that Select picks evenly over the values of one node label.
type TopologySpreadConstraint struct {
	Key     string
	MaxSkew int32
	// MinDomains is how many values there must be before the least counts as more
	// than zero; 0 means 1.
	MinDomains int32
	Select     Selector // in the pod's own namespace; matchLabelKeys are merged in
	// Soft is ScheduleAnyway: a preference.
	Soft bool
	// IgnoreAffinity counts nodes that the pod's own nodeSelector and node affinity
	// keep it from (nodeAffinityPolicy: Ignore); HonorTaints leaves out those whose
	// taints it does not tolerate (nodeTaintsPolicy: Honor).
	IgnoreAffinity, HonorTaints bool
}

// PodAffinityTerm is one term of pod affinity or anti-affinity.
type PodAffinityTerm struct {
	Key    string // node label whose value is shared or not
	Select Selector
	// Weight is 0 for a required term and 1 to 100 for a preferred one.
	Weight int32
}

// Volume is a volume that a pod mounts.
type Volume struct {
	// ID identifies the volume for attach limits: two pods that mount the same on
	// one node attach it once.
	ID string
	// Driver is the CSI driver that attaches it; empty when nothing is attached.
	Driver string
	// Shared is set when other pods may mount it too.
	Shared bool
	// AnyOf are the places it can be mounted: one must hold. Empty means anywhere.
	AnyOf []Term
}

// DaemonSet is the pod that a DaemonSet will put on every node it matches.
type DaemonSet struct {
	PodRef      // of the DaemonSet
	Requests    quantity.Amounts
	Required    Term
	AnyOf       []Term
	Tolerations []Toleration
	Ports       []Port // host ports
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
	// use; quantity.Attachable resources that are not listed are unlimited. For a claim whose machine is not chosen yet Capacity is the largest and
	// Allocatable the smallest, per resource, over the types it accepts: limits stay
	// hard and promised room is really there.
	Capacity, Allocatable quantity.Amounts
	// Draws is what the node takes from the region's budgets, while the cloud does not count it yet.
	QuotaUses []offering.QuotaUse
	Price     offering.Price
	// Initialized nodes are filled first; others are on their way.
	Initialized bool
	// Leaving nodes take no new pods, and their movable pods need new homes.
	Leaving bool
	// Stuck nodes take no new pods either, though those they have stay: they should
	// have been initialized long since.
	Unschedulable bool
	// Claim is set when a NodeClaim stands behind the node.
	Claim bool
	// NominatedUntil protects the node from being taken as empty: pods were
	// promised room on it.
	NominatedUntil time.Time
	Created        time.Time
}

// NodePool is a NodePool.
type NodePool struct {
	Name   string
	Weight int32
	// Requirements are spec.template.spec.requirements; Labels the template's labels.
	Requirements Term
	Labels       map[string]string
	Taints       []Taint // startup taints are not part of the decision
	// Limits by resource name, in base units; quantity.NameNodes caps the number
	// of nodes. Nil means no limit.
	Limits quantity.Amounts
	// PodClass names the catalog the pool buys from (see Builder.SetCatalog).
	Class string
	// Blocked says why nothing may be bought for this pool now; empty when it may.
	Blocked reason.Reason
	// BlockedDetail says it in words, and BlockedFacts has the parameters as data.
	BlockedDetail string
	BlockedFacts  reason.Facts
	// Static pools keep a number of nodes whatever the pods: pending pods buy nothing there.
	Static bool
}

// PreferencePolicy says what becomes of what pods merely prefer.
type PreferencePolicy string

const (
	// Respect honours preferences, the heaviest first, while they cost little.
	Respect PreferencePolicy = "Respect"
	// Ignore leaves them to the scheduler.
	Ignore PreferencePolicy = "Ignore"
)

// UnlimitedSurplus honours every preference that can be honoured, whatever it costs.
const UnlimitedSurplus = -1

// Settings are the operator's wishes that hold for every pool.
type Settings struct {
	// Preferences is Respect when empty.
	Preferences PreferencePolicy
	// Surplus is how much more a plan may cost because it honours preferences, in
	// thousandths of what it would cost without; UnlimitedSurplus for no bound.
	Surplus int
	// RelaxMinValues lets a pool buy with less variety than its minValues ask for
	// when nothing else would do (MIN_VALUES_POLICY BestEffort).
	RelaxMinValues bool
}
