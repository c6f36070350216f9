// SPDX-License-Identifier: Apache-2.0

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
	LabelNodePool     = "karpenter.sh/nodepool"
	LabelHostname     = "kubernetes.io/hostname"
	LabelInstanceType = offering.LabelInstanceType
	LabelZone         = offering.LabelZone
	LabelCapacityType = offering.LabelCapacityType
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

// Toleration lets a pod ignore a taint. Operator is "Exists", "Equal" (also when empty), or "Lt"
// or "Gt", which compare integers. An empty Key with Exists matches every taint, an empty Effect
// every effect.
type Toleration struct {
	Key, Operator, Value string
	Effect               Effect
}

// PodRef names a pod.
type PodRef struct{ Namespace, Name, UID string }

// Pod is a Kubernetes Pod, as far as decisions look at it.
type Pod struct {
	PodRef
	Created  time.Time
	Priority int32
	// Labels are the pod's own: selectors of spread and affinity look at them.
	Labels map[string]string
	// Requests is what kube-scheduler counts, including pods: 1.
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
	// ExclusiveClaims are the PersistentVolumeClaims that the pod mounts and that one pod at a time
	// may use (ReadWriteOncePod), as namespace/name.
	ExclusiveClaims []string
	// Refused says why nothing can be planned for the pod, whatever offerings there are; a lost
	// volume is one such reason. It is empty when the pod can be planned for. RefusedDetail says
	// it in words.
	Refused       reason.Reason
	RefusedDetail string
	RefusedFacts  reason.Facts // the parameters of RefusedDetail as data
	// Node is the node the pod is bound to, by name; empty while pending.
	Node string
	// DaemonSet is the UID of the DaemonSet that owns the pod; empty for all other pods. A node
	// reserves capacity for each matching DaemonSet until its pod is bound there.
	DaemonSet string
	// ReschedulableNow is set on a bound pod that needs another node when its own node is
	// removed, and may be disrupted now: the pod is not owned by a DaemonSet or by the node
	// itself, has not finished, and neither do-not-disrupt nor a PodDisruptionBudget that
	// never allows it keeps it there (an interruption overrides both).
	ReschedulableNow bool
	// Terminating pods still use capacity of their node and count for pod (anti-)affinity, but
	// not for spread constraints.
	Terminating bool
	// Virtual pods stand for the spare capacity of a CapacityBuffer. They are placed after all
	// other pods, whatever the priority, and no node is nominated for them.
	Virtual bool
	// Owner is the UID of the controller that created the pod, a ReplicaSet for instance; empty when
	// there is none. See Builder.SetOwed.
	Owner string
}

// PreferredSchedulingTerm is a node affinity term that should hold; a larger weight matters
// more.
type PreferredSchedulingTerm struct {
	Weight int32 // 1 to 100
	Term   Term
}

// Selector selects pods by namespace and label. A Selector with empty Namespaces and nil
// NamespaceLabels selects no pod.
type Selector struct {
	// Namespaces are selected by name.
	Namespaces []string
	// NamespaceLabels selects, in addition, the namespaces with these labels. Nil selects no
	// namespace, empty selects all.
	NamespaceLabels Term
	// Labels must all hold on the pod; empty selects every pod in these namespaces.
	Labels Term
	// Nothing is set when the manifest has no selector (a nil LabelSelector), or an invalid
	// one: it selects no pod at all.
	Nothing bool
}

// TopologySpreadConstraint spreads the pods that Selector selects evenly over the values of one
// node label.
type TopologySpreadConstraint struct {
	Key     string
	MaxSkew int32
	// MinDomains is how many domains there must be: while there are fewer, the smallest
	// count is taken as zero. 0 means 1.
	MinDomains int32
	Selector   Selector // in the pod's own namespace; matchLabelKeys are merged in
	// Soft is ScheduleAnyway: a preference.
	Soft bool
	// IgnoreAffinity counts nodes that the pod's own nodeSelector and node affinity exclude
	// (nodeAffinityPolicy: Ignore). HonorTaints leaves out nodes whose taints the pod does not
	// tolerate (nodeTaintsPolicy: Honor).
	IgnoreAffinity, HonorTaints bool
}

// PodAffinityTerm is one term of pod affinity or anti-affinity.
type PodAffinityTerm struct {
	Key      string // topologyKey: the node label whose value must be shared, or must differ
	Selector Selector
	// Weight is 0 for a required term and 1 to 100 for a preferred one.
	Weight int32
}

// Volume is a volume that a pod mounts.
type Volume struct {
	// ID identifies the volume for attach limits: two pods on one node that mount the same
	// volume attach it once.
	ID string
	// Driver is the CSI driver that attaches it; empty when nothing is attached.
	Driver string
	// Shared is set when other pods may mount it too.
	Shared bool
	// AnyOf are the places where it can be mounted: one term must hold. Empty means anywhere.
	AnyOf []Term
}

// DaemonSet is a DaemonSet with what its pod asks of every node that it matches.
type DaemonSet struct {
	PodRef      // the UID, namespace and name of the DaemonSet, not of a pod
	Requests    quantity.Amounts
	Required    Term
	AnyOf       []Term
	Tolerations []Toleration
	Ports       []Port // host ports
}

// Node is a node that exists or that is being launched: a Kubernetes Node, a NodeClaim or
// both. NodeInfo is the same node in a Snapshot.
type Node struct {
	// Key identifies the node for its whole life: the NodeClaim's name if there is one, else the
	// Node's name.
	Key string
	// Name is the Kubernetes Node's name; until there is a Node, a name that stands for it (see
	// kube.InFlightName).
	Name string
	Pool string // owning NodePool; empty for nodes karve does not manage
	// Labels and Taints are what kube-scheduler sees once the node is initialized: before that,
	// startup taints and ephemeral taints are left out.
	Labels map[string]string
	Taints []Taint
	// Capacity counts against the pool's limits; Allocatable is what pods can use.
	// quantity.Attachable resources that are not listed are unlimited. For a NodeClaim whose
	// instance type is not chosen yet, Capacity is the largest and Allocatable the smallest
	// amount of each resource over the instance types it accepts: so limits are hard, and the
	// capacity promised to pods really exists.
	Capacity, Allocatable quantity.Amounts
	// QuotaUses is what the node takes from the region's quotas while the cloud does not count
	// it yet.
	QuotaUses []offering.QuotaUse
	Price     offering.Price
	// Nodes with Initialized are filled first; the others are still being launched.
	Initialized bool
	// Nodes with MarkedForDeletion take no new pods, and their reschedulable pods need
	// replacements on other nodes.
	MarkedForDeletion bool
	// Nodes with TakesNoPods take no new pods either, but their pods are not replaced elsewhere:
	// such a node is not initialized although it should have been long ago. (A cordoned node has a
	// taint instead.)
	TakesNoPods bool
	// HasNodeClaim is set when the node has a NodeClaim.
	HasNodeClaim bool
	// NominatedUntil is until when the node does not count as empty: pods have been nominated to
	// it.
	NominatedUntil time.Time
	Created        time.Time
}

// NodePool is a NodePool, as far as decisions look at it.
type NodePool struct {
	Name   string
	Weight int32
	// Requirements are spec.template.spec.requirements; Labels the template's labels.
	Requirements Term
	Labels       map[string]string
	Taints       []Taint // startup taints are not part of the decision
	// Limits are by resource name, in base units; quantity.NameNodes caps the number of nodes.
	// Nil means no limit.
	Limits quantity.Amounts
	// NodeClass is the node class; it names the catalog whose offerings the pool can launch (see
	// Builder.SetCatalog).
	NodeClass string
	// Blocked says why no node may be launched for this pool now; empty when nodes may be
	// launched.
	Blocked reason.Reason
	// BlockedDetail says it in words, and BlockedFacts holds the parameters as data.
	BlockedDetail string
	BlockedFacts  reason.Facts
	// Static pools keep a fixed number of nodes whatever the pods: pending pods launch no nodes
	// there.
	Static bool
	// FullCPU makes all cpu of burstable types count, also of those that the pool does not name.
	FullCPU bool
}

// PreferencePolicy says how preferences of pods (preferred terms, soft constraints) are
// treated.
type PreferencePolicy string

const (
	// Respect honours preferences, the heaviest first, as long as they cost little.
	Respect PreferencePolicy = "Respect"
	// Ignore leaves preferences to kube-scheduler.
	Ignore PreferencePolicy = "Ignore"
)

// UnlimitedPreferenceSurplus honours every preference that can be honoured, whatever it costs.
const UnlimitedPreferenceSurplus = -1

// Settings are the operator's settings that hold for every pool.
type Settings struct {
	// Preferences is Respect when empty.
	Preferences PreferencePolicy
	// PreferenceSurplusPermille is how much more a plan may cost because it honours preferences,
	// in thousandths of its cost without them; UnlimitedPreferenceSurplus for no bound.
	PreferenceSurplusPermille int
	// RelaxMinValues lets a pool launch nodes with fewer values than its minValues ask for when
	// there is no other way (MIN_VALUES_POLICY BestEffort).
	RelaxMinValues bool
}
