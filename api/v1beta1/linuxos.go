// SPDX-License-Identifier: Apache-2.0

package v1beta1

// LinuxOSConfiguration sets kernel parameters, huge pages and swap of the nodes.
// What is not set stays as the image has it.
type LinuxOSConfiguration struct {
	// swapFileSize is the size of a swap file made on every node, for example
	// 1500Mi or 2Gi, rounded to whole MiB. It needs kubelet.failSwapOn set to
	// false. Default: no swap.
	// +kubebuilder:validation:Pattern=`^\d+(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$`
	// +optional
	SwapFileSize *string `json:"swapFileSize,omitempty"`

	// sysctls sets kernel parameters of the nodes.
	// +optional
	Sysctls *SysctlConfiguration `json:"sysctls,omitempty"`

	// transparentHugePageDefrag says when the kernel stops a program to make
	// room for a huge page (/sys/kernel/mm/transparent_hugepage/defrag). Default:
	// that of the image.
	// +optional
	TransparentHugePageDefrag *TransparentHugePageDefrag `json:"transparentHugePageDefrag,omitempty"`

	// transparentHugePageEnabled says which memory may use huge pages
	// (/sys/kernel/mm/transparent_hugepage/enabled). Default: that of the image.
	// +optional
	TransparentHugePageEnabled *TransparentHugePageEnabled `json:"transparentHugePageEnabled,omitempty"`
}

// TransparentHugePageDefrag says when the kernel works to make a huge page.
// +kubebuilder:validation:Enum=always;defer;defer+madvise;madvise;never
type TransparentHugePageDefrag string

const (
	TransparentHugePageDefragAlways       TransparentHugePageDefrag = "always"
	TransparentHugePageDefragDefer        TransparentHugePageDefrag = "defer"
	TransparentHugePageDefragDeferMadvise TransparentHugePageDefrag = "defer+madvise"
	TransparentHugePageDefragMadvise      TransparentHugePageDefrag = "madvise"
	TransparentHugePageDefragNever        TransparentHugePageDefrag = "never"
)

// TransparentHugePageEnabled says which memory may use huge pages.
// +kubebuilder:validation:Enum=always;madvise;never
type TransparentHugePageEnabled string

const (
	TransparentHugePageEnabledAlways  TransparentHugePageEnabled = "always"
	TransparentHugePageEnabledMadvise TransparentHugePageEnabled = "madvise"
	TransparentHugePageEnabledNever   TransparentHugePageEnabled = "never"
)

// SysctlConfiguration sets kernel parameters. The limits are those AKS sets for
// custom node configuration.
//
// +kubebuilder:validation:XValidation:rule="!has(self.netCoreRmemDefault) || !has(self.netCoreRmemMax) || self.netCoreRmemDefault <= self.netCoreRmemMax",message="sysctls.netCoreRmemDefault may not be greater than sysctls.netCoreRmemMax: lower the one or raise the other"
// +kubebuilder:validation:XValidation:rule="!has(self.netCoreWmemDefault) || !has(self.netCoreWmemMax) || self.netCoreWmemDefault <= self.netCoreWmemMax",message="sysctls.netCoreWmemDefault may not be greater than sysctls.netCoreWmemMax: lower the one or raise the other"
// +kubebuilder:validation:XValidation:rule="!has(self.netIPv4NeighDefaultGcThresh1) || !has(self.netIPv4NeighDefaultGcThresh2) || self.netIPv4NeighDefaultGcThresh1 <= self.netIPv4NeighDefaultGcThresh2",message="sysctls.netIPv4NeighDefaultGcThresh1 may not be greater than sysctls.netIPv4NeighDefaultGcThresh2: lower the one or raise the other"
// +kubebuilder:validation:XValidation:rule="!has(self.netIPv4NeighDefaultGcThresh2) || !has(self.netIPv4NeighDefaultGcThresh3) || self.netIPv4NeighDefaultGcThresh2 <= self.netIPv4NeighDefaultGcThresh3",message="sysctls.netIPv4NeighDefaultGcThresh2 may not be greater than sysctls.netIPv4NeighDefaultGcThresh3: lower the one or raise the other"
// +kubebuilder:validation:XValidation:rule="!has(self.netIPv4IPLocalPortRange) || (int(self.netIPv4IPLocalPortRange.split(' ')[0]) >= 1024 && int(self.netIPv4IPLocalPortRange.split(' ')[0]) <= 60999)",message="the first port of sysctls.netIPv4IPLocalPortRange must be from 1024 to 60999"
// +kubebuilder:validation:XValidation:rule="!has(self.netIPv4IPLocalPortRange) || (int(self.netIPv4IPLocalPortRange.split(' ')[1]) >= 32768 && int(self.netIPv4IPLocalPortRange.split(' ')[1]) <= 65535)",message="the last port of sysctls.netIPv4IPLocalPortRange must be from 32768 to 65535"
// +kubebuilder:validation:XValidation:rule="!has(self.netIPv4IPLocalPortRange) || int(self.netIPv4IPLocalPortRange.split(' ')[0]) <= int(self.netIPv4IPLocalPortRange.split(' ')[1])",message="the first port of sysctls.netIPv4IPLocalPortRange may not be greater than the last: write it as \"first last\""
type SysctlConfiguration struct {
	// fsAioMaxNr is how many asynchronous I/O requests may be pending on the node.
	// Sysctl fs.aio-max-nr; default: that of the image.
	// +kubebuilder:validation:Minimum=65536
	// +kubebuilder:validation:Maximum=6553500
	// +optional
	FsAioMaxNr *int32 `json:"fsAioMaxNr,omitempty"`

	// fsFileMax is how many files may be open on the node. Sysctl fs.file-max;
	// default: that of the image.
	// +kubebuilder:validation:Minimum=8192
	// +kubebuilder:validation:Maximum=12000500
	// +optional
	FsFileMax *int32 `json:"fsFileMax,omitempty"`

	// fsInotifyMaxUserWatches is how many files and directories one user may
	// watch. Sysctl fs.inotify.max_user_watches; default: that of the image.
	// +kubebuilder:validation:Minimum=781250
	// +kubebuilder:validation:Maximum=2097152
	// +optional
	FsInotifyMaxUserWatches *int32 `json:"fsInotifyMaxUserWatches,omitempty"`

	// fsNrOpen is how many files one process may have open. Sysctl fs.nr_open;
	// default: that of the image.
	// +kubebuilder:validation:Minimum=8192
	// +kubebuilder:validation:Maximum=20000500
	// +optional
	FsNrOpen *int32 `json:"fsNrOpen,omitempty"`

	// kernelThreadsMax is how many threads may exist on the node. Sysctl
	// kernel.threads-max; default: that of the image.
	// +kubebuilder:validation:Minimum=20
	// +kubebuilder:validation:Maximum=513785
	// +optional
	KernelThreadsMax *int32 `json:"kernelThreadsMax,omitempty"`

	// netCoreNetdevMaxBacklog is how many received packets may wait for the kernel
	// when an interface is faster than it. Sysctl net.core.netdev_max_backlog;
	// default: that of the image.
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=3240000
	// +optional
	NetCoreNetdevMaxBacklog *int32 `json:"netCoreNetdevMaxBacklog,omitempty"`

	// netCoreOptmemMax is how many bytes of option memory a socket may use. Sysctl
	// net.core.optmem_max; default: that of the image.
	// +kubebuilder:validation:Minimum=20480
	// +kubebuilder:validation:Maximum=4194304
	// +optional
	NetCoreOptmemMax *int32 `json:"netCoreOptmemMax,omitempty"`

	// netCoreRmemDefault is the initial receive buffer of a socket in bytes. It
	// may not exceed netCoreRmemMax. Sysctl net.core.rmem_default; default: that
	// of the image.
	// +kubebuilder:validation:Minimum=212992
	// +kubebuilder:validation:Maximum=134217728
	// +optional
	NetCoreRmemDefault *int32 `json:"netCoreRmemDefault,omitempty"`

	// netCoreRmemMax is the largest receive buffer of a socket in bytes. Sysctl
	// net.core.rmem_max; default: that of the image.
	// +kubebuilder:validation:Minimum=212992
	// +kubebuilder:validation:Maximum=134217728
	// +optional
	NetCoreRmemMax *int32 `json:"netCoreRmemMax,omitempty"`

	// netCoreSomaxconn is how many connections may wait to be accepted by one
	// listening socket. Sysctl net.core.somaxconn; default: that of the image.
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=3240000
	// +optional
	NetCoreSomaxconn *int32 `json:"netCoreSomaxconn,omitempty"`

	// netCoreWmemDefault is the initial send buffer of a socket in bytes. It may
	// not exceed netCoreWmemMax. Sysctl net.core.wmem_default; default: that of
	// the image.
	// +kubebuilder:validation:Minimum=212992
	// +kubebuilder:validation:Maximum=134217728
	// +optional
	NetCoreWmemDefault *int32 `json:"netCoreWmemDefault,omitempty"`

	// netCoreWmemMax is the largest send buffer of a socket in bytes. Sysctl
	// net.core.wmem_max; default: that of the image.
	// +kubebuilder:validation:Minimum=212992
	// +kubebuilder:validation:Maximum=134217728
	// +optional
	NetCoreWmemMax *int32 `json:"netCoreWmemMax,omitempty"`

	// netIPv4IPLocalPortRange is the range of ports for outgoing connections,
	// written as "first last" with first from 1024 to 60999 and last from 32768 to
	// 65535. Sysctl net.ipv4.ip_local_port_range; default: that of the image.
	// +kubebuilder:validation:Pattern=`^\d+ \d+$`
	// +optional
	NetIPv4IPLocalPortRange *string `json:"netIPv4IPLocalPortRange,omitempty"`

	// netIPv4NeighDefaultGcThresh1 is how many neighbour (ARP) entries are kept
	// without any being collected. It may not exceed netIPv4NeighDefaultGcThresh2.
	// Sysctl net.ipv4.neigh.default.gc_thresh1; default: that of the image.
	// +kubebuilder:validation:Minimum=128
	// +kubebuilder:validation:Maximum=80000
	// +optional
	NetIPv4NeighDefaultGcThresh1 *int32 `json:"netIPv4NeighDefaultGcThresh1,omitempty"`

	// netIPv4NeighDefaultGcThresh2 is how many neighbour (ARP) entries may exist
	// for longer than a few seconds. It may not exceed
	// netIPv4NeighDefaultGcThresh3. Sysctl net.ipv4.neigh.default.gc_thresh2;
	// default: that of the image.
	// +kubebuilder:validation:Minimum=512
	// +kubebuilder:validation:Maximum=90000
	// +optional
	NetIPv4NeighDefaultGcThresh2 *int32 `json:"netIPv4NeighDefaultGcThresh2,omitempty"`

	// netIPv4NeighDefaultGcThresh3 is how many neighbour (ARP) entries may exist
	// at all. Sysctl net.ipv4.neigh.default.gc_thresh3; default: that of the
	// image.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=100000
	// +optional
	NetIPv4NeighDefaultGcThresh3 *int32 `json:"netIPv4NeighDefaultGcThresh3,omitempty"`

	// netIPv4TCPFinTimeout is how many seconds a closed connection without an
	// owner waits for the other side's FIN. Sysctl
	// net.ipv4.tcp_fin_timeout; default: that of the image.
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=120
	// +optional
	NetIPv4TCPFinTimeout *int32 `json:"netIPv4TCPFinTimeout,omitempty"`

	// netIPv4TCPKeepaliveProbes is how many unanswered keepalive probes end a
	// connection. Sysctl net.ipv4.tcp_keepalive_probes; default: that of the
	// image.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	// +optional
	NetIPv4TCPKeepaliveProbes *int32 `json:"netIPv4TCPKeepaliveProbes,omitempty"`

	// netIPv4TCPKeepaliveTime is after how many idle seconds the first keepalive
	// probe is sent. Sysctl net.ipv4.tcp_keepalive_time; default: that of the
	// image.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=432000
	// +optional
	NetIPv4TCPKeepaliveTime *int32 `json:"netIPv4TCPKeepaliveTime,omitempty"`

	// netIPv4TCPMaxSynBacklog is how many half-open incoming connections are
	// remembered; further ones are dropped. Sysctl net.ipv4.tcp_max_syn_backlog;
	// default: that of the image.
	// +kubebuilder:validation:Minimum=128
	// +kubebuilder:validation:Maximum=3240000
	// +optional
	NetIPv4TCPMaxSynBacklog *int32 `json:"netIPv4TCPMaxSynBacklog,omitempty"`

	// netIPv4TCPMaxTwBuckets is how many sockets may be in state TIME_WAIT;
	// further ones are closed at once. Sysctl net.ipv4.tcp_max_tw_buckets;
	// default: that of the image.
	// +kubebuilder:validation:Minimum=8000
	// +kubebuilder:validation:Maximum=1440000
	// +optional
	NetIPv4TCPMaxTwBuckets *int32 `json:"netIPv4TCPMaxTwBuckets,omitempty"`

	// netIPv4TCPTwReuse lets new outgoing connections take over sockets in state
	// TIME_WAIT. Sysctl net.ipv4.tcp_tw_reuse; default: that of the image.
	// +optional
	NetIPv4TCPTwReuse *bool `json:"netIPv4TCPTwReuse,omitempty"`

	// netIPv4TCPKeepaliveIntvl is how many seconds lie between two keepalive
	// probes. Sysctl net.ipv4.tcp_keepalive_intvl; default: that of the image.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=90
	// +optional
	NetIPv4TCPKeepaliveIntvl *int32 `json:"netIPv4TCPKeepaliveIntvl,omitempty"`

	// netNetfilterNfConntrackBuckets is the size of the connection tracking hash
	// table in buckets. Sysctl net.netfilter.nf_conntrack_buckets; default: that
	// of the image.
	// +kubebuilder:validation:Minimum=65536
	// +kubebuilder:validation:Maximum=524288
	// +optional
	NetNetfilterNfConntrackBuckets *int32 `json:"netNetfilterNfConntrackBuckets,omitempty"`

	// netNetfilterNfConntrackMax is how many connections are tracked; packets of
	// further ones are dropped. Sysctl net.netfilter.nf_conntrack_max; default:
	// that of the image.
	// +kubebuilder:validation:Minimum=131072
	// +kubebuilder:validation:Maximum=2097152
	// +optional
	NetNetfilterNfConntrackMax *int32 `json:"netNetfilterNfConntrackMax,omitempty"`

	// vmMaxMapCount is how many memory map areas one process may have. Sysctl
	// vm.max_map_count; default: that of the image.
	// +kubebuilder:validation:Minimum=65530
	// +kubebuilder:validation:Maximum=262144
	// +optional
	VMMaxMapCount *int32 `json:"vmMaxMapCount,omitempty"`

	// vmSwappiness is how readily the kernel swaps out memory rather than drop
	// file caches, from 0 (hardly) to 100. Sysctl vm.swappiness; default: that of
	// the image.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	VMSwappiness *int32 `json:"vmSwappiness,omitempty"`

	// vmVfsCachePressure is how readily the kernel gives up directory and inode
	// caches, in percent of its usual readiness. Sysctl vm.vfs_cache_pressure;
	// default: that of the image.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	VMVfsCachePressure *int32 `json:"vmVfsCachePressure,omitempty"`
}
