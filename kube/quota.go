package kube

// ConditionQuotaAvailable of a node class and of the NodePools that use it says whether
// quota, and the addresses of the subnet, leave room for machines, and for how long if it
// goes on as lately. It informs and does not count towards Ready.
const ConditionQuotaAvailable = "karve.dev/QuotaAvailable"
