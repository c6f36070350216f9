// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/karve-dev/karve/api/v1beta1"
)

// A sysctl is a kernel setting that users may set.
type sysctl struct {
	kernel string // name in the kernel
	field  string // name in the structured contract
	value  any    // int32, bool or string
}

// sysctls returns the settings of s that are set, in no order.
func sysctls(s *v1beta1.SysctlConfiguration) []sysctl {
	if s == nil {
		return nil
	}
	var made []sysctl
	number := func(value *int32, kernel, field string) {
		if value != nil {
			made = append(made, sysctl{kernel, field, *value})
		}
	}
	number(s.FsAioMaxNr, "fs.aio-max-nr", "fs_aio_max_nr")
	number(s.FsFileMax, "fs.file-max", "fs_file_max")
	number(s.FsInotifyMaxUserWatches, "fs.inotify.max_user_watches", "fs_inotify_max_user_watches")
	number(s.FsNrOpen, "fs.nr_open", "fs_nr_open")
	number(s.KernelThreadsMax, "kernel.threads-max", "kernel_threads_max")
	number(s.NetCoreNetdevMaxBacklog, "net.core.netdev_max_backlog", "net_core_netdev_max_backlog")
	number(s.NetCoreOptmemMax, "net.core.optmem_max", "net_core_optmem_max")
	number(s.NetCoreRmemDefault, "net.core.rmem_default", "net_core_rmem_default")
	number(s.NetCoreRmemMax, "net.core.rmem_max", "net_core_rmem_max")
	number(s.NetCoreSomaxconn, "net.core.somaxconn", "net_core_somaxconn")
	number(s.NetCoreWmemDefault, "net.core.wmem_default", "net_core_wmem_default")
	number(s.NetCoreWmemMax, "net.core.wmem_max", "net_core_wmem_max")
	number(s.NetIPv4NeighDefaultGcThresh1, "net.ipv4.neigh.default.gc_thresh1", "net_ipv4_neigh_default_gc_thresh1")
	number(s.NetIPv4NeighDefaultGcThresh2, "net.ipv4.neigh.default.gc_thresh2", "net_ipv4_neigh_default_gc_thresh2")
	number(s.NetIPv4NeighDefaultGcThresh3, "net.ipv4.neigh.default.gc_thresh3", "net_ipv4_neigh_default_gc_thresh3")
	number(s.NetIPv4TCPFinTimeout, "net.ipv4.tcp_fin_timeout", "net_ipv4_tcp_fin_timeout")
	number(s.NetIPv4TCPKeepaliveProbes, "net.ipv4.tcp_keepalive_probes", "net_ipv4_tcp_keepalive_probes")
	number(s.NetIPv4TCPKeepaliveTime, "net.ipv4.tcp_keepalive_time", "net_ipv4_tcp_keepalive_time")
	number(s.NetIPv4TCPKeepaliveIntvl, "net.ipv4.tcp_keepalive_intvl", "net_ipv4_tcpkeepalive_intvl") // sic
	number(s.NetIPv4TCPMaxSynBacklog, "net.ipv4.tcp_max_syn_backlog", "net_ipv4_tcp_max_syn_backlog")
	number(s.NetIPv4TCPMaxTwBuckets, "net.ipv4.tcp_max_tw_buckets", "net_ipv4_tcp_max_tw_buckets")
	number(s.NetNetfilterNfConntrackBuckets, "net.netfilter.nf_conntrack_buckets", "net_netfilter_nf_conntrack_buckets")
	number(s.NetNetfilterNfConntrackMax, "net.netfilter.nf_conntrack_max", "net_netfilter_nf_conntrack_max")
	number(s.VMMaxMapCount, "vm.max_map_count", "vm_max_map_count")
	number(s.VMSwappiness, "vm.swappiness", "vm_swappiness")
	number(s.VMVfsCachePressure, "vm.vfs_cache_pressure", "vm_vfs_cache_pressure")
	if s.NetIPv4TCPTwReuse != nil {
		made = append(made, sysctl{"net.ipv4.tcp_tw_reuse", "net_ipv4_tcp_tw_reuse", *s.NetIPv4TCPTwReuse})
	}
	if s.NetIPv4IPLocalPortRange != nil {
		made = append(made, sysctl{"net.ipv4.ip_local_port_range", "net_ipv4_ip_local_port_range", *s.NetIPv4IPLocalPortRange})
	}
	return made
}

// usualSysctls returns the kernel baseline of AKS nodes, which users' settings override.
func usualSysctls() map[string]string {
	return map[string]string{
		"net.core.message_burst": "80", "net.core.message_cost": "40", "net.core.somaxconn": "16384",
		"net.ipv4.neigh.default.gc_thresh1": "4096", "net.ipv4.neigh.default.gc_thresh2": "8192", "net.ipv4.neigh.default.gc_thresh3": "16384",
		"net.ipv4.tcp_max_syn_backlog": "16384", "net.ipv4.tcp_retries2": "8",
	}
}

// healthPort is a port of the node that must not be assigned to connections.
const healthPort = 65330

// sysctlFile returns the sysctl file, which the environment contract passes as a whole.
func (n *NodeConfig) sysctlFile() string {
	values := usualSysctls()
	for _, s := range sysctls(n.sysctlConfiguration()) {
		switch v := s.value.(type) {
		case bool:
			values[s.kernel] = "0"
			if v {
				values[s.kernel] = "1"
			}
		default:
			values[s.kernel] = fmt.Sprint(v)
		}
		if s.kernel == "net.ipv4.ip_local_port_range" {
			if _, last, _ := portRange(values[s.kernel]); last > healthPort {
				values["net.ipv4.ip_local_reserved_ports"] = strconv.Itoa(healthPort)
			}
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s=%s\n", name, values[name])
	}
	return b.String()
}

func (n *NodeConfig) sysctlConfiguration() *v1beta1.SysctlConfiguration {
	if n.OS == nil {
		return nil
	}
	return n.OS.Sysctls
}

// portRange parses "first last".
func portRange(text string) (first, last int, err error) {
	a, b, found := strings.Cut(text, " ")
	first, err1 := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	if !found || err1 != nil || err2 != nil || first <= 0 || first > last || last > 65535 {
		return 0, 0, fmt.Errorf("port range %q is not two ports in order", text)
	}
	return first, last, nil
}

// swapMB returns the size of the swap file in MiB; zero means none.
func (n *NodeConfig) swapMB() int64 {
	if n.OS == nil || n.OS.SwapFileSize == nil {
		return 0
	}
	size, _ := swapSize(*n.OS.SwapFileSize) // checked
	return size
}

// mostSwapMB limits the size to what the structured contract can express.
const mostSwapMB = 1 << 30

func swapSize(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("swap file size %q: %w", text, err)
	}
	size := (q.Value() + 1<<19) >> 20
	if q.Sign() < 0 || q.Value() > mostSwapMB<<20 || q.Sign() > 0 && size == 0 {
		return 0, fmt.Errorf("swap file size %q is not between 1Mi and 1Pi", text)
	}
	return size, nil
}

// hugePages returns the settings of transparent huge pages; an empty one keeps the image's.
func (n *NodeConfig) hugePages() (enabled, defrag string) {
	if n.OS == nil {
		return "", ""
	}
	if n.OS.TransparentHugePageEnabled != nil {
		enabled = string(*n.OS.TransparentHugePageEnabled)
	}
	if n.OS.TransparentHugePageDefrag != nil {
		defrag = string(*n.OS.TransparentHugePageDefrag)
	}
	return enabled, defrag
}

// checkOS returns an error for settings that the API server rejects: the class may not have
// passed its validation.
func checkOS(os *v1beta1.LinuxOSConfiguration) error {
	if os == nil {
		return nil
	}
	var errs []error
	n := NodeConfig{OS: os}
	enabled, defrag := n.hugePages()
	if !slices.Contains([]string{"", "always", "madvise", "never"}, enabled) {
		errs = append(errs, fmt.Errorf("transparentHugePageEnabled %q is unknown", enabled))
	}
	if !slices.Contains([]string{"", "always", "defer", "defer+madvise", "madvise", "never"}, defrag) {
		errs = append(errs, fmt.Errorf("transparentHugePageDefrag %q is unknown", defrag))
	}
	if os.SwapFileSize != nil {
		_, err := swapSize(*os.SwapFileSize)
		errs = append(errs, err)
	}
	if os.Sysctls != nil && os.Sysctls.NetIPv4IPLocalPortRange != nil {
		_, _, err := portRange(*os.Sysctls.NetIPv4IPLocalPortRange)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
