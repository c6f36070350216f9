// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local"
)

// A pod that nothing can host has an event that says which filter removed the last candidate,
// with counts.
func TestUnschedulablePodIsToldWhy(t *testing.T) {
	env := environment(t)
	settle(t, env)
	apply(t, env, pool("explain", "default", ""))
	apply(t, env, deployment("too-big", 1, `{cpu: "5000"}`, "nodeSelector: {pool: explain}"))
	apply(t, env, deployment("nowhere", 1, `{cpu: "1"}`, "nodeSelector: {pool: explain, topology.kubernetes.io/zone: mars-1}"))
	waitEvent(t, env, "too-big", `pool "explain"`, "offerings", "0 after Resources")
	waitEvent(t, env, "nowhere", `pool "explain"`, "offerings", "0 after Requirements")
}

// waitEvent waits for a FailedScheduling event of ours on a pod of the app that
// has all the words.
func waitEvent(t *testing.T, env *local.Environment, app string, words ...string) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, "pod "+app+" has an event that says why it waits", func(ctx context.Context) (bool, error) {
		all, err := pods(ctx, env, app)
		if err != nil || len(all) == 0 {
			return false, err
		}
		events, err := podEvents(ctx, env, all[0].Name)
		if err != nil {
			return false, err
		}
		var said []string
		for _, e := range events {
			if e.Reason == "FailedScheduling" && e.Source.Component == "karpenter" {
				said = append(said, e.Message)
				if containsAll(e.Message, words) {
					t.Logf("%s: %s", app, e.Message)
					return true, nil
				}
			}
		}
		return false, fmt.Errorf("want an event with %q, karve said %q", words, said)
	})
	if err != nil {
		t.Error(err)
	}
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// What the API server can know to be wrong it refuses, in words.
func TestMalformedObjectsAreRefused(t *testing.T) {
	env := environment(t)
	badClass := func(spec string) string { return string(class("bad", spec)) }
	requirement := func(text string) string {
		return string(pool("bad", "default", "- "+text))
	}
	for _, test := range []struct{ name, yaml, want string }{
		{"image family", badClass("{imageFamily: Windows}"), `Unsupported value: "Windows"`},
		{"disk too small", badClass("{osDiskSizeGB: 10}"), "should be greater than or equal to 30"},
		{"subnet", badClass("{vnetSubnetID: my-subnet}"), "spec.vnetSubnetID"},
		{"max pods", badClass("{maxPods: 5}"), "spec.maxPods"},
		{"tag", badClass(`{tags: {"a<b": c}}`), "spec.tags"},
		{"operator", requirement(`{key: kubernetes.io/arch, operator: Like, values: [amd64]}`), `Unsupported value: "Like"`},
		{"In without values", requirement(`{key: kubernetes.io/arch, operator: In}`), "must have a value defined"},
		{"Gt with two", requirement(`{key: karpenter.azure.com/sku-version, operator: Gt, values: ["3", "4"]}`), "must have a single positive integer value"},
		{"reserved label", requirement(`{key: kubernetes.io/hostname, operator: In, values: [a]}`), "kubernetes.io/hostname"},
		{"no class", strings.Replace(requirement("{key: kubernetes.io/os, operator: Exists}"),
			"nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}", "", 1), "nodeClassRef"},
		{"budget", strings.Replace(requirement("{key: kubernetes.io/os, operator: Exists}"), "nodes: 100%", "nodes: many", 1), "budgets[0].nodes"},
		{"schedule without duration", strings.Replace(requirement("{key: kubernetes.io/os, operator: Exists}"),
			"nodes: 100%", `nodes: 10%, schedule: "@daily"`, 1), "'schedule' must be set with 'duration'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := env.Apply(t.Context(), []byte(test.yaml))
			if err == nil {
				remove(t, env, []byte(test.yaml))
				t.Fatal("the API server accepted it")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("refused without saying %q: %v", test.want, err)
			}
		})
	}
}

// What only Azure can know shows in conditions, and other pools go on working.
func TestBadClassesShowInConditionsAndHarmNobody(t *testing.T) {
	env := environment(t)
	settle(t, env)
	// The gallery of Ubuntu 22.04 images has gone.
	gone := azureemulator.Fault{Method: "GET", Path: "/images/2204", Times: -1, Status: 404, Code: "ResourceNotFound"}
	if err := env.Emulator().AddFault(gone); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.Emulator().ClearFaults)
	missing := strings.Replace(env.Emulator().SubnetID(), "aks-subnet", "no-such-subnet", 1)
	apply(t, env, class("lost", fmt.Sprintf("{vnetSubnetID: %q}", missing)))
	apply(t, env, class("imageless", "{imageFamily: Ubuntu2204}"))
	apply(t, env, pool("lost", "lost", ""))
	apply(t, env, pool("imageless", "imageless", ""))
	apply(t, env, pool("fine", "default", ""))
	for _, name := range []string{"lost", "imageless", "fine"} {
		apply(t, env, deployment(name, 1, `{cpu: "1"}`, "nodeSelector: {pool: "+name+"}"))
	}
	// Nodes in a network that AKS manages may use its own subnet only.
	waitReason(t, env, "AKSNodeClass", "lost", "SubnetsReady", "SubnetIDInvalid")
	waitReason(t, env, "AKSNodeClass", "imageless", "ImagesReady", "ImagesNotFound")
	for _, name := range []string{"lost", "imageless"} {
		for kind, condition := range map[string]string{"AKSNodeClass": "Ready", "NodePool": "NodeClassReady"} {
			if err := env.WaitCondition(t.Context(), apiVersion(kind), kind, name, condition, "False", waitLimit); err != nil {
				t.Error(err)
			}
		}
		waitEvent(t, env, name, fmt.Sprintf("pool %q", name), "NodePoolNotReady")
	}
	waitRunning(t, env, "fine", 1)
}

// class is an AKSNodeClass for one test.
func class(name, spec string) []byte {
	return fmt.Appendf(nil, "apiVersion: karpenter.azure.com/v1beta1\nkind: AKSNodeClass\nmetadata: {name: %s}\nspec: %s\n", name, spec)
}

// Zero quota is told where people look, and pools of other families go on.
func TestZeroQuotaIsToldAndHarmsNobody(t *testing.T) {
	env := environment(t)
	settle(t, env)
	const family = "standardFXMDVSFamily"
	if err := env.Emulator().Capacity.SetQuota(family, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Emulator().Capacity.SetQuota(family, 3000); err != nil {
			t.Error(err)
		}
	})
	none := strings.Replace(string(pool("noquota", "default", "- {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}")),
		"{key: karpenter.azure.com/sku-family, operator: In, values: [D]}",
		"{key: node.kubernetes.io/instance-type, operator: In, values: [Standard_FX4mds]}", 1)
	apply(t, env, []byte(none))
	apply(t, env, pool("fine", "default", ""))
	apply(t, env, deployment("noquota", 1, `{cpu: "1"}`, "nodeSelector: {pool: noquota}"))
	apply(t, env, deployment("fine", 1, `{cpu: "1"}`, "nodeSelector: {pool: fine}"))
	waitRunning(t, env, "fine", 1)
	waitEvent(t, env, "noquota", `pool "noquota"`, "uota")
}

func apiVersion(kind string) string {
	if kind == "AKSNodeClass" {
		return "karpenter.azure.com/v1beta1"
	}
	return "karpenter.sh/v1"
}

func waitReason(t *testing.T, env *local.Environment, kind, name, condition, reason string) {
	t.Helper()
	what := fmt.Sprintf("%s %s says %s %s", kind, name, condition, reason)
	err := local.Until(t.Context(), waitLimit, what, func(ctx context.Context) (bool, error) {
		have, err := env.Condition(ctx, apiVersion(kind), kind, name, condition)
		if err == nil && have.Reason != reason {
			err = fmt.Errorf("it says %q: %s", have.Reason, have.Message)
		}
		return err == nil, err
	})
	if err != nil {
		t.Error(err)
	}
}
