// SPDX-License-Identifier: Apache-2.0

package v1beta1

// The Go names of the structs and fields in this package, and the order of the
// fields, are part of Hash: renaming or moving one would mark every node of every
// class as drifted. In the rules below, no empty string may be written as two
// single quotes: gofmt would turn them into one typographic quote.

// AKSNodeClassSpec is what the user asks for. Fields left out are decided by
// their default or by the controller's settings.
//
// +kubebuilder:validation:XValidation:rule="self.?fipsMode.orValue('Disabled') != 'FIPS' || (has(self.imageFamily) && self.imageFamily != 'Ubuntu2404')",message="fipsMode FIPS needs an imageFamily that has a FIPS image: set imageFamily to Ubuntu, Ubuntu2204 or AzureLinux (there is none for Ubuntu2404), or set fipsMode to Disabled"
// +kubebuilder:validation:XValidation:rule="self.?fipsMode.orValue('Disabled') != 'FIPS' || self.?imageFamily.orValue('Ubuntu') != 'Ubuntu2204' || self.?security.?trustedLaunch.?vtpm.orValue(false) || self.?security.?trustedLaunch.?secureBoot.orValue(false)",message="fipsMode FIPS with imageFamily Ubuntu2204 needs trusted launch, the only FIPS image of 22.04: set security.trustedLaunch.vtpm or security.trustedLaunch.secureBoot to true, or use imageFamily Ubuntu"
// +kubebuilder:validation:XValidation:rule="self.?fipsMode.orValue('Disabled') != 'FIPS' || self.?imageFamily.orValue('Ubuntu') in ['Ubuntu', 'Ubuntu2204'] || !(self.?security.?trustedLaunch.?vtpm.orValue(false) || self.?security.?trustedLaunch.?secureBoot.orValue(false))",message="fipsMode FIPS together with trusted launch is available for imageFamily Ubuntu and Ubuntu2204 only: change imageFamily, or set security.trustedLaunch.vtpm and security.trustedLaunch.secureBoot to false"
// +kubebuilder:validation:XValidation:rule="!has(self.linuxOSConfig) || !has(self.linuxOSConfig.swapFileSize) || !self.?kubelet.?failSwapOn.orValue(true)",message="linuxOSConfig.swapFileSize needs kubelet.failSwapOn set to false, or the kubelet refuses to start on a node with swap"
type AKSNodeClassSpec struct {
	// vnetSubnetID is the full Azure resource ID of the subnet that the nodes'
	// primary network interfaces join. It must be in the cluster's virtual network.
	// Default: the controller's vnet-subnet-id setting.
	// +kubebuilder:validation:Pattern=`(?i)^/subscriptions/[^/]+/resourceGroups/[a-z0-9_\-().]{0,89}[a-z0-9_\-()]/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+$`
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self.split('/').size() == 11",message="vnetSubnetID must be the full resource ID of a subnet: /subscriptions/<subscription>/resourceGroups/<group>/providers/Microsoft.Network/virtualNetworks/<network>/subnets/<subnet>"
	// +optional
	VNETSubnetID *string `json:"vnetSubnetID,omitempty"`

	// osDiskSizeGB is the size of the OS disk in GB, which is also the node's
	// ephemeral storage capacity. Default: 128.
	// +kubebuilder:default=128
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=2048
	// +optional
	OSDiskSizeGB *int32 `json:"osDiskSizeGB,omitempty"`

	// imageFamily is the operating system of the nodes. Ubuntu and AzureLinux
	// follow the release that AKS uses by default for the cluster's Kubernetes
	// version; Ubuntu2204 and Ubuntu2404 stay on theirs. Default: Ubuntu.
	// +kubebuilder:default=Ubuntu
	// +optional
	ImageFamily *ImageFamily `json:"imageFamily,omitempty"`

	// fipsMode FIPS gives the nodes an image with FIPS 140 validated
	// cryptography. Not set means Disabled.
	// +optional
	FIPSMode *FIPSMode `json:"fipsMode,omitempty"`

	// tags are put on every Azure resource created for a node, such as its
	// VM and network interface; Azure gives the disk those of the VM when it
	// is created. A "/" in a key is written as "_", which Azure requires. Changing tags
	// does not replace nodes; disks of nodes that run keep the tags they have.
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 512)",message="a tag key may have at most 512 characters: shorten it"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('[<>%&?]'))",message="a tag key may not contain any of < > % & ?: remove these characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('\\\\'))",message="a tag key may not contain a backslash: remove it"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 256)",message="a tag value may have at most 256 characters: shorten it"
	// +optional
	Tags map[string]string `json:"tags,omitempty" hash:"ignore"`

	// kubelet sets kubelet options of the nodes. The defaults inside it apply
	// only when this object is given.
	// +kubebuilder:validation:XValidation:rule="!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",message="kubelet.imageGCHighThresholdPercent must be greater than kubelet.imageGCLowThresholdPercent: raise the one or lower the other"
	// +optional
	Kubelet *KubeletConfiguration `json:"kubelet,omitempty"`

	// maxPods is how many pods the kubelet of a node may run, those of DaemonSets
	// included. Default: what AKS uses for the cluster's network plugin (30 for
	// Azure CNI with node subnet, 250 for overlay or no plugin, 110 otherwise).
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=250
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`

	// security holds protections of the VM and its disks. Each one limits
	// the VM sizes that can be launched to those that support it.
	// +optional
	Security *Security `json:"security,omitempty"`

	// localDNS runs a DNS cache on each node and says where it forwards which
	// zone. Default: no such cache.
	// +optional
	LocalDNS *LocalDNS `json:"localDNS,omitempty"`

	// gpu says who installs the driver on nodes with GPUs. It means nothing for
	// other nodes.
	// +optional
	GPU *GPU `json:"gpu,omitempty"`

	// artifactStreaming starts containers before their whole image has arrived.
	// +optional
	ArtifactStreaming *ArtifactStreaming `json:"artifactStreaming,omitempty"`

	// linuxOSConfig sets kernel parameters, huge pages and swap of the nodes.
	// +optional
	LinuxOSConfig *LinuxOSConfiguration `json:"linuxOSConfig,omitempty"`
}

// ImageFamily names an operating system that AKS publishes node images of.
// +kubebuilder:validation:Enum=Ubuntu;Ubuntu2204;Ubuntu2404;AzureLinux
type ImageFamily string

const (
	ImageFamilyUbuntu     ImageFamily = "Ubuntu"
	ImageFamilyUbuntu2204 ImageFamily = "Ubuntu2204"
	ImageFamilyUbuntu2404 ImageFamily = "Ubuntu2404"
	ImageFamilyAzureLinux ImageFamily = "AzureLinux"
)

// FIPSMode says whether nodes use FIPS 140 validated cryptography.
// +kubebuilder:validation:Enum=FIPS;Disabled
type FIPSMode string

const (
	FIPSModeFIPS     FIPSMode = "FIPS"
	FIPSModeDisabled FIPSMode = "Disabled"
)

// Security holds protections of the VM and its disks.
type Security struct {
	// encryptionAtHost encrypts temporary disks and disk caches on the physical
	// host too. The subscription must have the feature registered. Not set means
	// false.
	// +optional
	EncryptionAtHost *bool `json:"encryptionAtHost,omitempty"`

	// trustedLaunch protects the boot of the VM. It is used when either of
	// its parts is true, and then excludes arm64 and generation 1 VMs.
	// +optional
	TrustedLaunch *TrustedLaunch `json:"trustedLaunch,omitempty"`
}

// TrustedLaunch protects the boot of the VM.
type TrustedLaunch struct {
	// vtpm gives the VM a virtual TPM that measures its boot. Not set means
	// false.
	// +optional
	VTPM *bool `json:"vtpm,omitempty"`

	// secureBoot lets the VM start signed boot loaders, kernels and drivers
	// only. Not set means false.
	// +optional
	SecureBoot *bool `json:"secureBoot,omitempty"`
}

// GPU says who installs the driver on nodes with GPUs.
type GPU struct {
	// mode Driver has AKS install the NVIDIA driver, and only GPU sizes it has a
	// driver for are launched. None installs no driver, for clusters where a GPU
	// operator does, and allows every GPU size. Default: Driver.
	// +kubebuilder:default=Driver
	// +optional
	Mode *GPUMode `json:"mode,omitempty"`
}

// GPUMode says whether AKS installs a GPU driver.
// +kubebuilder:validation:Enum=Driver;None
type GPUMode string

const (
	GPUModeDriver GPUMode = "Driver"
	GPUModeNone   GPUMode = "None"
)

// ArtifactStreaming starts containers before their whole image has arrived.
type ArtifactStreaming struct {
	// enabled turns streaming on. Images profit only if their registry has
	// streaming on as well, and arm64 VMs are excluded. Not set means false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// OSSKU is the value of the os-sku label of nodes with this image family. A
// family that was not set means Ubuntu.
func (f ImageFamily) OSSKU() string {
	if f == ImageFamilyAzureLinux {
		return OSSKUAzureLinux
	}
	return OSSKUUbuntu
}

// FIPS reports whether nodes must run a FIPS image.
func (s *AKSNodeClassSpec) FIPS() bool {
	return s.FIPSMode != nil && *s.FIPSMode == FIPSModeFIPS
}

// EncryptsAtHost reports whether VMs must be encrypted on the host.
func (s *AKSNodeClassSpec) EncryptsAtHost() bool {
	return s.Security != nil && isTrue(s.Security.EncryptionAtHost)
}

// UsesTrustedLaunch reports whether VMs need the trusted launch security
// type, which either of its parts asks for.
func (s *AKSNodeClassSpec) UsesTrustedLaunch() bool {
	if s.Security == nil || s.Security.TrustedLaunch == nil {
		return false
	}
	return isTrue(s.Security.TrustedLaunch.VTPM) || isTrue(s.Security.TrustedLaunch.SecureBoot)
}

// InstallsGPUDriver reports whether AKS, rather than the user, brings the GPU
// driver. It does unless the user said None.
func (s *AKSNodeClassSpec) InstallsGPUDriver() bool {
	return s.GPU == nil || s.GPU.Mode == nil || *s.GPU.Mode != GPUModeNone
}

// StreamsArtifacts reports whether nodes stream container images.
func (s *AKSNodeClassSpec) StreamsArtifacts() bool {
	return s.ArtifactStreaming != nil && isTrue(s.ArtifactStreaming.Enabled)
}

func isTrue(b *bool) bool { return b != nil && *b }
