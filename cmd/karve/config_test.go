// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/provider/azure"
)

// complete is the least an operator must set.
func complete() map[string]string {
	return map[string]string{
		"CLUSTER_NAME":              "prod",
		"CLUSTER_ENDPOINT":          "https://prod.hcp.eastus.azmk8s.io:443",
		"KUBELET_BOOTSTRAP_TOKEN":   "abcdef.0123456789abcdef",
		"SSH_PUBLIC_KEY":            "ssh-ed25519 AAAA",
		"VNET_SUBNET_ID":            "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/v/subnets/n",
		"AZURE_NODE_RESOURCE_GROUP": "MC_rg_prod_eastus",
		"LOCATION":                  "eastus",
		"ARM_SUBSCRIPTION_ID":       "00000000-0000-0000-0000-000000000001",
	}
}

// load runs the path from flags and environment to a validated Config.
func load(args []string, env map[string]string) (Config, error) {
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	var c Config
	c.bind(flags)
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	return c, c.complete(flags, func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
}

func TestConfigComesFromFlagsThenEnvironment(t *testing.T) {
	env := complete()
	env["BATCH_IDLE_DURATION"] = "250ms"
	env["METRICS_PORT"] = "9090"
	env["NODE_IDENTITIES"] = "/a,/b"
	env["ADDITIONAL_TAGS"] = "team=core,cost=1"
	c, err := load([]string{"--metrics-port=9191"}, env)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.Core.BatchIdleDuration.String(), c.Core.MetricsPort, c.Azure.NodeIdentities, c.Azure.AdditionalTags, c.Azure.NodeResourceGroup}
	want := []any{"250ms", 9191, []string{"/a", "/b"}, map[string]string{"team": "core", "cost": "1"}, "MC_rg_prod_eastus"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestConfigNamesEveryMissingSetting(t *testing.T) {
	_, err := load(nil, nil)
	if err == nil {
		t.Fatal("an empty environment was accepted")
	}
	for _, name := range []string{
		"--cluster-name (or CLUSTER_NAME)", "--cluster-endpoint", "SSH_PUBLIC_KEY",
		"VNET_SUBNET_ID", "AZURE_NODE_RESOURCE_GROUP", "LOCATION", "ARM_SUBSCRIPTION_ID",
	} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s:\n%v", name, err)
		}
	}
}

func TestConfigRefusesNonsense(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"CLUSTER_ENDPOINT", "prod.example", "must be an absolute URL"},
		{"CLUSTER_ENDPOINT", "https://prod.example:6443", "--cluster-endpoint (or CLUSTER_ENDPOINT) must have port 443 or none"}, // Rule BOOTSTRAP-4
		{"CLUSTER_ENDPOINT", "https://[fd00::1]:443", "--cluster-endpoint (or CLUSTER_ENDPOINT) must name a host or an IPv4 address"},
		{"METRICS_PORT", "eighty", `METRICS_PORT="eighty"`},
		{"METRICS_PORT", "70000", "must be a port number"},
		{"ENABLE_PROFILING", "maybe", "ENABLE_PROFILING"},
		{"BATCH_IDLE_DURATION", "20s", "--batch-max-duration"},
		{"BATCH_IDLE_DURATION", "fast", "BATCH_IDLE_DURATION"},
		{"LOG_LEVEL", "loud", "must be one of debug, info, error, (empty)"},
		{"NETWORK_PLUGIN", "kubenet", "must be one of azure, none, (empty)"},
		{"NETWORK_PLUGIN", "none", "must be empty with --network-plugin none"},
		{"VNET_SUBNET_ID", "my-subnet", "must look like /subscriptions/"},
		{"VNET_GUID", "mine", "is no GUID"},
		{"DNS_SERVICE_IP", "ten", "is not an IP address"},
		{"VM_MEMORY_OVERHEAD_PERCENT", "7.5", "is a fraction"},
		{"LINUX_ADMIN_USERNAME", "9lives", "must start with a letter"},
		{"ADDITIONAL_TAGS", "a=1,A=2", "twice"},
		{"ADDITIONAL_TAGS", "a/b=1", "Azure forbids"},
		{"PROVISION_MODE", "bootstrappingclient", "must be one of aksscriptless, aksmachineapi, aksmachineapiheaderbatch"},
		{"PROVISION_MODE", "aksmachineapi", "--aks-machines-pool-name"},
		{"MANAGE_EXISTING_AKS_MACHINES", "true", "ARM_RESOURCE_GROUP"},
		{"PROVIDER_BATCH_MAX_SIZE", "51", "is between 1 and 50"},
		{"PROVIDER_BATCH_IDLE_DURATION", "6s", "--provider-batch-max-duration"},
		{"USE_SIG", "true", "--sig-subscription-id"},
		{"NODE_OSDISK_DISKENCRYPTIONSET_ID", "mine", "must look like /subscriptions/"},
		{"KUBELET_BOOTSTRAP_TOKEN", "ABC", "must be six letters or digits"},
		{"BOOTSTRAP_TOKEN_ID", "abcdef.0123456789abcdef", "must be six letters or digits, all lower case"},
		{"MEMORY_LIMIT", "1Gi", "MEMORY_LIMIT"},
		{"SURGE_NAMESPACES", "web,*", "--surge-namespaces (or SURGE_NAMESPACES) must be names of namespaces, or * alone"},
		{"SURGE_NAMESPACES", "We b", "must be names of namespaces"},
		{"METRICS_CERT_PATH", "/nowhere", "has no effect without --metrics-secure"},
		{"METRICS_CERT_PATH", "/nowhere", "--metrics-cert-key (or METRICS_CERT_KEY) names no file that can be read"},
	} {
		env := complete()
		env[test.name] = test.value
		_, err := load(nil, env)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: got error %v, want one that says %q", test.name, test.value, err, test.want)
		}
	}
}

// Karpenter's modes mean what they mean there; a pool that no mode uses is none.
//
// Rule AKS-1.
func TestProvisionModes(t *testing.T) {
	for mode, want := range map[string]azure.AKSMachines{
		"aksscriptless": {},
		"aksmachineapi": {Pool: "machines", ResourceGroup: "clusters", CreateNodes: true},
		"aksmachineapiheaderbatch": {Pool: "machines", ResourceGroup: "clusters", CreateNodes: true,
			Batching: azure.Batching{Idle: time.Second, MaxWait: 5 * time.Second, Size: 50}},
	} {
		env := complete()
		env["PROVISION_MODE"], env["AKS_MACHINES_POOL_NAME"], env["ARM_RESOURCE_GROUP"] = mode, "machines", "clusters"
		c, err := load(nil, env)
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		env["USE_SIG"], env["SIG_SUBSCRIPTION_ID"] = "true", "00000000-0000-0000-0000-000000000002"
		if _, err := load(nil, env); (err == nil) != want.CreateNodes {
			t.Errorf("%s: shared galleries without a server of tokens, which AKS does not need and Compute does: %v", mode, err)
		}
		if got := c.Azure.Machines.options(); got != want {
			t.Errorf("%s: %+v, want %+v", mode, got, want)
		}
	}
}

func TestConfigNeverShowsTheToken(t *testing.T) {
	env := complete()
	env["CLUSTER_ENDPOINT"] = "nonsense"
	_, err := load(nil, env)
	if err == nil || strings.Contains(err.Error(), env["KUBELET_BOOTSTRAP_TOKEN"]) {
		t.Errorf("got %v: want an error without the bootstrap token", err)
	}
}

// A bootstrap token on the command line is refused, without being repeated: process lists and the specs
// of pods show it.
//
// Rule PERMISSION-3.
func TestTokenIsNoFlag(t *testing.T) {
	const canary = "canary.0123456789abcdef"
	env := complete()
	delete(env, "KUBELET_BOOTSTRAP_TOKEN")
	_, err := load([]string{"--kubelet-bootstrap-token=" + canary}, env)
	if err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "KUBELET_BOOTSTRAP_TOKEN") {
		t.Errorf("got %v: want a refusal that names the variable and not the token", err)
	}
}

func TestOneCloudOnly(t *testing.T) {
	env := complete()
	env["ARM_CLOUD"], env["AZURE_ENVIRONMENT_FILEPATH"] = "AzurePublicCloud", "/cloud.json"
	if _, err := load(nil, env); err == nil || !strings.Contains(err.Error(), "set one of them") {
		t.Errorf("got %v: want a refusal of two clouds", err)
	}
}

func TestCloudByName(t *testing.T) {
	for name, ok := range map[string]bool{"": true, "azurepubliccloud": true, "AzureChinaCloud": true, "AzureUSGovernmentCloud": true, "AzureMars": false} {
		_, err := CloudConfig{Cloud: name}.cloud()
		if (err == nil) != ok {
			t.Errorf("ARM_CLOUD=%q: error %v, want accepted=%v", name, err, ok)
		}
	}
}

// Rule REQUEST-2: the share of Azure's limits is a setting, and a senseless one is refused by name.
func TestARMShare(t *testing.T) {
	c, err := load(nil, complete())
	if err != nil || c.Azure.ARMShare != 0.5 || c.Azure.ARMPace != 1 {
		t.Errorf("by default share %v, pace %v, %v; want half at Azure's pace", c.Azure.ARMShare, c.Azure.ARMPace, err)
	}
	env := complete()
	env["ARM_SHARE"], env["ARM_PACE"] = "1", "+Inf" // as local mode sets it without delays
	if _, err := load(nil, env); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"--arm-share=0", "--arm-share=1.5", "--arm-share=NaN", "--arm-pace=0", "--arm-pace=-1"} {
		name, _, _ := strings.Cut(bad, "=")
		if _, err := load([]string{bad}, complete()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Rule PRICE-8.
func TestNodeFee(t *testing.T) {
	env := complete()
	env["NODE_FEE_USD_PER_MONTH"] = "14.60"
	if c, err := load(nil, env); err != nil || c.Azure.FeePerMonth != 14.6 {
		t.Errorf("the fee is %v, %v", c.Azure.FeePerMonth, err)
	}
	if c, err := load(nil, complete()); err != nil || c.Azure.FeePerMonth != 0 {
		t.Errorf("by default the fee is %v, %v", c.Azure.FeePerMonth, err)
	}
	for _, bad := range []string{"-1", "NaN", "20000", "+Inf"} {
		if _, err := load([]string{"--node-fee-usd-per-month=" + bad}, complete()); err == nil || !strings.Contains(err.Error(), "node-fee-usd-per-month") {
			t.Errorf("a fee of %s: %v", bad, err)
		}
	}
}
