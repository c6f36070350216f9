// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
)

// configuration is the document that the node controller of an image reads, as far as karve fills
// it: aksnodeconfig.v1.Configuration in protobuf's JSON, with the names of the .proto files.
// Images ignore fields that they do not know.
type configuration struct {
	Version         string           `json:"version"`
	KubeBinaries    object           `json:"kube_binary_config"`
	CustomCloud     object           `json:"custom_cloud_config,omitempty"`
	Server          object           `json:"api_server_config"`
	Cluster         object           `json:"cluster_config"`
	Bootstrapping   object           `json:"bootstrapping_config"`
	Auth            object           `json:"auth_config"`
	Kubelet         object           `json:"kubelet_config"`
	LinuxOS         object           `json:"custom_linux_os_config,omitempty"`
	GPU             object           `json:"gpu_config"`
	Network         object           `json:"network_config"`
	CA              string           `json:"kubernetes_ca_cert"` // base64 of PEM
	Kubernetes      string           `json:"kubernetes_version"`
	Size            string           `json:"vm_size"`
	Admin           string           `json:"linux_admin_username"`
	IsVHD           bool             `json:"is_vhd"`
	EnableSSH       bool             `json:"enable_ssh"`
	StreamArtifacts bool             `json:"enable_artifact_streaming,omitempty"`
	DualStack       bool             `json:"ipv6_dual_stack_enabled,omitempty"`
	CgroupV2        bool             `json:"needs_cgroupv2"`
	LocalDNS        *localDNSProfile `json:"local_dns_profile,omitempty"`
	Timeout         int32            `json:"cse_timeout"` // seconds
}

// object is a message of the contract. Its fields are written sorted by name.
type object map[string]any

// localDNSProfile is message LocalDnsProfile.
type localDNSProfile struct {
	Enable    bool                    `json:"enable_local_dns"`
	CPUMilli  int32                   `json:"cpu_limit_in_milli_cores"`
	MemoryMB  int32                   `json:"memory_limit_in_mb"`
	VNetZones map[string]localDNSZone `json:"vnet_dns_overrides"`
	KubeZones map[string]localDNSZone `json:"kube_dns_overrides"`
}

// localDNSZone is message LocalDnsOverrides; its enum values are those of karve's API.
type localDNSZone struct {
	QueryLogging       v1beta1.LocalDNSQueryLogging       `json:"query_logging"`
	Protocol           v1beta1.LocalDNSProtocol           `json:"protocol"`
	ForwardDestination v1beta1.LocalDNSForwardDestination `json:"forward_destination"`
	ForwardPolicy      v1beta1.LocalDNSForwardPolicy      `json:"forward_policy"`
	MaxConcurrent      int32                              `json:"max_concurrent"`
	CacheSeconds       int32                              `json:"cache_duration_in_seconds"`
	StaleSeconds       int32                              `json:"serve_stale_duration_in_seconds"`
	ServeStale         v1beta1.LocalDNSServeStale         `json:"serve_stale"`
}

// structured returns the document together with the script that writes it to its file.
func (n *NodeConfig) structured() ([]byte, error) {
	c, err := n.configuration()
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding the node configuration: %w", err)
	}
	return multipart(part{"text/cloud-boothook", bootHook(document)}, part{"text/cloud-config", cloudConfig}), nil
}

func (n *NodeConfig) configuration() (configuration, error) {
	kubelet, err := n.kubeletConfig()
	if err != nil {
		return configuration{}, err
	}
	return configuration{
		Version:         "v1",
		KubeBinaries:    n.kubeBinaryConfig(),
		CustomCloud:     n.customCloudConfig(),
		Server:          object{"api_server_name": n.Server},
		Cluster:         n.cluster(),
		Bootstrapping:   n.bootstrapping(),
		Auth:            n.auth(),
		Kubelet:         kubelet,
		LinuxOS:         n.linuxOS(),
		GPU:             object{"enable_nvidia": n.GPU.Install, "config_gpu_driver": n.GPU.Install},
		Network:         n.network(),
		CA:              base64.StdEncoding.EncodeToString(n.CA),
		Kubernetes:      n.Version,
		Size:            n.Size,
		Admin:           n.Admin,
		IsVHD:           true,
		EnableSSH:       true,
		StreamArtifacts: n.StreamArtifacts,
		DualStack:       n.Network.DualStack,
		CgroupV2:        true,
		LocalDNS:        n.localDNSProfile(),
		Timeout:         provisionSeconds,
	}, nil
}

func (n *NodeConfig) kubeBinaryConfig() object {
	return filled(object{
		"kube_binary_url": n.kubeBinaries(), "linux_credential_provider_url": n.credentialProvider(), "pod_infra_container_image_url": n.pauseImage(),
	})
}

// customCloudConfig returns the settings of a cloud that images do not know; nil for others.
func (n *NodeConfig) customCloudConfig() object {
	if !n.Cloud.Custom() {
		return nil
	}
	return filled(object{
		"custom_cloud_env_name": customCloud, "custom_env_json_content": n.Cloud.encoded(),
		"container_registry_dns_suffix": n.Cloud.RegistrySuffix, "repo_depot_endpoint": n.Cloud.RepoDepot,
	})
}

func (n *NodeConfig) bootstrapping() object {
	return object{
		"bootstrapping_auth_method": "BOOTSTRAPPING_AUTH_METHOD_BOOTSTRAP_TOKEN",
		"cluster_join_method":       "CLUSTER_JOIN_METHOD_GENERATE_CSR",
		"tls_bootstrapping_token":   n.Token,
	}
}

func (n *NodeConfig) auth() object {
	return filled(object{
		"tenant_id": n.Tenant, "subscription_id": n.Subscription, "service_principal_id": managedIdentity,
		"assigned_identity_id": n.Identity, "use_managed_identity_extension": true,
	})
}

func (n *NodeConfig) kubeletConfig() (object, error) {
	flags, err := n.kubeletFlags()
	if err != nil {
		return nil, err
	}
	if err := checkLabels(n.Labels); err != nil {
		return nil, err
	}
	dashed := map[string]string{}
	for name, value := range flags {
		dashed["--"+name] = value
	}
	return filled(object{"kubelet_flags": dashed, "kubelet_node_labels": n.Labels}), nil
}

// filled removes empty values, as protobuf's own encoders do.
func filled(o object) object {
	maps.DeleteFunc(o, func(_ string, value any) bool {
		switch v := value.(type) {
		case string:
			return v == ""
		case map[string]string:
			return len(v) == 0
		}
		return false
	})
	return o
}

func (n *NodeConfig) cluster() object {
	return object{
		"resource_group":        n.ResourceGroup,
		"location":              n.Location,
		"vm_type":               "VM_TYPE_VMSS",
		"use_instance_metadata": true,
		"cluster_network_config": filled(object{
			"vnet_name": n.Network.VNet, "vnet_resource_group": n.Network.VNetResourceGroup, "subnet": n.Network.Subnet,
			"security_group_name": n.Network.SecurityGroup, "route_table": n.Network.RouteTable, "core_dns_service_ip": n.DNS,
		}),
		"load_balancer_config": object{
			"load_balancer_sku": "LOAD_BALANCER_SKU_STANDARD", "exclude_master_from_standard_load_balancer": true,
			"max_load_balancer_rule_count": balancerRules,
		},
	}
}

func (n *NodeConfig) network() object {
	o := object{"network_plugin": "NETWORK_PLUGIN_" + strings.ToUpper(n.Network.Plugin)}
	if policy := n.policy(); policy != "" {
		o["network_policy"] = "NETWORK_POLICY_" + strings.ToUpper(policy)
	}
	return o
}

// linuxOS returns the settings of the operating system; nil when none is set: the image has the
// same baseline as karve.
func (n *NodeConfig) linuxOS() object {
	enabled, defrag := n.hugePages()
	o := filled(object{"transparent_hugepage_support": enabled, "transparent_defrag": defrag})
	if mb := n.swapMB(); mb > 0 {
		o["enable_swap_config"], o["swap_file_size"] = true, mb
	}
	settings := object{}
	for _, s := range sysctls(n.sysctlConfiguration()) {
		settings[s.field] = s.value
	}
	if len(settings) > 0 {
		o["sysctl_config"] = settings
	}
	if len(o) == 0 {
		return nil
	}
	return o
}

func (n *NodeConfig) localDNSProfile() *localDNSProfile {
	if n.LocalDNS == nil {
		return nil
	}
	zones := func(list []v1beta1.LocalDNSZoneOverride) map[string]localDNSZone {
		m := map[string]localDNSZone{}
		for _, z := range list {
			m[z.Zone] = localDNSZone{
				z.QueryLogging, z.Protocol, z.ForwardDestination, z.ForwardPolicy, *z.MaxConcurrent,
				seconds(z.CacheDuration), seconds(z.ServeStaleDuration), z.ServeStale,
			}
		}
		return m
	}
	return &localDNSProfile{true, localDNSCPUMilli, localDNSMemoryMB, zones(n.LocalDNS.VnetDNSOverrides), zones(n.LocalDNS.KubeDNSOverrides)}
}

// configFile is the file that the node controller reads.
const configFile = "/opt/azure/containers/aks-node-controller-config.json"

// bootHook writes the document in base64, which contains nothing that a shell interprets, and
// starts the node controller. Newer images start it through a launcher, and their unit is
// disabled. The hook runs early enough that neither misses the document.
func bootHook(document []byte) string {
	return `#cloud-boothook
#!/bin/bash
set -euo pipefail
mkdir -p /opt/azure/containers /var/log/azure
install -m 0600 /dev/null ` + configFile + `
base64 -d >` + configFile + ` <<'EOF'
` + wrapped(base64.StdEncoding.EncodeToString(document)) + `EOF
if [ -f /opt/azure/containers/aks-node-controller-launcher.sh ]; then
  nohup /bin/bash /opt/azure/containers/aks-node-controller-launcher.sh >/var/log/azure/aks-node-controller.output 2>&1 &
else
  systemctl start --no-block aks-node-controller.service
fi
`
}

// wrapped breaks base64 into lines of 76 characters, as in mail.
func wrapped(text string) string {
	var b strings.Builder
	for line := range slices.Chunk([]byte(text), 76) {
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// cloudConfig is the part that images wait for before they report cloud-init as done.
const cloudConfig = "#cloud-config\nruncmd:\n- echo \"AKS Node Controller cloud-init completed at $(date)\"\n"

type part struct{ kind, text string }

// multipart writes parts in cloud-init's format. The boundary is fixed, so that the same node
// gives the same bytes. No part can contain it: neither base64 nor karve's own text has such a
// line.
func multipart(parts ...part) []byte {
	const boundary = "==karve=bootstrap=="
	var b bytes.Buffer
	fmt.Fprintf(&b, "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=%s\r\n\r\n", strconv.Quote(boundary))
	for _, p := range parts {
		fmt.Fprintf(&b, "--%s\r\nContent-Type: %s\r\nMIME-Version: 1.0\r\nContent-Transfer-Encoding: 7bit\r\n\r\n%s\r\n", boundary, p.kind, p.text)
	}
	fmt.Fprintf(&b, "--%s--\r\n", boundary)
	return b.Bytes()
}
