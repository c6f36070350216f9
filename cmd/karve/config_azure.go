// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/provider/azure/bootstrap"
)

// AzureConfig are the settings of Karpenter's Azure provider, grouped by subject, and where
// Azure is.
type AzureConfig struct {
	CloudConfig
	ClusterConfig
	NetworkConfig
	NodeConfig
	Images      ImagesConfig
	Machines    AKSMachinesConfig
	Unsupported UnsupportedAzure
}

func (c *AzureConfig) bind(flags *pflag.FlagSet) {
	c.CloudConfig.bind(flags)
	c.ClusterConfig.bind(flags)
	c.NetworkConfig.bind(flags)
	c.NodeConfig.bind(flags)
	c.Images.bind(flags)
	c.Machines.bind(flags)
	c.Unsupported.bind(flags)
}

func (c AzureConfig) validate() error {
	var f faults
	c.CloudConfig.check(&f)
	c.ClusterConfig.check(&f)
	c.NetworkConfig.check(&f)
	c.NodeConfig.check(&f)
	return errors.Join(f.joined(), c.Images.validate(!c.Machines.createsVMs()), c.Machines.validate(), c.Unsupported.validate())
}

// CloudConfig is where Azure is, which subscription pays, and how often Azure may be asked.
type CloudConfig struct {
	// Location, SubscriptionID, TenantID, Cloud and EnvironmentFile come from the
	// environment only: LOCATION, ARM_SUBSCRIPTION_ID or AZURE_SUBSCRIPTION_ID,
	// ARM_TENANT_ID or AZURE_TENANT_ID, ARM_CLOUD, AZURE_ENVIRONMENT_FILEPATH.
	Location, SubscriptionID, TenantID string
	Cloud, EnvironmentFile             string
	// CAFile holds certificate authorities to trust for Azure besides the system's: those
	// of a private cloud, or of the emulator.
	CAFile string
	// PricesURL is the retail price list; empty means the public one.
	PricesURL string
	// ARMShare is the part of each burst of requests to Azure that karve may use, up to
	// 1. ARMPace is how many times faster than Azure's a simulated Azure's limits refill.
	ARMShare, ARMPace float64
}

func (c *CloudConfig) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.CAFile, "azure-ca-file", "", "PEM file of certificate authorities to trust for Azure, besides the system's")
	flags.StringVar(&c.PricesURL, "azure-prices-url", "", "retail price list (default: the public one)")
	flags.Float64Var(&c.ARMShare, "arm-share", 0.5, "share of each burst of requests Azure allows the subscription that karve may use; the rest is left to other clients")
	flags.Float64Var(&c.ARMPace, "arm-pace", 1, "for a simulated Azure: how many times faster than the real one its request limits refill; inf when it has none")
}

func (c CloudConfig) check(f *faults) {
	f.check(c.ARMShare > 0 && c.ARMShare <= 1, "arm-share", "is a fraction above 0 and up to 1, got %v", c.ARMShare)
	f.check(c.ARMPace > 0, "arm-pace", "must be positive, got %v", c.ARMPace)
	f.variable("LOCATION", c.Location, "the Azure region, for example eastus")
	f.variable("ARM_SUBSCRIPTION_ID (or AZURE_SUBSCRIPTION_ID)", c.SubscriptionID, "the subscription that pays for the nodes")
	if c.Cloud != "" && c.EnvironmentFile != "" {
		f.add(errors.New("ARM_CLOUD and AZURE_ENVIRONMENT_FILEPATH both say which cloud to use: set one of them"))
	}
}

// ClusterConfig is the cluster that nodes join.
type ClusterConfig struct {
	ClusterName, ClusterEndpoint string
	NodeResourceGroup            string
	KubeletBootstrapToken        string
	BootstrapTokenID             string
	// BootstrapContract is auto, structured or environment; see bootstrap.Contract.
	BootstrapContract string
}

func (c *ClusterConfig) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.ClusterName, "cluster-name", "", "name of the AKS cluster (required)")
	flags.StringVar(&c.ClusterEndpoint, "cluster-endpoint", "", "URL of the cluster's API server as nodes reach it, on port 443 (required)")
	flags.StringVar(&c.NodeResourceGroup, "node-resource-group", "", "resource group of the nodes (required)")
	flags.StringVar(&c.KubeletBootstrapToken, "kubelet-bootstrap-token", "", "bootstrap token for new nodes, for when those of the cluster (secrets in kube-system) cannot be read or have expired")
	flags.StringVar(&c.BootstrapTokenID, bootstrapTokenID, "", "id of the only bootstrap token to read, as of abcdef in the secret bootstrap-token-abcdef of kube-system; by default all are followed, and the one that lives longest is used")
	flags.StringVar(&c.BootstrapContract, "bootstrap-contract", string(bootstrap.Auto), "how VMs learn to become nodes: structured (a document for the image's node controller), environment (variables for its scripts), or auto, which goes by the image's version")
}

const bootstrapTokenID = "bootstrap-token-id"

func checkTokenID(id string) error {
	if id != "" && !tokenIDForm.MatchString(id) {
		return errors.New("must be six letters or digits, all lower case")
	}
	return nil
}

func (c ClusterConfig) check(f *faults) {
	f.given("cluster-name", c.ClusterName)
	f.given("node-resource-group", c.NodeResourceGroup)
	if f.given("cluster-endpoint", c.ClusterEndpoint) {
		_, err := bootstrap.ServerName(c.ClusterEndpoint)
		f.check(err == nil, "cluster-endpoint", "%v", err)
	}
	f.check(c.KubeletBootstrapToken == "" || tokenForm.MatchString(c.KubeletBootstrapToken), "kubelet-bootstrap-token",
		"must be six letters or digits, a dot, and sixteen more, all lower case")
	err := checkTokenID(c.BootstrapTokenID)
	f.check(err == nil, bootstrapTokenID, "%v", err)
	_, err = bootstrap.ParseContract(c.BootstrapContract)
	f.check(err == nil, "bootstrap-contract", "%v", err)
}

// NetworkConfig is the network that nodes are in, and the cluster's network plugin.
type NetworkConfig struct {
	NetworkPlugin, NetworkPluginMode string
	NetworkPolicy, NetworkDataplane  string
	DNSServiceIP                     string
	VNetSubnetID, VNetGUID           string
	SecurityGroupID                  string
	LoadBalancers                    []string
}

func (c *NetworkConfig) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.NetworkPlugin, "network-plugin", "azure", "azure, or none (also when empty)")
	flags.StringVar(&c.NetworkPluginMode, "network-plugin-mode", "overlay", "overlay or empty")
	flags.StringVar(&c.NetworkPolicy, "network-policy", "", "network policy engine")
	flags.StringVar(&c.NetworkDataplane, "network-dataplane", "cilium", "azure, cilium or empty")
	flags.StringVar(&c.DNSServiceIP, "dns-service-ip", "", "cluster DNS address (default: that of kube-system/kube-dns, else 10.0.0.10)")
	flags.StringVar(&c.VNetSubnetID, "vnet-subnet-id", "", "default subnet of nodes (required)")
	flags.StringVar(&c.VNetGUID, "vnet-guid", "", "GUID of the virtual network of --vnet-subnet-id (default: read from Azure)")
	flags.StringVar(&c.SecurityGroupID, "node-security-group-id", "", "network security group of nodes in networks of one's own (default: the one that AKS made in the node resource group)")
	flags.StringSliceVar(&c.LoadBalancers, "node-load-balancers", []string{"kubernetes", "kubernetes-internal"}, "load balancers in the node resource group whose pools nodes join, comma separated; empty for none")
}

// plugin is the network plugin. An empty one is none: the script that installs Karpenter's
// provider renders it so for a cluster without AKS's plugins.
func (c NetworkConfig) plugin() string { return cmp.Or(c.NetworkPlugin, "none") }

func (c NetworkConfig) check(f *faults) {
	f.given("vnet-subnet-id", c.VNetSubnetID)
	f.oneOf("network-plugin", c.NetworkPlugin, "azure", "none", "")
	f.oneOf("network-plugin-mode", c.NetworkPluginMode, "overlay", "")
	f.check(c.plugin() != "none" || c.NetworkPluginMode == "", "network-plugin-mode",
		"must be empty with --network-plugin none")
	f.oneOf("network-dataplane", c.NetworkDataplane, "azure", "cilium", "")
	f.check(c.DNSServiceIP == "" || net.ParseIP(c.DNSServiceIP) != nil, "dns-service-ip", "is not an IP address: %q", c.DNSServiceIP)
	f.check(c.VNetSubnetID == "" || subnetID.MatchString(c.VNetSubnetID), "vnet-subnet-id",
		"must look like /subscriptions/…/resourceGroups/…/providers/Microsoft.Network/virtualNetworks/…/subnets/…, got %q", c.VNetSubnetID)
	f.check(c.VNetGUID == "" || guid.MatchString(c.VNetGUID), "vnet-guid", "is no GUID: %q", c.VNetGUID)
	f.check(c.SecurityGroupID == "" || securityGroupID.MatchString(c.SecurityGroupID), "node-security-group-id",
		"must look like /subscriptions/…/resourceGroups/…/providers/Microsoft.Network/networkSecurityGroups/…, got %q", c.SecurityGroupID)
}

// NodeConfig is what all nodes have in common.
type NodeConfig struct {
	VMMemoryOverheadPercent float64
	LinuxAdminUsername      string
	SSHPublicKey            string
	NodeIdentities          []string
	KubeletIdentityClientID string
	AdditionalTags          map[string]string
	// FeePerMonth is what agents billed by the node cost, in dollars per node and month.
	FeePerMonth float64
	// ImageRefresh is how often new images are looked for.
	ImageRefresh time.Duration
}

func (c *NodeConfig) bind(flags *pflag.FlagSet) {
	flags.Float64Var(&c.VMMemoryOverheadPercent, "vm-memory-overhead-percent", 0.075, "share of an instance type's advertised memory that a node never sees, until a node of the type was seen")
	flags.StringVar(&c.LinuxAdminUsername, "linux-admin-username", "azureuser", "administrator of the nodes")
	flags.StringVar(&c.SSHPublicKey, "ssh-public-key", "", "the administrator's public key (required)")
	flags.StringSliceVar(&c.NodeIdentities, "node-identities", nil, "identities given to nodes, comma separated")
	flags.StringVar(&c.KubeletIdentityClientID, "kubelet-identity-client-id", "", "client id of the kubelet's identity")
	flags.StringToStringVar(&c.AdditionalTags, "additional-tags", nil, "tags for every Azure resource, key=value,…")
	flags.Float64Var(&c.FeePerMonth, "node-fee-usd-per-month", 0, "what agents that are billed by the node, such as monitoring or security, cost for each node, in US dollars a month of 730 hours; it counts in the price of every node")
	flags.DurationVar(&c.ImageRefresh, "image-refresh-interval", time.Hour, "how often new node images are looked for; nodes drift when there are some")
}

func (c NodeConfig) check(f *faults) {
	f.given("ssh-public-key", c.SSHPublicKey)
	f.check(c.VMMemoryOverheadPercent >= 0 && c.VMMemoryOverheadPercent < 1, "vm-memory-overhead-percent",
		"is a fraction from 0 up to 1, got %v", c.VMMemoryOverheadPercent)
	f.check(adminName.MatchString(c.LinuxAdminUsername), "linux-admin-username",
		"must start with a letter and have at most 32 characters, got %q", c.LinuxAdminUsername)
	f.tags(c.AdditionalTags)
	f.check(c.FeePerMonth >= 0 && c.FeePerMonth <= mostFee, "node-fee-usd-per-month", "must be from 0 to %d US dollars, got %v", int(mostFee), c.FeePerMonth)
	f.check(c.ImageRefresh >= time.Second, "image-refresh-interval", "must be at least 1s, got %s", c.ImageRefresh)
}

// mostFee is more than any agent costs by the node; a higher fee is a typing error.
const mostFee = 10_000

// readEnvironment fills what has no flag.
func (c *AzureConfig) readEnvironment(lookup func(string) (string, bool)) {
	first := func(names ...string) string {
		for _, name := range names {
			if value, ok := lookup(name); ok && value != "" {
				return value
			}
		}
		return ""
	}
	c.Location = first("LOCATION")
	c.SubscriptionID = first("ARM_SUBSCRIPTION_ID", "AZURE_SUBSCRIPTION_ID")
	c.TenantID = first("ARM_TENANT_ID", "AZURE_TENANT_ID")
	c.Cloud = first("ARM_CLOUD")
	c.EnvironmentFile = first("AZURE_ENVIRONMENT_FILEPATH")
	c.Images.SystemNamespace = first("SYSTEM_NAMESPACE")
	c.Machines.ClusterGroup = first("ARM_RESOURCE_GROUP", "AZURE_RESOURCE_GROUP")
}

// UnsupportedAzure are settings of Karpenter's provider for Azure that karve knows by name and
// does not honour yet. They are refused when they ask for something.
type UnsupportedAzure struct {
	BootstrapServerURL string
}

func (u *UnsupportedAzure) bind(flags *pflag.FlagSet) {
	flags.StringVar(&u.BootstrapServerURL, "nodebootstrapping-server-url", "", "not supported yet")
}

func (u UnsupportedAzure) validate() error {
	var f faults
	f.check(u.BootstrapServerURL == "", "nodebootstrapping-server-url", "is not supported by karve yet: remove it")
	return f.joined()
}

var (
	adminName       = regexp.MustCompile(`^[A-Za-z][^\s]{0,31}$`)
	subnetID        = regexp.MustCompile(`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+$`)
	guid            = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	securityGroupID = regexp.MustCompile(`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network/networkSecurityGroups/[^/]+$`)
)

// tags follow Azure's rules: keys are unique ignoring case and lack <>%&\?/.
func (f *faults) tags(tags map[string]string) {
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		lower := strings.ToLower(key)
		f.check(!seen[lower], "additional-tags", "names %q twice: Azure ignores case in tag names", key)
		f.check(!strings.ContainsAny(key, `<>%&\?/`), "additional-tags", `has the tag %q: Azure forbids < > %% & \ ? / in names`, key)
		seen[lower] = true
	}
}
