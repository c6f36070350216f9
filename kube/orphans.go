// SPDX-License-Identifier: Apache-2.0

package kube

const (
	// ConditionInstancesClaimed of NodePools is False while instances without a NodeClaim are
	// kept: there are so many that the NodeClaims may be lost.
	ConditionInstancesClaimed = "karve.dev/InstancesClaimed"
	// AnnotationCollectOrphans on a NodePool confirms that such instances may be terminated. Its
	// value is the one in the condition's message.
	CollectOrphansAnnotation = "karve.dev/collect-orphans"
)
