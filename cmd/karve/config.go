package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/kube"
)

// Config is everything "karve controller" can be told. It is filled from flags
// and environment, validated once, and handed on in slices: no other package
// reads the environment (the Azure SDK's own credential variables excepted).
//
// Flags and variables are spelled as Karpenter and its Azure provider spell
// them, so that an existing Deployment works with another image.
type Config struct {
	Core  CoreConfig
	Azure AzureConfig
}

// CoreConfig are Karpenter's own settings, as far as karve heeds them; see
// acceptIgnored for the others.
type CoreConfig struct {
	MetricsPort, HealthProbePort int
	KubeClientQPS                int
	KubeClientBurst              int
	EnableProfiling              bool
	DisableLeaderElection        bool
	LeaderElectionName           string
	LeaderElectionNamespace      string
	// MemoryLimit is in bytes; Go's soft limit becomes 90 % of it. Negative: none.
	MemoryLimit                         int64
	LogLevel                            string
	LogOutputPaths                      []string
	BatchMaxDuration, BatchIdleDuration time.Duration
	// PreferencePolicy is Respect or Ignore, MinValuesPolicy Strict or BestEffort.
	PreferencePolicy, MinValuesPolicy string
	// PreferenceSurplus is in percent of the price, or "unlimited"; see surplus.
	PreferenceSurplus string
	// FeatureGates is a list of Name=bool; see gates.go.
	FeatureGates string
	// LeaseDuration is how long a leader that died is waited for.
	LeaseDuration time.Duration
	// ConsolidationValidation is how long consolidation must stay right before it begins;
	// ConsolidationMinSavings is what a replacement must save, see kube.MinSavings;
	// ConsolidationRules is Karve or Karpenter; ConsolidationSteps bounds one look.
	ConsolidationValidation, ConsolidationMinAge time.Duration
	ConsolidationMinSavings, ConsolidationRules  string
	ConsolidationSteps                           int
	// MachineGrace is how old a machine without a NodeClaim must be before it is given back.
	MachineGrace time.Duration
}

// AzureConfig are the settings of Karpenter's Azure provider, and where Azure is.
type AzureConfig struct {
	ClusterName, ClusterEndpoint string
	VMMemoryOverheadPercent      float64
	KubeletBootstrapToken        string
	LinuxAdminUsername           string
	SSHPublicKey                 string
	NetworkPlugin                string
	NetworkPluginMode            string
	NetworkPolicy                string
	NetworkDataplane             string
	DNSServiceIP                 string
	VNetSubnetID                 string
	NodeIdentities               []string
	KubeletIdentityClientID      string
	NodeResourceGroup            string
	AdditionalTags               map[string]string
	Unsupported                  UnsupportedAzure

	// Location, SubscriptionID, TenantID, Cloud and EnvironmentFile come from the
	// environment only: LOCATION, ARM_SUBSCRIPTION_ID or AZURE_SUBSCRIPTION_ID,
	// ARM_TENANT_ID or AZURE_TENANT_ID, ARM_CLOUD, AZURE_ENVIRONMENT_FILEPATH.
	Location, SubscriptionID, TenantID string
	Cloud, EnvironmentFile             string
	// CAFile holds certificate authorities to trust besides the system's when
	// talking to Azure: a private cloud's, or the emulator's.
	CAFile string
	// PricesURL is the retail price list; empty means the public one.
	PricesURL string
	// ImageRefresh is how often new images are looked for.
	ImageRefresh time.Duration
}

// UnsupportedAzure are settings of the incumbent that karve knows by name and
// does not honour yet. They are refused when they ask for something.
type UnsupportedAzure struct {
	ProvisionMode                          string
	BootstrapServerURL, SIGTokenServerURL  string
	UseSIG, ManageExistingMachines         bool
	SIGSubscriptionID, DiskEncryptionSetID string
	MachinesPoolName                       string
}

// bind declares every flag with its default.
func (c *Config) bind(flags *pflag.FlagSet) {
	c.Core.bind(flags)
	c.Azure.bind(flags)
	c.Azure.Unsupported.bind(flags)
	acceptIgnored(flags)
}

func (c *CoreConfig) bind(flags *pflag.FlagSet) {
	flags.IntVar(&c.MetricsPort, "metrics-port", 8080, "port of /metrics")
	flags.IntVar(&c.HealthProbePort, "health-probe-port", 8081, "port of /healthz and /readyz")
	flags.IntVar(&c.KubeClientQPS, "kube-client-qps", 200, "requests a second to the Kubernetes API")
	flags.IntVar(&c.KubeClientBurst, "kube-client-burst", 300, "burst of requests to the Kubernetes API")
	flags.BoolVar(&c.EnableProfiling, "enable-profiling", false, "serve /debug/pprof on the metrics port")
	flags.BoolVar(&c.DisableLeaderElection, "disable-leader-election", false, "run without a lease: safe only with one replica")
	flags.StringVar(&c.LeaderElectionName, "leader-election-name", "karpenter-leader-election", "name of the lease")
	flags.StringVar(&c.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease (default: the pod's own)")
	flags.Int64Var(&c.MemoryLimit, "memory-limit", -1, "container memory limit in bytes; Go keeps to 90 % of it")
	flags.StringVar(&c.LogLevel, "log-level", "info", "debug, info or error")
	flags.StringSliceVar(&c.LogOutputPaths, "log-output-paths", []string{"stdout"}, "where logs go: stdout, stderr or files")
	flags.DurationVar(&c.BatchMaxDuration, "batch-max-duration", 10*time.Second, "longest time pods are gathered before a decision")
	flags.DurationVar(&c.BatchIdleDuration, "batch-idle-duration", time.Second, "a batch ends when no pod came for so long")
	flags.StringVar(&c.PreferencePolicy, "preference-policy", "Respect", "Respect honours what pods prefer, the heaviest first, while it costs little (see --preference-surplus); Ignore leaves it to the scheduler")
	flags.StringVar(&c.PreferenceSurplus, "preference-surplus", "10", "how many percent more a plan may cost because it honours preferences, or unlimited")
	flags.StringVar(&c.MinValuesPolicy, "min-values-policy", "Strict", "Strict or BestEffort: whether a NodePool buys with less variety than its minValues ask for when nothing else would do")
	flags.StringVar(&c.FeatureGates, "feature-gates", "", "Name=true or Name=false, comma separated: NodeOverlay, CapacityBuffer, StaticCapacity, NodeRepair, SpotToSpotConsolidation; others change nothing")
	flags.DurationVar(&c.ConsolidationValidation, "consolidation-validation-delay", 15*time.Second, "how long a consolidation, or the removal of an empty node, must stay right before it begins")
	flags.StringVar(&c.ConsolidationMinSavings, "consolidation-min-savings", "5%", "the least that replacing nodes must save: a share of what they cost, or dollars an hour such as $0.02/h; NodePools may say otherwise in the annotation karve.dev/min-savings")
	flags.DurationVar(&c.ConsolidationMinAge, "consolidation-min-node-age", 5*time.Minute, "how old a node with pods must be before it is consolidated; NodePools may say otherwise in the annotation karve.dev/min-node-age")
	flags.StringVar(&c.ConsolidationRules, "consolidation-rules", "Karve", "Karve, or Karpenter: any saving pays, new nodes count like old ones, several nodes are replaced by one at most, and spot by spot only with 15 cheaper types")
	flags.IntVar(&c.ConsolidationSteps, "consolidation-steps", 200, "how many sets of nodes consolidation looks into before pending pods get a turn; 0 for no bound")
	flags.DurationVar(&c.LeaseDuration, "leader-election-lease-duration", 15*time.Second, "how long a leader that died is waited for")
	flags.DurationVar(&c.MachineGrace, "machine-grace", 30*time.Second, "age from which a machine without a NodeClaim is given back")
}

func (c *AzureConfig) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.ClusterName, "cluster-name", "", "name of the AKS cluster (required)")
	flags.StringVar(&c.ClusterEndpoint, "cluster-endpoint", "", "URL of the cluster's API server as nodes reach it (required)")
	flags.Float64Var(&c.VMMemoryOverheadPercent, "vm-memory-overhead-percent", 0.075, "share of a size's advertised memory that a node never sees")
	flags.StringVar(&c.KubeletBootstrapToken, "kubelet-bootstrap-token", "", "bootstrap token for new nodes (required)")
	flags.StringVar(&c.LinuxAdminUsername, "linux-admin-username", "azureuser", "administrator of the nodes")
	flags.StringVar(&c.SSHPublicKey, "ssh-public-key", "", "the administrator's public key (required)")
	flags.StringVar(&c.NetworkPlugin, "network-plugin", "azure", "azure or none")
	flags.StringVar(&c.NetworkPluginMode, "network-plugin-mode", "overlay", "overlay or empty")
	flags.StringVar(&c.NetworkPolicy, "network-policy", "", "network policy engine")
	flags.StringVar(&c.NetworkDataplane, "network-dataplane", "cilium", "azure, cilium or empty")
	flags.StringVar(&c.DNSServiceIP, "dns-service-ip", "", "cluster DNS address (default: that of kube-system/kube-dns, else 10.0.0.10)")
	flags.StringVar(&c.VNetSubnetID, "vnet-subnet-id", "", "default subnet of nodes (required)")
	flags.StringSliceVar(&c.NodeIdentities, "node-identities", nil, "identities given to nodes, comma separated")
	flags.StringVar(&c.KubeletIdentityClientID, "kubelet-identity-client-id", "", "client id of the kubelet's identity")
	flags.StringVar(&c.NodeResourceGroup, "node-resource-group", "", "resource group of the nodes (required)")
	flags.StringToStringVar(&c.AdditionalTags, "additional-tags", nil, "tags for every Azure resource, key=value,…")
	flags.StringVar(&c.CAFile, "azure-ca-file", "", "PEM file of certificate authorities to trust for Azure, besides the system's")
	flags.StringVar(&c.PricesURL, "azure-prices-url", "", "retail price list (default: the public one)")
	flags.DurationVar(&c.ImageRefresh, "image-refresh-interval", time.Hour, "how often new node images are looked for; the nodes drift when there are some")
}

func (u *UnsupportedAzure) bind(flags *pflag.FlagSet) {
	flags.StringVar(&u.ProvisionMode, "provision-mode", "aksscriptless", "only aksscriptless is supported")
	flags.StringVar(&u.BootstrapServerURL, "nodebootstrapping-server-url", "", "not supported yet")
	flags.BoolVar(&u.UseSIG, "use-sig", false, "not supported yet")
	flags.StringVar(&u.SIGTokenServerURL, "sig-access-token-server-url", "", "not supported yet")
	flags.StringVar(&u.SIGSubscriptionID, "sig-subscription-id", "", "not supported yet")
	flags.StringVar(&u.DiskEncryptionSetID, "node-osdisk-diskencryptionset-id", "", "not supported yet")
	flags.BoolVar(&u.ManageExistingMachines, "manage-existing-aks-machines", false, "not supported yet")
	flags.StringVar(&u.MachinesPoolName, "aks-machines-pool-name", "", "not supported yet")
}

// acceptIgnored declares the settings of the incumbent that change nothing here,
// so that a Deployment which has them starts. Only their form is checked.
func acceptIgnored(flags *pflag.FlagSet) {
	flags.Int("cpu-requests", 1000, "accepted, unused: worker counts are fixed")
	flags.StringSlice("log-error-output-paths", []string{"stderr"}, "accepted, unused: the logger's own faults go to stderr")
	flags.Bool("ignore-dra-requests", true, "accepted, unused: nothing is bought for pods with resource claims, and they are told so")
	flags.String("karpenter-service", "", "accepted, unused")
	flags.String("scheduler-config", "", "accepted, unused")
	flags.Bool("disable-controller-warmup", true, "accepted, unused: informers start with the process")
	flags.Bool("disable-cluster-state-observability", false, "accepted, unused")
	flags.String("vnet-guid", "", "accepted, unused: the network itself is asked")
	flags.Bool("enable-azure-sdk-logging", true, "accepted, unused: Azure requests are not logged")
	flags.Duration("provider-batch-idle-duration", time.Second, "accepted, unused: karve does not batch machines")
	flags.Duration("provider-batch-max-duration", 5*time.Second, "accepted, unused: karve does not batch machines")
	flags.Int("provider-batch-max-size", 50, "accepted, unused: karve does not batch machines")
}

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
}

// Validate reports every fault at once, each naming the flag and the variable.
func (c Config) Validate() error {
	return errors.Join(c.Core.validate(), c.Azure.validate(), c.Azure.Unsupported.validate())
}

func (c CoreConfig) validate() error {
	var f faults
	f.port("metrics-port", c.MetricsPort)
	f.port("health-probe-port", c.HealthProbePort)
	f.check(c.KubeClientQPS > 0, "kube-client-qps", "must be positive, got %d", c.KubeClientQPS)
	f.check(c.KubeClientBurst > 0, "kube-client-burst", "must be positive, got %d", c.KubeClientBurst)
	f.oneOf("log-level", c.LogLevel, "debug", "info", "error")
	f.check(c.BatchIdleDuration > 0, "batch-idle-duration", "must be positive, got %s", c.BatchIdleDuration)
	f.check(c.BatchMaxDuration >= c.BatchIdleDuration, "batch-max-duration",
		"must be at least --batch-idle-duration (%s), got %s", c.BatchIdleDuration, c.BatchMaxDuration)
	f.oneOf("preference-policy", c.PreferencePolicy, "Respect", "Ignore")
	f.oneOf("min-values-policy", c.MinValuesPolicy, "Strict", "BestEffort")
	_, err := surplus(c.PreferenceSurplus)
	f.check(err == nil, "preference-surplus", "%v", err)
	_, err = features(c.FeatureGates)
	f.check(err == nil, "feature-gates", "%v", err)
	f.check(c.ConsolidationValidation >= 0, "consolidation-validation-delay", "must not be negative, got %s", c.ConsolidationValidation)
	_, err = kube.MinSavings(c.ConsolidationMinSavings)
	f.check(err == nil, "consolidation-min-savings", "%v", err)
	f.check(c.ConsolidationMinAge >= 0, "consolidation-min-node-age", "must not be negative, got %s", c.ConsolidationMinAge)
	f.oneOf("consolidation-rules", c.ConsolidationRules, "Karve", "Karpenter")
	f.check(c.ConsolidationSteps >= 0, "consolidation-steps", "must not be negative, got %d", c.ConsolidationSteps)
	f.check(c.LeaseDuration >= time.Second, "leader-election-lease-duration", "must be at least 1s, got %s", c.LeaseDuration)
	f.check(c.MachineGrace > 0, "machine-grace", "must be positive, got %s", c.MachineGrace)
	return f.joined()
}

func (c AzureConfig) validate() error {
	var f faults
	f.given("cluster-name", c.ClusterName)
	f.given("kubelet-bootstrap-token", c.KubeletBootstrapToken)
	f.given("ssh-public-key", c.SSHPublicKey)
	f.given("vnet-subnet-id", c.VNetSubnetID)
	f.given("node-resource-group", c.NodeResourceGroup)
	if f.given("cluster-endpoint", c.ClusterEndpoint) {
		endpoint, err := url.Parse(c.ClusterEndpoint)
		f.check(err == nil && endpoint.Scheme != "" && endpoint.Host != "", "cluster-endpoint",
			"must be an absolute URL such as https://name.hcp.eastus.azmk8s.io:443, got %q", c.ClusterEndpoint)
	}
	f.check(c.VMMemoryOverheadPercent >= 0 && c.VMMemoryOverheadPercent < 1, "vm-memory-overhead-percent",
		"is a fraction from 0 up to 1, got %v", c.VMMemoryOverheadPercent)
	f.check(adminName.MatchString(c.LinuxAdminUsername), "linux-admin-username",
		"must start with a letter and have at most 32 characters, got %q", c.LinuxAdminUsername)
	f.oneOf("network-plugin", c.NetworkPlugin, "azure", "none")
	f.oneOf("network-plugin-mode", c.NetworkPluginMode, "overlay", "")
	f.check(c.NetworkPlugin != "none" || c.NetworkPluginMode == "", "network-plugin-mode",
		"must be empty with --network-plugin none")
	f.oneOf("network-dataplane", c.NetworkDataplane, "azure", "cilium", "")
	f.check(c.DNSServiceIP == "" || net.ParseIP(c.DNSServiceIP) != nil, "dns-service-ip", "is not an IP address: %q", c.DNSServiceIP)
	f.check(c.VNetSubnetID == "" || subnetID.MatchString(c.VNetSubnetID), "vnet-subnet-id",
		"must look like /subscriptions/…/resourceGroups/…/providers/Microsoft.Network/virtualNetworks/…/subnets/…, got %q", c.VNetSubnetID)
	f.tags(c.AdditionalTags)
	f.check(c.ImageRefresh >= time.Second, "image-refresh-interval", "must be at least 1s, got %s", c.ImageRefresh)
	f.variable("LOCATION", c.Location, "the Azure region, for example eastus")
	f.variable("ARM_SUBSCRIPTION_ID (or AZURE_SUBSCRIPTION_ID)", c.SubscriptionID, "the subscription that pays for the nodes")
	if c.Cloud != "" && c.EnvironmentFile != "" {
		f.add(errors.New("ARM_CLOUD and AZURE_ENVIRONMENT_FILEPATH both say which cloud to use: set one of them"))
	}
	return f.joined()
}

func (u UnsupportedAzure) validate() error {
	var f faults
	f.check(u.ProvisionMode == "aksscriptless", "provision-mode", "karve supports aksscriptless only, got %q", u.ProvisionMode)
	const unset = "is not supported by karve yet: remove it"
	f.check(!u.UseSIG, "use-sig", unset)
	f.check(u.BootstrapServerURL == "", "nodebootstrapping-server-url", unset)
	f.check(u.SIGTokenServerURL == "", "sig-access-token-server-url", unset)
	f.check(u.SIGSubscriptionID == "", "sig-subscription-id", unset)
	f.check(u.DiskEncryptionSetID == "", "node-osdisk-diskencryptionset-id", unset)
	f.check(!u.ManageExistingMachines, "manage-existing-aks-machines", unset)
	f.check(u.MachinesPoolName == "", "aks-machines-pool-name", unset)
	return f.joined()
}

var (
	adminName = regexp.MustCompile(`^[A-Za-z][^\s]{0,31}$`)
	subnetID  = regexp.MustCompile(`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+$`)
)

// faults gathers what is wrong with a Config.
type faults []error

func (f *faults) add(err error) { *f = append(*f, err) }
func (f faults) joined() error  { return errors.Join(f...) }

func (f *faults) check(ok bool, flag, format string, args ...any) {
	if !ok {
		f.add(fmt.Errorf("%s %s", spelled(flag), fmt.Sprintf(format, args...)))
	}
}

// given reports whether a required setting has a value.
func (f *faults) given(flag, value string) bool {
	f.check(value != "", flag, "is required")
	return value != ""
}

func (f *faults) variable(name, value, meaning string) {
	if value == "" {
		f.add(fmt.Errorf("the environment variable %s is required: %s", name, meaning))
	}
}

// port allows zero, which disables the listener, as controller-runtime's "0" does.
func (f *faults) port(flag string, port int) {
	f.check(port >= 0 && port <= 65535, flag, "must be a port number, or 0 for none, got %d", port)
}

func (f *faults) oneOf(flag, value string, allowed ...string) {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		if names[i] = a; a == "" {
			names[i] = "(empty)"
		}
	}
	f.check(slices.Contains(allowed, value), flag, "must be one of %s, got %q", strings.Join(names, ", "), value)
}

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
