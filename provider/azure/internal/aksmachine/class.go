// SPDX-License-Identifier: Apache-2.0

package aksmachine

import (
	"fmt"
	"math"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

func PoolMode(c provider.Claim) *aks.AgentPoolMode {
	if strings.EqualFold(c.Labels[v1beta1.AKSLabelMode], string(aks.AgentPoolModeSystem)) {
		return to.Ptr(aks.AgentPoolModeSystem)
	}
	return to.Ptr(aks.AgentPoolModeUser)
}

func GPUProfile(s *sku.SKU, spec *v1beta1.AKSNodeClassSpec) *aks.GPUProfile {
	switch {
	case !s.HasNVIDIA():
		return nil
	case spec.InstallsGPUDriver():
		return &aks.GPUProfile{Driver: to.Ptr(aks.GPUDriverInstall)}
	}
	return &aks.GPUProfile{Driver: to.Ptr(aks.GPUDriverNone)}
}

func Security(spec *v1beta1.AKSNodeClassSpec) *aks.MachineSecurityProfile {
	profile := &aks.MachineSecurityProfile{SSHAccess: to.Ptr(aks.AgentPoolSSHAccessLocalUser)}
	if spec.Security == nil {
		return profile
	}
	profile.EnableEncryptionAtHost = spec.Security.EncryptionAtHost
	if spec.UsesTrustedLaunch() {
		profile.EnableVTPM, profile.EnableSecureBoot = spec.Security.TrustedLaunch.VTPM, spec.Security.TrustedLaunch.SecureBoot
	}
	return profile
}

// KubeletConfig converts the node class's kubelet section to AKS's API.
func KubeletConfig(k *v1beta1.KubeletConfiguration) (*aks.KubeletConfig, error) {
	if k == nil {
		return nil, nil
	}
	out := &aks.KubeletConfig{
		CPUCfsQuota:          k.CPUCFSQuota,
		ContainerLogMaxFiles: k.ContainerLogMaxFiles,
		FailSwapOn:           k.FailSwapOn,
	}
	out.ImageGcHighThreshold, out.ImageGcLowThreshold = bootstrap.ImageGC(k)
	if len(k.AllowedUnsafeSysctls) > 0 {
		out.AllowedUnsafeSysctls = to.SliceOfPtrs(k.AllowedUnsafeSysctls...)
	}
	if k.CPUCFSQuotaPeriod != nil {
		out.CPUCfsQuotaPeriod = to.Ptr(k.CPUCFSQuotaPeriod.Duration.String())
	}
	if k.CPUManagerPolicy != nil {
		out.CPUManagerPolicy = to.Ptr(string(*k.CPUManagerPolicy))
	}
	if k.TopologyManagerPolicy != nil {
		out.TopologyManagerPolicy = to.Ptr(string(*k.TopologyManagerPolicy))
	}
	if k.PodPidsLimit != nil {
		out.PodMaxPids = to.Ptr(int32(min(*k.PodPidsLimit, math.MaxInt32)))
	}
	if k.ContainerLogMaxSize != nil {
		size, err := mebibytes(*k.ContainerLogMaxSize)
		if err != nil {
			return nil, fmt.Errorf("kubelet.containerLogMaxSize: %w", err)
		}
		out.ContainerLogMaxSizeMB = size
	}
	return out, nil
}

// WithTags returns a copy of the machine with other tags, without the fields that only AKS may
// write.
func WithTags(row *aks.Machine, tags map[string]*string) aks.Machine {
	x := *row.Properties
	x.Tags, x.ETag, x.ProvisioningState, x.ResourceID, x.Status = tags, nil, nil, nil, nil
	if x.Kubernetes != nil {
		k := *x.Kubernetes
		k.NodeName, k.CurrentOrchestratorVersion = nil, nil
		x.Kubernetes = to.Ptr(k)
	}
	if x.Network != nil {
		n := *x.Network
		n.IPAddresses = nil
		x.Network = to.Ptr(n)
	}
	return aks.Machine{Zones: row.Zones, Properties: &x}
}
