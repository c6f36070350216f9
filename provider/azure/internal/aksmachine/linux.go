// SPDX-License-Identifier: Apache-2.0

package aksmachine

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"

	"github.com/karve-dev/karve/api/v1beta1"
)

// LinuxProfile converts the node class's linuxOSConfig to AKS's API; nil when it has none. A
// size that cannot be parsed is an error: AKS would create nodes without it.
func LinuxProfile(os *v1beta1.LinuxOSConfiguration) (*aks.MachineOSProfileLinuxProfile, error) {
	if os == nil {
		return nil, nil
	}
	out := &aks.LinuxOSConfig{Sysctls: sysctls(os.Sysctls)}
	if os.SwapFileSize != nil {
		size, err := mebibytes(*os.SwapFileSize)
		if err != nil {
			return nil, fmt.Errorf("linuxOSConfig.swapFileSize: %w", err)
		}
		out.SwapFileSizeMB = size
	}
	if os.TransparentHugePageDefrag != nil {
		out.TransparentHugePageDefrag = to.Ptr(string(*os.TransparentHugePageDefrag))
	}
	if os.TransparentHugePageEnabled != nil {
		out.TransparentHugePageEnabled = to.Ptr(string(*os.TransparentHugePageEnabled))
	}
	return &aks.MachineOSProfileLinuxProfile{LinuxOSConfig: out}, nil
}

const mib = 1 << 20

// mebibytes parses a quantity and rounds it up to whole MiB, so that a small size does not
// become zero.
func mebibytes(text string) (*int32, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("size %q: %w", text, err)
	}
	return to.Ptr(int32(min((q.Value()+mib-1)/mib, math.MaxInt32))), nil
}

func sysctls(s *v1beta1.SysctlConfiguration) *aks.SysctlConfig {
	if s == nil {
		return nil
	}
	return &aks.SysctlConfig{
		FsAioMaxNr:                     s.FsAioMaxNr,
		FsFileMax:                      s.FsFileMax,
		FsInotifyMaxUserWatches:        s.FsInotifyMaxUserWatches,
		FsNrOpen:                       s.FsNrOpen,
		KernelThreadsMax:               s.KernelThreadsMax,
		NetCoreNetdevMaxBacklog:        s.NetCoreNetdevMaxBacklog,
		NetCoreOptmemMax:               s.NetCoreOptmemMax,
		NetCoreRmemDefault:             s.NetCoreRmemDefault,
		NetCoreRmemMax:                 s.NetCoreRmemMax,
		NetCoreSomaxconn:               s.NetCoreSomaxconn,
		NetCoreWmemDefault:             s.NetCoreWmemDefault,
		NetCoreWmemMax:                 s.NetCoreWmemMax,
		NetIPv4IPLocalPortRange:        s.NetIPv4IPLocalPortRange,
		NetIPv4NeighDefaultGcThresh1:   s.NetIPv4NeighDefaultGcThresh1,
		NetIPv4NeighDefaultGcThresh2:   s.NetIPv4NeighDefaultGcThresh2,
		NetIPv4NeighDefaultGcThresh3:   s.NetIPv4NeighDefaultGcThresh3,
		NetIPv4TCPFinTimeout:           s.NetIPv4TCPFinTimeout,
		NetIPv4TCPKeepaliveProbes:      s.NetIPv4TCPKeepaliveProbes,
		NetIPv4TCPKeepaliveTime:        s.NetIPv4TCPKeepaliveTime,
		NetIPv4TCPMaxSynBacklog:        s.NetIPv4TCPMaxSynBacklog,
		NetIPv4TCPMaxTwBuckets:         s.NetIPv4TCPMaxTwBuckets,
		NetIPv4TCPTwReuse:              s.NetIPv4TCPTwReuse,
		NetIPv4TcpkeepaliveIntvl:       s.NetIPv4TCPKeepaliveIntvl,
		NetNetfilterNfConntrackBuckets: s.NetNetfilterNfConntrackBuckets,
		NetNetfilterNfConntrackMax:     s.NetNetfilterNfConntrackMax,
		VMMaxMapCount:                  s.VMMaxMapCount,
		VMSwappiness:                   s.VMSwappiness,
		VMVfsCachePressure:             s.VMVfsCachePressure,
	}
}

// LocalDNSProfile converts the node class's DNS cache to AKS's API. karve decides whether nodes
// run one, as sizes and labels depend on it; it never leaves that decision to AKS's default or to
// mode Preferred.
func LocalDNSProfile(class *v1beta1.AKSNodeClass) *aks.LocalDNSProfile {
	dns := class.Spec.LocalDNS
	if !class.LocalDNSEnabled() || dns == nil {
		return &aks.LocalDNSProfile{Mode: to.Ptr(aks.LocalDNSModeDisabled)}
	}
	return &aks.LocalDNSProfile{
		Mode:             to.Ptr(aks.LocalDNSModeRequired),
		VnetDNSOverrides: dnsOverrides(dns.VnetDNSOverrides), KubeDNSOverrides: dnsOverrides(dns.KubeDNSOverrides),
	}
}

func dnsOverrides(zones []v1beta1.LocalDNSZoneOverride) map[string]*aks.LocalDNSOverride {
	out := map[string]*aks.LocalDNSOverride{}
	for _, z := range zones {
		out[z.Zone] = &aks.LocalDNSOverride{
			QueryLogging:                to.Ptr(aks.LocalDNSQueryLogging(z.QueryLogging)),
			Protocol:                    to.Ptr(aks.LocalDNSProtocol(z.Protocol)),
			ForwardDestination:          to.Ptr(aks.LocalDNSForwardDestination(z.ForwardDestination)),
			ForwardPolicy:               to.Ptr(aks.LocalDNSForwardPolicy(z.ForwardPolicy)),
			MaxConcurrent:               z.MaxConcurrent,
			CacheDurationInSeconds:      seconds(z.CacheDuration),
			ServeStale:                  to.Ptr(aks.LocalDNSServeStale(z.ServeStale)),
			ServeStaleDurationInSeconds: seconds(z.ServeStaleDuration),
		}
	}
	return out
}

// seconds returns nil for a duration without end.
func seconds(d v1beta1.NillableDuration) *int32 {
	if d.Duration == nil {
		return nil
	}
	return to.Ptr(int32(min(d.Duration.Seconds(), math.MaxInt32)))
}
