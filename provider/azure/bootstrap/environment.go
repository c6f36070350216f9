// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	_ "embed"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// contractNames are the variables of the environment contract; see the head of the file.
//
//go:embed names.txt
var contractNames string

// contractVariables returns all variables of the contract.
var contractVariables = sync.OnceValue(func() []string {
	var all []string
	for line := range strings.Lines(contractNames) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
})

// environment returns the first script that the VM runs: it sets the variables that the
// provisioning scripts of AKS images read, and runs those scripts.
func (n *NodeConfig) environment() ([]byte, error) {
	given, err := n.variables()
	if err != nil {
		return nil, err
	}
	all := contractVariables()
	vars := make(map[string]string, len(all)+len(given))
	for _, name := range all {
		vars[name] = "" // scripts must not see values that the VM's environment happens to have
	}
	maps.Copy(vars, given)
	return []byte(script(vars)), nil
}

// script writes the variables as exported assignments sorted by name, then starts provisioning.
// Every value is one single-quoted shell word, which nothing in it can end.
func script(vars map[string]string) string {
	var b strings.Builder
	b.Grow(16 << 10) // most scripts are shorter
	b.WriteString("#!/bin/bash\nset -o allexport\n")
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		b.WriteString(name + "=" + shellQuote(vars[name]) + "\n")
	}
	b.WriteString(provision)
	return b.String()
}

// provision waits until the scripts of the image are complete, and runs them. Images of custom
// clouds have a script that must run first.
const provision = `
echo '#EOF' >> /opt/azure/manifest.json
mkdir -p /var/log/azure/Microsoft.Azure.Extensions.CustomScript/events
for _ in $(seq 1 1200); do
  [ -s /opt/azure/containers/provision_start.sh ] && break
  sleep 1
done
if [ -f "$INIT_AKS_CLOUD_FILEPATH" ]; then
  "$INIT_AKS_CLOUD_FILEPATH" >> /var/log/azure/cluster-provision.log 2>&1
fi
/usr/bin/nohup /bin/bash -c "/bin/bash /opt/azure/containers/provision_start.sh"
`

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// variables returns all variables that are not empty.
func (n *NodeConfig) variables() (map[string]string, error) {
	flags, err := n.kubeletFlags()
	if err != nil {
		return nil, err
	}
	if err := checkLabels(n.Labels); err != nil {
		return nil, err
	}
	driver, err := n.driver()
	if err != nil {
		return nil, err
	}
	vars := usualVariables()
	maps.Copy(vars, n.clusterVariables())
	maps.Copy(vars, n.systemVariables())
	if n.LocalDNS != nil {
		maps.Copy(vars, n.localDNSVariables())
	}
	if n.built() < legacyUntil {
		maps.Copy(vars, legacyVariables())
	}
	vars["KUBELET_FLAGS"] = pairs(flags, "--", " ")
	vars["KUBELET_NODE_LABELS"] = pairs(n.Labels, "", ",")
	vars["GPU_DRIVER_TYPE"], vars["GPU_DRIVER_VERSION"], vars["GPU_IMAGE_SHA"] = driver.kind, driver.version, driver.build
	return vars, nil
}

// clusterVariables describe the cluster, network and cloud of the node.
func (n *NodeConfig) clusterVariables() map[string]string {
	cloud := n.cloud()
	vars := map[string]string{
		"ADMINUSER":                        n.Admin,
		"API_SERVER_NAME":                  n.Server,
		"ARM_RESOURCE_ENDPOINT":            cloud.manager,
		"BLOCK_OUTBOUND_NETWORK":           "false",
		"CREDENTIAL_PROVIDER_DOWNLOAD_URL": n.credentialProvider(),
		"IPV6_DUAL_STACK_ENABLED":          strconv.FormatBool(n.Network.DualStack),
		"IS_CUSTOM_CLOUD":                  strconv.FormatBool(n.Cloud.Custom()),
		"KUBERNETES_VERSION":               n.Version,
		"KUBE_BINARY_URL":                  n.kubeBinaries(),
		"KUBE_CA_CRT":                      base64.StdEncoding.EncodeToString(n.CA),
		"LOCATION":                         n.Location,
		"MCR_REPOSITORY_BASE":              cloud.registry,
		"NETWORK_PLUGIN":                   n.Network.Plugin,
		"NETWORK_POLICY":                   n.policy(),
		"NETWORK_SECURITY_GROUP":           n.Network.SecurityGroup,
		"RESOURCE_GROUP":                   n.ResourceGroup,
		"ROUTE_TABLE":                      n.Network.RouteTable,
		"SUBNET":                           n.Network.Subnet,
		"SUBSCRIPTION_ID":                  n.Subscription,
		"TARGET_CLOUD":                     cloud.target,
		"TARGET_ENVIRONMENT":               cloud.environment,
		"TENANT_ID":                        n.Tenant,
		"TLS_BOOTSTRAP_TOKEN":              n.Token,
		"USER_ASSIGNED_IDENTITY_ID":        n.Identity,
		"VIRTUAL_NETWORK":                  n.Network.VNet,
		"VIRTUAL_NETWORK_RESOURCE_GROUP":   n.Network.VNetResourceGroup,
	}
	if n.Cloud.Custom() {
		vars["AKS_CUSTOM_CLOUD_CONTAINER_REGISTRY_DNS_SUFFIX"] = n.Cloud.RegistrySuffix
		vars["AZURE_ENVIRONMENT_FILEPATH"] = "/etc/kubernetes/" + customCloud + ".json"
		vars["CUSTOM_ENV_JSON"] = n.Cloud.encoded()
		vars["REPO_DEPOT_ENDPOINT"] = n.Cloud.RepoDepot
	}
	return vars
}

// systemVariables describe the VM and its operating system.
func (n *NodeConfig) systemVariables() map[string]string {
	enabled, defrag := n.hugePages()
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return map[string]string{
		"ARTIFACT_STREAMING_ENABLED":          strconv.FormatBool(n.StreamArtifacts),
		"CONFIG_GPU_DRIVER_IF_NEEDED":         strconv.FormatBool(n.GPU.Install),
		"CONTAINERD_CONFIG_CONTENT":           encode(n.containerd(n.GPU.Install)),
		"CONTAINERD_CONFIG_NO_GPU_CONTENT":    encode(n.containerd(false)),
		"GPU_NEEDS_FABRIC_MANAGER":            strconv.FormatBool(n.fabricManager()),
		"GPU_NODE":                            strconv.FormatBool(n.GPU.Install),
		"SHOULD_CONFIG_SWAP_FILE":             strconv.FormatBool(n.swapMB() > 0),
		"SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE": strconv.FormatBool(enabled != "" || defrag != ""),
		"SWAP_FILE_SIZE_MB":                   strconv.FormatInt(n.swapMB(), 10),
		"SYSCTL_CONTENT":                      encode(n.sysctlFile()),
		"THP_DEFRAG":                          defrag,
		"THP_ENABLED":                         enabled,
	}
}

func (n *NodeConfig) localDNSVariables() map[string]string {
	file := base64.StdEncoding.EncodeToString([]byte(n.corefile()))
	return map[string]string{
		"LOCALDNS_COREFILE_BASE":      file,
		"LOCALDNS_GENERATED_COREFILE": file, // images before May 2026 read this name
		"SHOULD_ENABLE_LOCALDNS":      "true",
	}
}

// usualVariables are the settings that all AKS nodes share, and the paths of the image's scripts.
func usualVariables() map[string]string {
	const scripts = "/opt/azure/containers/"
	vars := map[string]string{
		"CLI_TOOL":                             "ctr",
		"CLOUDPROVIDER_BACKOFF":                "true",
		"CLOUDPROVIDER_BACKOFF_DURATION":       "5",
		"CLOUDPROVIDER_BACKOFF_EXPONENT":       "0",
		"CLOUDPROVIDER_BACKOFF_JITTER":         "0",
		"CLOUDPROVIDER_BACKOFF_MODE":           "v2",
		"CLOUDPROVIDER_BACKOFF_RETRIES":        "6",
		"CLOUDPROVIDER_RATELIMIT":              "true",
		"CLOUDPROVIDER_RATELIMIT_BUCKET":       "100",
		"CLOUDPROVIDER_RATELIMIT_BUCKET_WRITE": "100",
		"CLOUDPROVIDER_RATELIMIT_QPS":          "10",
		"CLOUDPROVIDER_RATELIMIT_QPS_WRITE":    "10",
		"CSE_CONFIG_FILEPATH":                  scripts + "provision_configs.sh",
		"CSE_DISTRO_HELPERS_FILEPATH":          scripts + "provision_source_distro.sh",
		"CSE_DISTRO_INSTALL_FILEPATH":          scripts + "provision_installs_distro.sh",
		"CSE_HELPERS_FILEPATH":                 scripts + "provision_source.sh",
		"CSE_INSTALL_FILEPATH":                 scripts + "provision_installs.sh",
		"CSE_TIMEOUT":                          strconv.Itoa(provisionSeconds),
		"CUSTOM_CA_TRUST_COUNT":                "0",
		"CUSTOM_SEARCH_DOMAIN_FILEPATH":        scripts + "setup-custom-search-domains.sh",
		"DHCPV6_CONFIG_FILEPATH":               scripts + "enable-dhcpv6.sh",
		"DHCPV6_SERVICE_FILEPATH":              "/etc/systemd/system/dhcpv6.service",
		"INIT_AKS_CLOUD_FILEPATH":              scripts + "init-aks-cloud.sh",
		"LOAD_BALANCER_SKU":                    "Standard",
		"LOCALDNS_CPU_LIMIT":                   strconv.Itoa(localDNSCPUMilli/10) + ".0%",
		"LOCALDNS_MEMORY_LIMIT":                strconv.Itoa(localDNSMemoryMB) + "M",
		"MAXIMUM_LOADBALANCER_RULE_COUNT":      strconv.Itoa(balancerRules),
		"PROVISION_OUTPUT":                     "/var/log/azure/cluster-provision-cse-output.log",
		"SERVICE_PRINCIPAL_CLIENT_ID":          managedIdentity,
		"STANDARD_SECONDARY_NIC_COUNT":         "0",
		"VM_TYPE":                              "vmss",
	}
	for _, name := range []string{"EXCLUDE_MASTER_FROM_STANDARD_LB", "IS_VHD", "NEEDS_CGROUPV2", "SKIP_WAAGENT_HOLD", "USE_INSTANCE_METADATA", "USE_MANAGED_IDENTITY_EXTENSION"} {
		vars[name] = "true"
	}
	for _, name := range switchedOff() {
		vars[name] = "false"
	}
	return vars
}

// switchedOff lists the features of AKS that karve's nodes do not use.
func switchedOff() []string {
	return []string{
		"DISABLE_PUBKEY_AUTH", "DISABLE_SSH", "ENABLE_GPU_DEVICE_PLUGIN_IF_NEEDED", "ENABLE_HOSTS_CONFIG_AGENT", "ENABLE_IMDS_RESTRICTION",
		"ENABLE_KUBELET_SERVING_CERTIFICATE_ROTATION", "ENABLE_MANAGED_GPU", "ENABLE_MANAGED_GPU_DRA", "ENABLE_SECURE_TLS_BOOTSTRAPPING",
		"ENABLE_UNATTENDED_UPGRADES", "ENSURE_NO_DUPE_PROMISCUOUS_BRIDGE", "HAS_CUSTOM_SEARCH_DOMAIN", "HAS_KUBELET_DISK_TYPE",
		"INSERT_IMDS_RESTRICTION_RULE_TO_MANGLE_TABLE", "IS_KATA", "KUBELET_CONFIG_FILE_ENABLED",
		"LOAD_BALANCER_DISABLE_OUTBOUND_SNAT", "MANAGED_GPU_EXPERIENCE_AFEC_ENABLED", "MIG_NODE", "NETWORK_ISOLATED_CLUSTER_TEST_MODE",
		"PRE_PROVISION_ONLY", "SERVICE_ACCOUNT_IMAGE_PULL_ENABLED", "SGX_NODE", "SHOULD_CONFIGURE_CUSTOM_CA_TRUST", "SHOULD_CONFIGURE_HTTP_PROXY",
		"SHOULD_CONFIGURE_HTTP_PROXY_CA", "SHOULD_CONFIG_CONTAINERD_ULIMITS", "SHOULD_ENABLE_HOSTS_PLUGIN", "SHOULD_ENABLE_LOCALDNS",
	}
}

const (
	provisionSeconds = 900
	balancerRules    = 250
	managedIdentity  = "msi"
)

// legacyUntil is the build date of the first images in which no script reads legacyVariables any
// more (Azure/AgentBaker, pull requests 5886 and 7173).
const legacyUntil = 20251101

// legacyVariables are additional variables that older images read.
func legacyVariables() map[string]string {
	return map[string]string{
		"CONTAINER_RUNTIME": "containerd", "ENABLE_TLS_BOOTSTRAPPING": "true", "NEEDS_CONTAINERD": "true", "NEEDS_DOCKER_LOGIN": "false",
	}
}
