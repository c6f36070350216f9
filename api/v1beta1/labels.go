// SPDX-License-Identifier: Apache-2.0

package v1beta1

// TerminationFinalizer keeps a class until no NodeClaim refers to it.
const TerminationFinalizer = Group + "/termination"

// Annotations.
const (
	// AnnotationHash is the Hash of the class, on the class and, as it was at
	// launch, on its NodeClaims.
	AnnotationHash = Group + "/aksnodeclass-hash"
	// AnnotationHashVersion is the HashVersion of that hash.
	AnnotationHashVersion = Group + "/aksnodeclass-hash-version"
	// AnnotationInPlaceUpdateHash is the hash, on a NodeClaim, of the settings that
	// are changed on a running VM, such as tags.
	AnnotationInPlaceUpdateHash = Group + "/in-place-update-hash"
	// AnnotationAKSMachineResourceID is the resource ID of a NodeClaim's AKS machine,
	// where VMs come from the AKS machine API.
	AnnotationAKSMachineResourceID = Group + "/aks-machine-resource-id"
)

// Labels that describe the VM size of a node. Numbers are whole, so Gt and Lt
// work on them; yes and no are "true" and "false".
const (
	// LabelNodeClass carries the name of the class.
	LabelNodeClass = Group + "/aksnodeclass"
	// LabelSKUName is the VM size, for example Standard_D4s_v5.
	LabelSKUName = Group + "/sku-name"
	// LabelSKUFamily is the letters of the family, for example D.
	LabelSKUFamily = Group + "/sku-family"
	// LabelSKUSeries is the family with its features and version, for example Dsv5.
	LabelSKUSeries = Group + "/sku-series"
	// LabelSKUVersion is the number after "v" in the size; 1 when there is none.
	LabelSKUVersion = Group + "/sku-version"
	// LabelSKUCPU is the number of vCPUs.
	LabelSKUCPU = Group + "/sku-cpu"
	// LabelSKUMemory is the advertised memory in MiB.
	LabelSKUMemory = Group + "/sku-memory"
	// LabelSKUAcceleratedNetworking says whether NICs can bypass the host.
	LabelSKUAcceleratedNetworking = Group + "/sku-networking-accelerated"
	// LabelSKUPremiumStorage says whether premium SSDs can be attached.
	LabelSKUPremiumStorage = Group + "/sku-storage-premium-capable"
	// LabelSKUUltraSSD says whether ultra disks can be attached in the zone.
	LabelSKUUltraSSD = Group + "/sku-storage-ultra-ssd"
	// LabelSKUEphemeralOSMaxSize is the largest OS disk, in GB, that the VM's
	// own storage can hold; absent when there is none.
	LabelSKUEphemeralOSMaxSize = Group + "/sku-storage-ephemeralos-maxsize"
	// LabelSKUGPUName is the model of the GPUs, for example A100.
	LabelSKUGPUName = Group + "/sku-gpu-name"
	// LabelSKUGPUManufacturer is nvidia or amd.
	LabelSKUGPUManufacturer = Group + "/sku-gpu-manufacturer"
	// LabelSKUGPUCount is the number of GPUs.
	LabelSKUGPUCount = Group + "/sku-gpu-count"
	// LabelPlacementScope is zonal, or regional for a VM without a zone.
	LabelPlacementScope = Group + "/placement-scope"
	// LabelSKUHyperVGeneration is "1" or "2". It matches images to instance types;
	// users cannot ask for it.
	LabelSKUHyperVGeneration = Group + "/sku-hyperv-generation"
)

// AKSLabelDomain is the domain of the labels that AKS itself puts on nodes.
const AKSLabelDomain = "kubernetes.azure.com"

// Labels of AKS that pods and NodePools may ask for.
const (
	// AKSLabelCluster is the name of the node resource group, made to fit a label.
	AKSLabelCluster = AKSLabelDomain + "/cluster"
	// AKSLabelMode is system or user.
	AKSLabelMode = AKSLabelDomain + "/mode"
	// AKSLabelScaleSetPriority is regular or spot, as the capacity type says.
	AKSLabelScaleSetPriority = AKSLabelDomain + "/scalesetpriority"
	// AKSLabelPriority says the same under a newer name.
	AKSLabelPriority = AKSLabelDomain + "/priority"
	// AKSLabelOSSKU is Ubuntu or AzureLinux.
	AKSLabelOSSKU = AKSLabelDomain + "/os-sku"
	// AKSLabelFIPSEnabled is "true" on FIPS nodes and absent on others.
	AKSLabelFIPSEnabled = AKSLabelDomain + "/fips_enabled"
	// AKSLabelCPU equals LabelSKUCPU.
	AKSLabelCPU = AKSLabelDomain + "/sku-cpu"
	// AKSLabelMemory equals LabelSKUMemory.
	AKSLabelMemory = AKSLabelDomain + "/sku-memory"
	// AKSLabelEBPFDataplane is cilium where Cilium is the dataplane.
	AKSLabelEBPFDataplane = AKSLabelDomain + "/ebpf-dataplane"
	// AKSLabelEBPFHostRouting is asked for by Cilium's own pods.
	AKSLabelEBPFHostRouting = AKSLabelDomain + "/ebpf-host-routing"
	// AKSLabelNetworkPolicy is asked for by Azure CNI's own pods.
	AKSLabelNetworkPolicy = AKSLabelDomain + "/network-policy"
	// AKSLabelHostedVM is asked for by pods that stay off autoscaled nodes.
	AKSLabelHostedVM = AKSLabelDomain + "/hostedvm"
)

// Labels of AKS that a node gets when it starts.
const (
	// AKSLabelRole is agent on every node.
	AKSLabelRole = AKSLabelDomain + "/role"
	// AKSLabelKubeletIdentityClientID is the client ID of the kubelet's identity.
	AKSLabelKubeletIdentityClientID = AKSLabelDomain + "/kubelet-identity-client-id"
	// AKSLabelOSSKURequested is the image family the class asked for.
	AKSLabelOSSKURequested = AKSLabelDomain + "/os-sku-requested"
	// AKSLabelOSSKUEffective is the release it led to, for example Ubuntu2404.
	AKSLabelOSSKUEffective = AKSLabelDomain + "/os-sku-effective"
	// AKSLabelNetworkSubnet is the name of the node's subnet.
	AKSLabelNetworkSubnet = AKSLabelDomain + "/network-subnet"
	// AKSLabelVNetGUID is the GUID of the node's virtual network.
	AKSLabelVNetGUID = AKSLabelDomain + "/nodenetwork-vnetguid"
	// AKSLabelAzureCNIOverlay is "true" with Azure CNI overlay.
	AKSLabelAzureCNIOverlay = AKSLabelDomain + "/azure-cni-overlay"
	// AKSLabelPodNetworkType is overlay with Azure CNI overlay.
	AKSLabelPodNetworkType = AKSLabelDomain + "/podnetwork-type"
	// AKSLabelNetworkStatelessCNI says whether the CNI keeps no state on the node.
	AKSLabelNetworkStatelessCNI = AKSLabelDomain + "/network-stateless-cni"
	// AKSLabelLocalDNSState is enabled or disabled.
	AKSLabelLocalDNSState = AKSLabelDomain + "/localdns-state"
	// AKSLabelArtifactStreaming is "true" on nodes that stream images.
	AKSLabelArtifactStreaming = AKSLabelDomain + "/artifactstreaming-enabled"
)

// Labels of AKS from before it had a domain. NodePools may not set them.
const (
	AKSLabelLegacyAgentPool      = "agentpool"
	AKSLabelLegacyStorageProfile = "storageprofile"
	AKSLabelLegacyStorageTier    = "storagetier"
	AKSLabelLegacyAccelerator    = "accelerator"
)

// Values of the labels above.
const (
	PlacementScopeZonal    = "zonal"
	PlacementScopeRegional = "regional"

	GPUManufacturerNVIDIA = "nvidia"
	GPUManufacturerAMD    = "amd"

	HyperVGeneration1 = "1"
	HyperVGeneration2 = "2"

	ModeSystem = "system"
	ModeUser   = "user"

	PriorityRegular = "regular"
	PrioritySpot    = "spot"

	OSSKUUbuntu     = "Ubuntu"
	OSSKUAzureLinux = "AzureLinux"

	RoleAgent = "agent"
)

// AllowedLabels lists the labels of the domain karpenter.azure.com that
// NodePools may set or require. The rest of the domain is refused, so that a
// misspelt key is an error and not a pool that never fits.
func AllowedLabels() []string {
	return []string{
		LabelNodeClass,
		LabelSKUName,
		LabelSKUFamily,
		LabelSKUSeries,
		LabelSKUVersion,
		LabelSKUCPU,
		LabelSKUMemory,
		LabelSKUAcceleratedNetworking,
		LabelSKUPremiumStorage,
		LabelSKUUltraSSD,
		LabelSKUEphemeralOSMaxSize,
		LabelSKUGPUName,
		LabelSKUGPUManufacturer,
		LabelSKUGPUCount,
		LabelPlacementScope,
	}
}

// AllowedAKSLabels lists the labels of the domain kubernetes.azure.com that
// NodePools may set or require.
func AllowedAKSLabels() []string {
	return []string{
		AKSLabelMode,
		AKSLabelScaleSetPriority,
		AKSLabelPriority,
		AKSLabelFIPSEnabled,
		AKSLabelOSSKU,
		AKSLabelCluster,
		AKSLabelCPU,
		AKSLabelMemory,
		AKSLabelEBPFDataplane,
		AKSLabelEBPFHostRouting,
		AKSLabelNetworkPolicy,
		AKSLabelHostedVM,
	}
}

// LegacyAKSLabels lists the labels without a domain that AKS keeps for itself.
func LegacyAKSLabels() []string {
	return []string{
		AKSLabelLegacyAgentPool,
		AKSLabelLegacyStorageProfile,
		AKSLabelLegacyStorageTier,
		AKSLabelLegacyAccelerator,
	}
}
