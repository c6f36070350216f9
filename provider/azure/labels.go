// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// Labels of other components that karve sets or reads.
const (
	labelNodePool        = "karpenter.sh/nodepool"
	labelCapacityType    = "karpenter.sh/capacity-type"
	labelDoNotSyncTaints = "karpenter.sh/do-not-sync-taints"
	labelCSIZone         = "topology.disk.csi.azure.com/zone"
	diskDriver           = "disk.csi.azure.com"
	resourceNVIDIA       = "nvidia.com/gpu"
	resourceAMD          = "amd.com/gpu"
)

// typeLabels returns the labels of any node of an instance type in a node class.
func (b *typeBuilder) typeLabels(s *sku.SKU, settings classSettings) map[string][]string {
	labels := map[string][]string{}
	set := func(key string, values ...string) { labels[key] = values }
	number := func(n int64) string { return strconv.FormatInt(n, 10) }

	set(corev1.LabelArchStable, s.Arch)
	set(corev1.LabelOSStable, "linux")
	set(corev1.LabelTopologyRegion, string(b.region))
	set(v1beta1.LabelSKUName, s.Name)
	set(v1beta1.LabelSKUFamily, s.Size.Family)
	set(v1beta1.LabelSKUSeries, series(s.Size.Series))
	set(v1beta1.LabelSKUVersion, s.Size.Version)
	set(v1beta1.LabelSKUCPU, number(s.VCPUs))
	set(v1beta1.LabelSKUMemory, number(s.MemoryMiB))
	set(v1beta1.LabelSKUAcceleratedNetworking, strconv.FormatBool(s.Features.AcceleratedNetworking))
	set(v1beta1.LabelSKUPremiumStorage, strconv.FormatBool(s.Features.PremiumIO))
	if gb := s.Local.LargestGB(); gb > 0 {
		set(v1beta1.LabelSKUEphemeralOSMaxSize, number(gb))
	}
	if s.GPUs > 0 {
		set(v1beta1.LabelSKUGPUName, s.GPU.Name)
		set(v1beta1.LabelSKUGPUManufacturer, string(s.GPU.Manufacturer))
		set(v1beta1.LabelSKUGPUCount, number(s.GPUs))
	}
	set(v1beta1.AKSLabelCluster, clusterLabel(b.nodeGroup))
	set(v1beta1.AKSLabelMode, v1beta1.ModeSystem, v1beta1.ModeUser)
	set(v1beta1.AKSLabelOSSKU, settings.image.OSSKU())
	set(v1beta1.AKSLabelCPU, number(s.VCPUs))
	set(v1beta1.AKSLabelMemory, number(s.MemoryMiB))
	set(v1beta1.AKSLabelLocalDNSState, map[bool]string{true: "enabled", false: "disabled"}[settings.localDNS])
	if settings.fips {
		set(v1beta1.AKSLabelFIPSEnabled, "true")
	}
	if settings.streaming {
		set(v1beta1.AKSLabelArtifactStreaming, "true")
	}
	b.clusterLabels(settings, set)
	return labels
}

// clusterLabels sets the labels that AKS puts on every node of such a cluster. Pods and
// DaemonSets select by them, above all those of the network, so scheduling must know them before
// the node exists.
func (b *typeBuilder) clusterLabels(settings classSettings, set func(key string, values ...string)) {
	set(v1beta1.AKSLabelRole, v1beta1.RoleAgent)
	set(v1beta1.AKSLabelOSSKURequested, string(settings.image))
	set(v1beta1.AKSLabelOSSKUEffective, settings.release)
	if b.kubeletIdentity != "" {
		set(v1beta1.AKSLabelKubeletIdentityClientID, b.kubeletIdentity)
	}
	if b.cni.Dataplane == network.DataplaneCilium {
		set(v1beta1.AKSLabelEBPFDataplane, network.DataplaneCilium)
	}
	if !b.cni.Overlay() {
		return
	}
	set(v1beta1.AKSLabelAzureCNIOverlay, "true")
	set(v1beta1.AKSLabelPodNetworkType, network.ModeOverlay)
	if settings.minor > 0 {
		set(v1beta1.AKSLabelNetworkStatelessCNI, strconv.FormatBool(settings.minor >= 34))
	}
	if settings.subnetName != "" && len(validation.IsValidLabelValue(settings.subnetName)) == 0 {
		set(v1beta1.AKSLabelNetworkSubnet, settings.subnetName)
	}
}

// series converts Ds_v5, as in the name of a VM size, to Dsv5.
func series(s string) string { return strings.ReplaceAll(s, "_", "") }

// clusterLabel returns the node resource group in the form of AKS's node label.
func clusterLabel(group string) string {
	safe := strings.NewReplacer("(", "-", ")", "-").Replace(group)
	if len(safe) > 63 {
		safe = safe[:63]
	}
	if end := len(safe) - 1; end >= 0 && strings.ContainsRune("-_.", rune(safe[end])) {
		safe = safe[:end] + "z"
	}
	return safe
}

// offeringLabels returns the labels that depend on the offering rather than on the instance type.
func offeringLabels(zone, capacityType string, ultra bool) map[string][]string {
	labels := map[string][]string{
		v1beta1.LabelPlacementScope:      {stock.ScopeOf(zone)},
		v1beta1.LabelSKUUltraSSD:         {"false"},
		v1beta1.AKSLabelScaleSetPriority: {priorityLabel(capacityType)},
		v1beta1.AKSLabelPriority:         {priorityLabel(capacityType)},
		labelCSIZone:                     {csiZone(zone)},
	}
	if ultra {
		labels[v1beta1.LabelSKUUltraSSD] = []string{"false", "true"}
	}
	return labels
}

// csiZone returns the zone in the label of the disk driver: empty for a node without one.
func csiZone(zone string) string {
	if zone == stock.RegionalZone {
		return ""
	}
	return zone
}

func priorityLabel(capacityType string) string {
	if capacityType == offering.Spot {
		return v1beta1.PrioritySpot
	}
	return v1beta1.PriorityRegular
}

// passesToKubelet reports whether karve passes a label to the kubelet, which sets it on its node.
// A kubelet does not start with a label of the Kubernetes domains that it may not set; the
// controller syncs those once the node has registered. karve does not pass labels that the kubelet
// sets anyway, or that the cloud controller or the disk driver sets.
func passesToKubelet(key string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, corev1.LabelInstanceTypeStable,
		corev1.LabelTopologyRegion, corev1.LabelTopologyZone, labelCSIZone:
		return false
	}
	domain, _, prefixed := strings.Cut(key, "/")
	if !prefixed {
		return true
	}
	if !inDomain(domain, "kubernetes.io") && !inDomain(domain, "k8s.io") {
		return true
	}
	return inDomain(domain, "kubelet.kubernetes.io") || inDomain(domain, "node.kubernetes.io")
}

func inDomain(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
