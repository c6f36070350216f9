// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
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

// body returns the machine for AKS to create for a launch, without its zone and tags: machines
// that are alike in the rest are created with one request. It holds nothing of the claim that
// other claims of its kind do not have.
func (a *byAKS) body(ctx context.Context, l *launch, m *machineType, choice offering.Ref) (*aks.Machine, error) {
	image, err := l.image(ctx, m.sku)
	if err != nil {
		return nil, err
	}
	kubernetes, err := a.kubernetes(l, m, choice)
	if err != nil {
		return nil, err
	}
	system, err := aksSystem(l, m)
	if err != nil {
		return nil, err
	}
	spec := &l.class.Spec
	properties := &aks.MachineProperties{
		Hardware:        &aks.MachineHardwareProfile{VMSize: to.Ptr(choice.Type), GpuProfile: aksmachine.GPUProfile(m.sku, spec)},
		OperatingSystem: system,
		Kubernetes:      kubernetes,
		Network:         &aks.MachineNetworkProperties{VnetSubnetID: to.Ptr(a.p.subnets.of(l.class))},
		Mode:            aksmachine.PoolMode(l.claim),
		Security:        aksmachine.Security(spec),
		LocalDNSProfile: aksmachine.LocalDNSProfile(l.class),
	}
	if name := nodeImageOf(image); name != "" {
		properties.NodeImageVersion = to.Ptr(name)
	}
	if l.claim.Labels[v1beta1.LabelSKUUltraSSD] == "true" {
		properties.Hardware.UltraSsdEnabled = to.Ptr(true)
	}
	m.setAKSPriority(properties, choice.CapacityType)
	return &aks.Machine{Properties: properties}, nil
}

// setAKSPriority is setPriority for AKS's API.
func (m *machineType) setAKSPriority(x *aks.MachineProperties, capacityType string) {
	x.Priority = to.Ptr(aks.ScaleSetPriorityRegular)
	if capacityType != offering.Spot {
		return
	}
	x.Priority = to.Ptr(aks.ScaleSetPrioritySpot)
	x.EvictionPolicy = to.Ptr(aks.ScaleSetEvictionPolicyDelete)
	x.Billing = &aks.MachineBillingProfile{SpotMaxPrice: to.Ptr(float32(m.spotMaxPrice()))}
}

func (a *byAKS) kubernetes(l *launch, m *machineType, choice offering.Ref) (*aks.MachineKubernetesProfile, error) {
	spec := &l.class.Spec
	kubelet, err := aksmachine.KubeletConfig(spec.Kubelet)
	if err != nil {
		return nil, err
	}
	profile := &aks.MachineKubernetesProfile{
		OrchestratorVersion:      to.Ptr(kubeversion.Of(l.class)),
		NodeLabels:               armtext.Pointers(a.labels(l, m, choice)),
		NodeInitializationTaints: to.SliceOfPtrs(initialTaints(l.claim)...),
		MaxPods:                  to.Ptr(int32(m.maxPods)),
		KubeletConfig:            kubelet,
	}
	if spec.StreamsArtifacts() {
		profile.ArtifactStreamingProfile = &aks.AgentPoolArtifactStreamingProfile{Enabled: to.Ptr(true)}
	}
	return profile, nil
}

// labels returns the labels that a kubelet may set, without AKS's own and without those that
// depend on the zone, because machines in one request must have the same labels. The other
// labels are synced once the node has registered.
func (a *byAKS) labels(l *launch, m *machineType, choice offering.Ref) map[string]string {
	labels := map[string]string{v1beta1.LabelNodeClass: l.class.Name, labelCapacityType: choice.CapacityType, labelDoNotSyncTaints: "true"}
	single(labels, m.offered.Labels)
	maps.Copy(labels, l.claim.Labels)
	if l.claim.Pool != "" {
		labels[labelNodePool] = l.claim.Pool
	}
	maps.DeleteFunc(labels, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return !kubeletMaySet(key) || within(domain, "kubernetes.azure.com")
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

func aksSystem(l *launch, m *machineType) (*aks.MachineOSProfile, error) {
	spec := &l.class.Spec
	sizeGB := m.offered.Capacity["ephemeral-storage"] / sku.Gigabyte
	kind := aks.OSDiskTypeManaged
	if _, onHost := m.sku.Local.Placement(sizeGB); onHost {
		kind = aks.OSDiskTypeEphemeral
	}
	label := image.ReleaseFor(spec, kubeversion.Minor(kubeversion.Of(l.class))).Label
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
