// SPDX-License-Identifier: Apache-2.0

package kube

// ConditionQuotaAvailable of a node class and of its NodePools says whether quota and the
// subnet's addresses suffice for more nodes, and for how long at the recent rate. It informs
// only and does not count towards Ready.
const ConditionQuotaAvailable = "karve.dev/QuotaAvailable"
