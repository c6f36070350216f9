package azure

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
)

// A bootNode is everything a machine must know to become a node.
type bootNode struct {
	name    string
	server  string // API server, host[:port]
	ca      []byte // PEM
	token   string
	version string // of Kubernetes, without "v"

	labels   map[string]string
	taints   []provider.Taint
	maxPods  int64
	reserved reservation
	gpu      gpuDriver
	kubelet  *v1beta1.KubeletConfiguration
	dns      string

	subscription, tenant, group, location string
	subnet                                subnetID
	networkPlugin, networkPolicy          string
	identityClientID, adminUser           string
}

// customData is the machine's first script: the variables that the provisioning
// scripts on AKS images read, then those scripts. The same node always gives the
// same bytes, so that repeating a creation repeats it exactly.
func (n *bootNode) customData() (string, error) {
	flags, err := n.kubeletFlags()
	if err != nil {
		return "", err
	}
	labels, err := n.nodeLabels()
	if err != nil {
		return "", err
	}
	vars := n.variables()
	vars["KUBELET_FLAGS"] = flags
	vars["KUBELET_NODE_LABELS"] = labels
	return base64.StdEncoding.EncodeToString([]byte(script(vars))), nil
}

// script writes the variables as exported assignments in the order of their
// names, then starts provisioning. Every value is one single-quoted shell word:
// nothing in it can end the word.
func script(vars map[string]string) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\nset -o allexport\n")
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		fmt.Fprintf(&b, "%s=%s\n", name, shellQuote(vars[name]))
	}
	b.WriteString(provision)
	return b.String()
}

// provision waits for the scripts of the image to be complete, and runs them.
const provision = `
echo '#EOF' >> /opt/azure/manifest.json
mkdir -p /var/log/azure/Microsoft.Azure.Extensions.CustomScript/events
for _ in $(seq 1 1200); do
  [ -s /opt/azure/containers/provision_start.sh ] && break
  sleep 1
done
/usr/bin/nohup /bin/bash -c "/bin/bash /opt/azure/containers/provision_start.sh"
`

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// variables are those whose values do not depend on the kubelet's command line.
func (n *bootNode) variables() map[string]string {
	vars := fixedVariables()
	maps.Copy(vars, map[string]string{
		"ADMINUSER":                      n.adminUser,
		"API_SERVER_NAME":                n.server,
		"CONFIG_GPU_DRIVER_IF_NEEDED":    strconv.FormatBool(n.gpu.install),
		"CONTAINERD_CONFIG_CONTENT":      base64.StdEncoding.EncodeToString([]byte(containerdConfig(n.gpu.install))),
		"GPU_DRIVER_TYPE":                n.gpu.kind,
		"GPU_DRIVER_VERSION":             n.gpu.version,
		"GPU_NODE":                       strconv.FormatBool(n.gpu.present),
		"KUBERNETES_VERSION":             n.version,
		"KUBE_CA_CRT":                    base64.StdEncoding.EncodeToString(n.ca),
		"LOCATION":                       n.location,
		"NETWORK_PLUGIN":                 n.networkPlugin,
		"NETWORK_POLICY":                 n.networkPolicy,
		"RESOURCE_GROUP":                 n.group,
		"SUBNET":                         n.subnet.subnet,
		"SUBSCRIPTION_ID":                n.subscription,
		"TENANT_ID":                      n.tenant,
		"TLS_BOOTSTRAP_TOKEN":            n.token,
		"USER_ASSIGNED_IDENTITY_ID":      n.identityClientID,
		"VIRTUAL_NETWORK":                n.subnet.vnet,
		"VIRTUAL_NETWORK_RESOURCE_GROUP": n.subnet.group,
	})
	return vars
}

// fixedVariables are the same for every node: which scripts the image holds, and
// choices that all AKS nodes share.
func fixedVariables() map[string]string {
	return map[string]string{
		"AZURE_ENVIRONMENT_FILEPATH":             "",
		"BLOCK_OUTBOUND_NETWORK":                 "false",
		"CLI_TOOL":                               "ctr",
		"CLOUDPROVIDER_BACKOFF":                  "true",
		"CLOUDPROVIDER_BACKOFF_DURATION":         "5",
		"CLOUDPROVIDER_BACKOFF_EXPONENT":         "0",
		"CLOUDPROVIDER_BACKOFF_JITTER":           "0",
		"CLOUDPROVIDER_BACKOFF_MODE":             "v2",
		"CLOUDPROVIDER_BACKOFF_RETRIES":          "6",
		"CLOUDPROVIDER_RATELIMIT":                "true",
		"CLOUDPROVIDER_RATELIMIT_BUCKET":         "100",
		"CLOUDPROVIDER_RATELIMIT_BUCKET_WRITE":   "100",
		"CLOUDPROVIDER_RATELIMIT_QPS":            "10",
		"CLOUDPROVIDER_RATELIMIT_QPS_WRITE":      "10",
		"CONTAINER_RUNTIME":                      "containerd",
		"CSE_DISTRO_HELPERS_FILEPATH":            "/opt/azure/containers/provision_source_distro.sh",
		"CSE_HELPERS_FILEPATH":                   "/opt/azure/containers/provision_source.sh",
		"CSE_INSTALL_FILEPATH":                   "/opt/azure/containers/provision_installs.sh",
		"CSE_DISTRO_INSTALL_FILEPATH":            "/opt/azure/containers/provision_installs_distro.sh",
		"CSE_CONFIG_FILEPATH":                    "/opt/azure/containers/provision_configs.sh",
		"CSE_TIMEOUT":                            "15m",
		"CUSTOM_SEARCH_DOMAIN_FILEPATH":          "/opt/azure/containers/setup-custom-search-domains.sh",
		"DHCPV6_CONFIG_FILEPATH":                 "/opt/azure/containers/enable-dhcpv6.sh",
		"DHCPV6_SERVICE_FILEPATH":                "/etc/systemd/system/dhcpv6.service",
		"ENABLE_GPU_DEVICE_PLUGIN_IF_NEEDED":     "false",
		"ENABLE_HOSTS_CONFIG_AGENT":              "false",
		"ENABLE_SECURE_TLS_BOOTSTRAPPING":        "false",
		"ENABLE_TLS_BOOTSTRAPPING":               "true",
		"ENABLE_UNATTENDED_UPGRADES":             "false",
		"ENSURE_NO_DUPE_PROMISCUOUS_BRIDGE":      "false",
		"EXCLUDE_MASTER_FROM_STANDARD_LB":        "true",
		"HAS_CUSTOM_SEARCH_DOMAIN":               "false",
		"HTTP_PROXY_URLS":                        "",
		"HTTPS_PROXY_URLS":                       "",
		"IS_CUSTOM_CLOUD":                        "false",
		"IS_KATA":                                "false",
		"IS_VHD":                                 "true",
		"KUBELET_CLIENT_CERT_CONTENT":            "",
		"KUBELET_CLIENT_CONTENT":                 "",
		"KUBELET_CONFIG_FILE_CONTENT":            "",
		"KUBELET_CONFIG_FILE_ENABLED":            "false",
		"LOAD_BALANCER_DISABLE_OUTBOUND_SNAT":    "false",
		"LOAD_BALANCER_SKU":                      "Standard",
		"MAXIMUM_LOADBALANCER_RULE_COUNT":        "250",
		"MESSAGE_OF_THE_DAY":                     "",
		"MIG_NODE":                               "false",
		"NEEDS_CGROUPV2":                         "true",
		"NEEDS_CONTAINERD":                       "true",
		"NEEDS_DOCKER_LOGIN":                     "false",
		"NO_PROXY_URLS":                          "",
		"PRIMARY_AVAILABILITY_SET":               "",
		"PRIMARY_SCALE_SET":                      "",
		"PROVISION_OUTPUT":                       "/var/log/azure/cluster-provision-cse-output.log",
		"PROXY_VARS":                             "",
		"SERVICE_PRINCIPAL_CLIENT_ID":            "msi",
		"SERVICE_PRINCIPAL_FILE_CONTENT":         "",
		"SGX_NODE":                               "false",
		"SHOULD_CONFIGURE_CUSTOM_CA_TRUST":       "false",
		"SHOULD_CONFIGURE_HTTP_PROXY":            "false",
		"SHOULD_CONFIGURE_HTTP_PROXY_CA":         "false",
		"SHOULD_CONFIGURE_SWAP_FILE":             "false",
		"SHOULD_CONFIGURE_TRANSPARENT_HUGE_PAGE": "false",
		"SHOULD_CONFIG_CONTAINERD_ULIMITS":       "false",
		"SWAP_FILE_SIZE_MB":                      "0",
		"SYSCTL_CONTENT":                         base64.StdEncoding.EncodeToString([]byte(sysctls)),
		"TARGET_CLOUD":                           "AzurePublicCloud",
		"TARGET_ENVIRONMENT":                     "AzurePublicCloud",
		"THP_DEFRAG":                             "",
		"THP_ENABLED":                            "",
		"USE_INSTANCE_METADATA":                  "true",
		"USE_MANAGED_IDENTITY_EXTENSION":         "true",
		"VM_TYPE":                                "vmss",
	}
}

// sysctls is the kernel baseline of AKS nodes.
const sysctls = `net.core.message_burst=80
net.core.message_cost=40
net.core.somaxconn=16384
net.ipv4.neigh.default.gc_thresh1=4096
net.ipv4.neigh.default.gc_thresh2=8192
net.ipv4.neigh.default.gc_thresh3=16384
net.ipv4.tcp_max_syn_backlog=16384
net.ipv4.tcp_retries2=8
`

// containerdConfig runs containers in runc or, on nodes whose GPU driver we
// install, in NVIDIA's wrapper of it.
func containerdConfig(gpu bool) string {
	runtime, binary := "runc", "/usr/bin/runc"
	if gpu {
		runtime, binary = "nvidia-container-runtime", "/usr/bin/nvidia-container-runtime"
	}
	return fmt.Sprintf(`version = 2
oom_score = -999
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "mcr.microsoft.com/oss/kubernetes/pause:3.6"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "%[1]s"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%[1]s]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%[1]s.options]
        BinaryName = "%[2]s"
        SystemdCgroup = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
[metrics]
  address = "0.0.0.0:10257"
`, runtime, binary)
}

// nodeLabels are the labels the kubelet may give itself, in order. A label that
// the kubelet would choke on is an error here, where somebody sees it.
func (n *bootNode) nodeLabels() (string, error) {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(n.labels)) {
		if !kubeletMaySet(key) {
			continue
		}
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			return "", fmt.Errorf("node label %q: %s", key, errs[0])
		}
		if errs := validation.IsValidLabelValue(n.labels[key]); len(errs) > 0 {
			return "", fmt.Errorf("node label %s=%q: %s", key, n.labels[key], errs[0])
		}
		pairs = append(pairs, key+"="+n.labels[key])
	}
	return strings.Join(pairs, ","), nil
}

// serverName is the API server as host[:port].
func serverName(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint // refused when the options were read
	}
	return u.Host
}
