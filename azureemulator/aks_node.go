// SPDX-License-Identifier: Apache-2.0

package azureemulator

import "encoding/json"

// NodeProfile says what node a machine of an agent pool is to be: properties of the
// machine as its client gave them, in AKS's spelling, and what AKS knows besides. AKS
// bootstraps such a machine by itself.
type NodeProfile struct {
	Pool string `json:"-"`
	// Cluster is the cluster's node resource group, which AKS labels nodes with.
	Cluster string `json:"-"`

	Kubernetes struct {
		OrchestratorVersion      string            `json:"orchestratorVersion"`
		NodeLabels               map[string]string `json:"nodeLabels"`
		NodeTaints               []string          `json:"nodeTaints"`
		NodeInitializationTaints []string          `json:"nodeInitializationTaints"`
		MaxPods                  int64             `json:"maxPods"`
		KubeletConfig            KubeletSettings   `json:"kubeletConfig"`
	} `json:"kubernetes"`
	OperatingSystem struct {
		OSSKU        string `json:"osSKU"`
		OSDiskSizeGB int64  `json:"osDiskSizeGB"`
		LinuxProfile struct {
			LinuxOSConfig LinuxSettings `json:"linuxOSConfig"`
		} `json:"linuxProfile"`
	} `json:"operatingSystem"`
	Hardware struct {
		GPUProfile struct {
			Driver string `json:"driver"`
		} `json:"gpuProfile"`
	} `json:"hardware"`
	LocalDNSProfile struct {
		Mode string `json:"mode"`
	} `json:"localDNSProfile"`
	Mode             string `json:"mode"`
	NodeImageVersion string `json:"nodeImageVersion"`
}

// KubeletSettings are those that AKS lets its clients choose. What is nil or empty is as
// the kubelet has it.
type KubeletSettings struct {
	AllowedUnsafeSysctls  []string `json:"allowedUnsafeSysctls"`
	ContainerLogMaxFiles  *int32   `json:"containerLogMaxFiles"`
	ContainerLogMaxSizeMB *int32   `json:"containerLogMaxSizeMB"`
	CPUCfsQuota           *bool    `json:"cpuCfsQuota"`
	CPUCfsQuotaPeriod     string   `json:"cpuCfsQuotaPeriod"`
	CPUManagerPolicy      string   `json:"cpuManagerPolicy"`
	FailSwapOn            *bool    `json:"failSwapOn"`
	ImageGcHighThreshold  *int32   `json:"imageGcHighThreshold"`
	ImageGcLowThreshold   *int32   `json:"imageGcLowThreshold"`
	PodMaxPids            *int32   `json:"podMaxPids"`
	TopologyManagerPolicy string   `json:"topologyManagerPolicy"`
}

// LinuxSettings are those of the machine's kernel.
type LinuxSettings struct {
	SwapFileSizeMB             int64          `json:"swapFileSizeMB"`
	Sysctls                    map[string]any `json:"sysctls"`
	TransparentHugePageDefrag  string         `json:"transparentHugePageDefrag"`
	TransparentHugePageEnabled string         `json:"transparentHugePageEnabled"`
}

// readNodeProfile reads properties.
func readNodeProfile(properties map[string]any) (*NodeProfile, error) {
	p := &NodeProfile{}
	raw, err := json.Marshal(properties)
	if err == nil {
		err = json.Unmarshal(raw, p)
	}
	if err != nil {
		return nil, invalidContent(err)
	}
	return p, nil
}
