// SPDX-License-Identifier: Apache-2.0

package kube

// BurstableCPUFull is the value of BurstableCPUAnnotation that has an effect.
const BurstableCPUFull = "full"

// Annotations of a NodePool that set when its nodes are disrupted, how much that must save, and
// what its nodes count.
const (
	// MinSavingsAnnotation is what replacing nodes must save: a share of their cost (5%), or an
	// amount per hour ($0.02/h or 0.02).
	MinSavingsAnnotation = "karve.dev/min-savings"
	// MinNodeAgeAnnotation is how old a node with pods must be before it is consolidated.
	MinNodeAgeAnnotation = "karve.dev/min-node-age"
	// SoftExpiryAnnotation, when it is "true", makes expired nodes be replaced within budgets,
	// like drifted ones.
	SoftExpiryAnnotation = "karve.dev/soft-expiry"
	// RepairAnnotation, when it is "graceful", makes unhealthy nodes whose kubelet still works be
	// replaced in the same way; "forceful" is the default.
	RepairAnnotation = "karve.dev/repair"
	// BurstableCPUAnnotation, when it is BurstableCPUFull, makes all vCPUs of burstable VM sizes
	// count when sizes are chosen, not only the share that they have all the time.
	BurstableCPUAnnotation = "karve.dev/burstable-cpu"
	// CollectOrphansAnnotation confirms that instances without a NodeClaim may be terminated. Its
	// value is the one in the message of ConditionInstancesClaimed.
	CollectOrphansAnnotation = "karve.dev/collect-orphans"
)

// ControlConfigMap is the ConfigMap in karve's own namespace by whose annotations an operator
// controls karve as a whole.
const ControlConfigMap = "karve-control"

// PauseAnnotation of the ControlConfigMap stops everything voluntary. Its value says why; "false"
// and the empty value stop nothing.
const PauseAnnotation = "karve.dev/pause"

// Annotations that record failures on the object concerned, so that the next leader does not repeat
// the attempt at once. Users' manifests do not contain them, so applying the manifests does not
// change them. If a user removes them, the next restart forgets the failures.
const (
	// BackOffAnnotation is on NodeClaims whose move failed, and on NodePools in which too many
	// moves failed: a BackOff.
	BackOffAnnotation = "karve.dev/back-off"
	// ConsolidationPauseAnnotation is on NodePools where the scheduler undid consolidations by
	// placing the pods on other nodes than planned: a ConsolidationPause.
	ConsolidationPauseAnnotation = "karve.dev/consolidation-pause"
)

// Annotations of the NodeClaims that take part in a move. With them the next leader continues the
// move or takes it back.
const (
	// MoveAnnotation is on the claims that are replaced: a MoveMark.
	MoveAnnotation = "karve.dev/move"
	// ReplacesAnnotation is on the claims launched in their place: the move's ID. It is kept
	// after the move and then says why the node exists.
	ReplacesAnnotation = "karve.dev/replaces"
)

const (
	// UrgentAnnotation set to "true" on a NodeClaim asks to launch it before others.
	UrgentAnnotation = "karve.dev/urgent"
	// InterruptedAnnotation of a NodeClaim says why the cloud interrupts its node: a NoticeKind, or
	// that the instance is deleted already. Capacity for its pods is launched before other
	// capacity.
	InterruptedAnnotation = "karve.dev/interrupted"
	// NotBeforeAnnotation of a Node is the RFC 3339 time before which nothing happens to its
	// instance; see InterruptionTaint.
	NotBeforeAnnotation = "karve.dev/not-before"
)

// Annotations of events: the content of the message, as JSON.
const (
	// FunnelsAnnotation has the funnels of a pod for which no node could be launched.
	FunnelsAnnotation = "karve.dev/funnels"
	// FactsAnnotation has the parameters of a reason.
	FactsAnnotation = "karve.dev/facts"
)
