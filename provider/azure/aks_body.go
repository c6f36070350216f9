// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"maps"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/aksmachine"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// body returns the machine for AKS to create, without its zone and tags: machines that are alike
// in the rest are created with one request. It holds nothing of the claim that other claims of its
// kind do not have.
func (a *aksBackend) body(s *vmSpec) (*aks.Machine, error) {
	kubernetes, err := aksKubernetesProfile(s)
	if err != nil {
		return nil, err
	}
	system, err := aksOSProfile(s)
	if err != nil {
		return nil, err
	}
	spec := &s.class.Spec
	properties := &aks.MachineProperties{
		Hardware:        &aks.MachineHardwareProfile{VMSize: to.Ptr(s.offering.Type), GpuProfile: aksmachine.GPUProfile(s.instanceType.sku, spec)},
		OperatingSystem: system,
		Kubernetes:      kubernetes,
		Network:         &aks.MachineNetworkProperties{VnetSubnetID: to.Ptr(a.subnets.idOf(s.class))},
		Mode:            aksmachine.PoolMode(s.claim),
		Security:        aksmachine.Security(spec),
		LocalDNSProfile: aksmachine.LocalDNSProfile(s.class),
	}
	if name := aksImageName(s.image); name != "" {
		properties.NodeImageVersion = to.Ptr(name)
	}
	if s.claim.Labels[v1beta1.LabelSKUUltraSSD] == "true" {
		properties.Hardware.UltraSsdEnabled = to.Ptr(true)
	}
	s.instanceType.setAKSPriority(properties, s.offering.CapacityType)
	return &aks.Machine{Properties: properties}, nil
}

// setAKSPriority is setPriority for AKS's API.
func (t *instanceType) setAKSPriority(x *aks.MachineProperties, capacityType string) {
	x.Priority = to.Ptr(aks.ScaleSetPriorityRegular)
	if capacityType != offering.Spot {
		return
	}
	x.Priority = to.Ptr(aks.ScaleSetPrioritySpot)
	x.EvictionPolicy = to.Ptr(aks.ScaleSetEvictionPolicyDelete)
	x.Billing = &aks.MachineBillingProfile{SpotMaxPrice: to.Ptr(float32(t.billingMaxPrice()))}
}

func aksKubernetesProfile(s *vmSpec) (*aks.MachineKubernetesProfile, error) {
	spec := &s.class.Spec
	kubelet, err := aksmachine.KubeletConfig(spec.Kubelet)
	if err != nil {
		return nil, err
	}
	profile := &aks.MachineKubernetesProfile{
		OrchestratorVersion:      to.Ptr(kubeversion.Of(s.class)),
		NodeLabels:               armtext.Pointers(aksLabels(s)),
		NodeInitializationTaints: to.SliceOfPtrs(initialTaints(s.claim)...),
		MaxPods:                  to.Ptr(int32(s.instanceType.maxPods)),
		KubeletConfig:            kubelet,
	}
	if spec.StreamsArtifacts() {
		profile.ArtifactStreamingProfile = &aks.AgentPoolArtifactStreamingProfile{Enabled: to.Ptr(true)}
	}
	return profile, nil
}

// aksLabels returns the labels that a kubelet may set, without AKS's own and without those that
// depend on the zone, because machines in one request must have the same labels. The other
// labels are synced once the node has registered.
func aksLabels(s *vmSpec) map[string]string {
	labels := map[string]string{v1beta1.LabelNodeClass: s.class.Name, labelCapacityType: s.offering.CapacityType, labelDoNotSyncTaints: "true"}
	copySingleValues(labels, s.instanceType.offered.Labels)
	maps.Copy(labels, s.claim.Labels)
	if s.claim.Pool != "" {
		labels[labelNodePool] = s.claim.Pool
	}
	maps.DeleteFunc(labels, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return !passesToKubelet(key) || inDomain(domain, "kubernetes.azure.com")
	})
	return labels
}

// initialTaints returns all taints that the node registers with. AKS does not reconcile them
// later.
func initialTaints(c provider.Claim) []string {
	all := append([]provider.Taint{unregistered()}, c.Taints...)
	var words []string
	for _, t := range append(all, c.StartupTaints...) {
		words = append(words, t.Key+"="+t.Value+":"+t.Effect)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

func aksOSProfile(s *vmSpec) (*aks.MachineOSProfile, error) {
	spec := &s.class.Spec
	sizeGB := s.instanceType.offered.Capacity["ephemeral-storage"] / sku.Gigabyte
	kind := aks.OSDiskTypeManaged
	if _, onHost := s.instanceType.sku.Local.Placement(sizeGB); onHost {
		kind = aks.OSDiskTypeEphemeral
	}
	label := image.ReleaseFor(spec, kubeversion.Minor(kubeversion.Of(s.class))).Label
	if strings.HasPrefix(label, osLinuxLabel) {
		label = osLinuxLabel // AKS derives the release from the image
	}
	profile, err := aksmachine.LinuxProfile(spec.LinuxOSConfig)
	if err != nil {
		return nil, err
	}
	return &aks.MachineOSProfile{
		OSType: to.Ptr(aks.OSTypeLinux), OSSKU: to.Ptr(aks.OSSKU(label)), OSDiskSizeGB: to.Ptr(int32(sizeGB)), OSDiskType: to.Ptr(kind),
		EnableFIPS: to.Ptr(spec.FIPS()), LinuxProfile: profile,
	}, nil
}

// osLinuxLabel is the prefix of AKS's names for releases of AzureLinux.
const osLinuxLabel = "AzureLinux"
