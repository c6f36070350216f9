// SPDX-License-Identifier: Apache-2.0

package kube

// Conditions of NodeClaims.
const (
	// ConditionUnhealthy is True while the node is to be repaired gracefully. Its reason is the
	// node's condition.
	ConditionUnhealthy = "karve.dev/Unhealthy"
	// ConditionMaintenance is True while the instance will be restarted, moved or deleted from
	// outside and there is time to replace it first. The NoticeKind is its reason.
	ConditionMaintenance = "karve.dev/Maintenance"
	// ConditionProviderIDRecognized is False when the cloud issues no provider IDs of that form: no
	// instance can be found or terminated by it.
	ConditionProviderIDRecognized = "karve.dev/ProviderIDRecognized"
)

// Conditions of NodePools.
const (
	// ConditionInstancesClaimed is False while instances without a NodeClaim are kept: there are so
	// many that the NodeClaims may be lost.
	ConditionInstancesClaimed = "karve.dev/InstancesClaimed"
	// ConditionQuotaAvailable, also of node classes, says whether quota and the subnet's addresses
	// suffice for more nodes, and for how long at the recent rate. It informs only and does not
	// count towards Ready.
	ConditionQuotaAvailable = "karve.dev/QuotaAvailable"
)
