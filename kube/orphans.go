package kube

const (
	// ConditionMachinesClaimed of NodePools is False while machines are not given back although
	// no NodeClaim is theirs: so many of them that the NodeClaims may be what is missing.
	ConditionMachinesClaimed = "karve.dev/MachinesClaimed"
	// AnnotationCollectOrphans on a NodePool confirms that such machines may go. Its value is the
	// one that the condition's message names.
	AnnotationCollectOrphans = "karve.dev/collect-orphans"
)
