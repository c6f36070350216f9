// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// nodeSubnet is what Karpenter's provider for Azure is given on a cluster whose pods have
// addresses of the node's subnet: its script renders what the cluster does not have as empty.
func nodeSubnet() map[string]string {
	return map[string]string{
		"DISABLE_LEADER_ELECTION": "true",
		"CLUSTER_NAME":            "prod", "CLUSTER_ENDPOINT": "https://prod-1b2c3d4e.hcp.eastus.azmk8s.io:443",
		"KUBELET_BOOTSTRAP_TOKEN": "abcdef.0123456789abcdef", "SSH_PUBLIC_KEY": "ssh-ed25519 AAAA azureuser",
		"NETWORK_PLUGIN": "azure", "NETWORK_PLUGIN_MODE": "", "NETWORK_POLICY": "", "NETWORK_DATAPLANE": "",
		"VNET_SUBNET_ID":  "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/v/subnets/n",
		"VNET_GUID":       "",
		"NODE_IDENTITIES": "", "KUBELET_IDENTITY_CLIENT_ID": "",
		"AZURE_SUBSCRIPTION_ID": "00000000-0000-0000-0000-000000000001", "LOCATION": "eastus", "AZURE_NODE_RESOURCE_GROUP": "MC_rg_prod_eastus",
		"ENABLE_AZURE_SDK_LOGGING": "false", "USE_SIG": "false",
		"SIG_ACCESS_TOKEN_SERVER_URL": "", "SIG_ACCESS_TOKEN_SCOPE": "", "SIG_SUBSCRIPTION_ID": "",
		"PROVISION_MODE": "aksscriptless", "AKS_MACHINES_POOL_NAME": "", "ARM_RESOURCE_GROUP": "rg",
	}
}

// A cluster without overlay keeps its pods in the node's subnet: the empty variable of Karpenter's
// provider for Azure is not taken for one that is missing, whose default is overlay.
//
// Rule SETTING-4.
func TestNodeSubnetIsNoOverlay(t *testing.T) {
	for plugin, want := range map[string][]string{
		"azure": {"azure", "", "", ""},
		"none":  {"none", "", "", ""},
		"":      {"none", "", "", ""}, // so the script renders clusters that bring their own
	} {
		env := nodeSubnet()
		env["NETWORK_PLUGIN"] = plugin
		c, err := load(nil, env)
		if err != nil {
			t.Errorf("NETWORK_PLUGIN=%s: %v", plugin, err)
			continue
		}
		got := []string{c.Azure.plugin(), c.Azure.NetworkPluginMode, c.Azure.NetworkPolicy, c.Azure.NetworkDataplane}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("NETWORK_PLUGIN=%s: plugin, mode, policy and dataplane (-want +got):\n%s", plugin, diff)
		}
	}
}

// refusedEmpty are the settings that have no empty value; Karpenter's own do not start without
// them either.
var refusedEmpty = map[string]string{
	"cluster-name": "is required", "cluster-endpoint": "is required", "ssh-public-key": "is required",
	"vnet-subnet-id": "is required", "node-resource-group": "is required",
	"linux-admin-username": "must start with a letter", "provision-mode": "must be one of", "log-output-paths": "names no output",
	"preference-policy": "must be one of", "min-values-policy": "must be one of", "preference-surplus": "must be a percentage",
	"consolidation-min-savings": "CONSOLIDATION_MIN_SAVINGS", "consolidation-rules": "must be one of", "bootstrap-contract": "is none of",
	"network-plugin": "must be empty with --network-plugin none", // which an empty one is, where the mode stays overlay
}

// Empty means empty for texts and lists. Numbers, switches and durations cannot be empty: their
// defaults stay, as Karpenter has it.
//
// Rule SETTING-4.
func TestEveryVariableMayBeEmpty(t *testing.T) {
	defaults := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	new(Config).bind(defaults)
	defaults.VisitAll(func(f *pflag.Flag) {
		env := complete()
		env[envName(f.Name)] = ""
		flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
		var c Config
		c.bind(flags)
		err := c.complete(flags, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
		if says, refused := refusedEmpty[f.Name]; refused {
			if err == nil || !strings.Contains(err.Error(), "--"+f.Name) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s is empty: %v, want a refusal that says %q", envName(f.Name), err, says)
			}
			return
		}
		if err != nil {
			t.Errorf("%s is empty, and karve does not start: %v", envName(f.Name), err)
			return
		}
		want := map[string]string{"string": "", "stringSlice": "[]"}
		if _, text := want[f.Value.Type()]; !text {
			want[f.Value.Type()] = f.DefValue
		}
		if got := flags.Lookup(f.Name).Value.String(); got != want[f.Value.Type()] {
			t.Errorf("%s is empty: the %s is %q, want %q", envName(f.Name), f.Value.Type(), got, want[f.Value.Type()])
		}
	})
}

// karpenterAzureValues is where the values may lie that Karpenter's provider for Azure is installed
// with, before its script fills them in.
const karpenterAzureValues = "../../../shared/oracles/karpenter-provider-azure/karpenter-values-template.yaml"

// What these tests call an installation of Karpenter's provider is one: its own template has
// these variables.
//
// Rule SETTING-4.
func TestIncumbentsTemplateIsKnown(t *testing.T) {
	text, err := os.ReadFile(karpenterAzureValues)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: nothing is held against what installations have", karpenterAzureValues)
	}
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Controller struct {
			Env []struct{ Name, Value string }
		}
	}
	if err := yaml.Unmarshal(filledIn(text), &values); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range values.Controller.Env {
		got[v.Name] = v.Value
	}
	if diff := cmp.Diff(nodeSubnet(), got); diff != "" {
		t.Errorf("variables (-here +template):\n%s", diff)
	}
	if _, err := load(nil, got); err != nil {
		t.Error(err)
	}
}

// placeholder is ${NAME} or ${NAME:-default}.
var placeholder = regexp.MustCompile(`\$\{(\w+)(:-(\w*))?\}`)

// filledIn is the template with a cluster's values, quoted as the script's YAML writer does.
func filledIn(template []byte) []byte {
	cluster := nodeSubnet()
	maps.Copy(cluster, map[string]string{
		"BOOTSTRAP_TOKEN": cluster["KUBELET_BOOTSTRAP_TOKEN"], "AZURE_LOCATION": cluster["LOCATION"],
		"AZURE_RESOURCE_GROUP_MC": cluster["AZURE_NODE_RESOURCE_GROUP"], "AZURE_RESOURCE_GROUP": cluster["ARM_RESOURCE_GROUP"],
		"ENABLE_AZURE_SDK_LOGGING": "", "PROVISION_MODE": "",
	})
	return placeholder.ReplaceAllFunc(template, func(found []byte) []byte {
		parts := placeholder.FindSubmatch(found)
		value := cluster[string(parts[1])]
		if value == "" {
			value = string(parts[3])
		}
		return []byte(value)
	})
}
