// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KubeletConfiguration is the part of the kubelet's configuration that a class
// may set. Reservations and eviction thresholds are not in it: AKS computes
// them from the VM.
type KubeletConfiguration struct {
	// cpuManagerPolicy static gives whole cores to guaranteed pods that ask for a
	// whole number of them; none shares all cores. Default: none.
	// +kubebuilder:default=none
	// +optional
	CPUManagerPolicy *CPUManagerPolicy `json:"cpuManagerPolicy,omitempty"`

	// cpuCFSQuota has the kernel enforce the CPU limits of containers. Default:
	// true.
	// +kubebuilder:default=true
	// +optional
	CPUCFSQuota *bool `json:"cpuCFSQuota,omitempty"`

	// cpuCFSQuotaPeriod is the period over which CPU limits are enforced, from
	// 1ms to 1s. Default: 100ms.
	// +kubebuilder:default="100ms"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('1s')",message="cpuCFSQuotaPeriod must be a length of time from 1ms to 1s, for example 50ms"
	// +optional
	CPUCFSQuotaPeriod *metav1.Duration `json:"cpuCFSQuotaPeriod,omitempty"`

	// imageGCHighThresholdPercent is the disk usage, in percent, above which
	// unused images are always removed. It must be greater than
	// imageGCLowThresholdPercent. Default: 85, or five above
	// imageGCLowThresholdPercent where that is higher than 84.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCHighThresholdPercent *int32 `json:"imageGCHighThresholdPercent,omitempty"`

	// imageGCLowThresholdPercent is the disk usage, in percent, down to which
	// unused images are removed and below which none is. Default: 80, or five
	// below imageGCHighThresholdPercent where that is lower than 81.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`

	// topologyManagerPolicy says how strictly CPUs and devices of a pod must come
	// from the same NUMA node: none does not care, best-effort prefers it,
	// restricted refuses pods that could not be aligned, single-numa-node refuses
	// pods that do not fit one NUMA node. Default: none.
	// +kubebuilder:default=none
	// +optional
	TopologyManagerPolicy *TopologyManagerPolicy `json:"topologyManagerPolicy,omitempty"`

	// allowedUnsafeSysctls names sysctls, or prefixes ending in "*", that pods
	// may set although they are not isolated from other pods, for example
	// "net.core.somaxconn" or "kernel.msg*". Others the kubelet refuses, because
	// they belong to the whole node. Default: none.
	// +kubebuilder:validation:items:Pattern=`^(kernel\.sem|(kernel\.(shm|msg)|fs\.mqueue\.|net\.)[a-zA-Z0-9_./-]*\*?)$`
	// +optional
	AllowedUnsafeSysctls []string `json:"allowedUnsafeSysctls,omitempty"`

	// containerLogMaxSize is the size at which a container's log file is
	// rotated, for example 5Mi or 256Ki. Default: 50Mi.
	// +kubebuilder:default="50Mi"
	// +kubebuilder:validation:Pattern=`^\d+(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$`
	// +optional
	ContainerLogMaxSize *string `json:"containerLogMaxSize,omitempty"`

	// containerLogMaxFiles is how many log files of a container are kept, the
	// current one included. Default: 5.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=2
	// +optional
	ContainerLogMaxFiles *int32 `json:"containerLogMaxFiles,omitempty"`

	// podPidsLimit is how many processes one pod may have; -1 means no limit.
	// Default: the kubelet's.
	// +optional
	PodPidsLimit *int64 `json:"podPidsLimit,omitempty"`

	// failSwapOn has the kubelet refuse to start on a node with swap. It must be
	// false for linuxOSConfig.swapFileSize. Default: the kubelet's, which is true.
	// +optional
	FailSwapOn *bool `json:"failSwapOn,omitempty"`
}

// CPUManagerPolicy says whether pods can own cores.
// +kubebuilder:validation:Enum=none;static
type CPUManagerPolicy string

const (
	CPUManagerPolicyNone   CPUManagerPolicy = "none"
	CPUManagerPolicyStatic CPUManagerPolicy = "static"
)

// TopologyManagerPolicy says how strictly pods are aligned to NUMA nodes.
// +kubebuilder:validation:Enum=restricted;best-effort;none;single-numa-node
type TopologyManagerPolicy string

const (
	TopologyManagerPolicyRestricted     TopologyManagerPolicy = "restricted"
	TopologyManagerPolicyBestEffort     TopologyManagerPolicy = "best-effort"
	TopologyManagerPolicyNone           TopologyManagerPolicy = "none"
	TopologyManagerPolicySingleNUMANode TopologyManagerPolicy = "single-numa-node"
)
