// SPDX-License-Identifier: Apache-2.0

package e2e

import "testing"

// The manifests people already have must work as they are.
func TestPublishedManifestsWorkUnmodified(t *testing.T) {
	env := environment(t)
	settle(t, env)
	for _, name := range []string{"general.yaml", "gpu.yaml", "budgets.yaml"} {
		apply(t, env, manifest(t, name))
	}
	for _, class := range []string{"azurelinux", "default"} {
		if err := env.WaitCondition(t.Context(), "karpenter.azure.com/v1beta1", "AKSNodeClass", class, "Ready", "True", waitLimit); err != nil {
			t.Fatal(err)
		}
	}
	for _, pool := range []string{"general", "gpu", "budgets"} {
		if err := env.WaitCondition(t.Context(), "karpenter.sh/v1", "NodePool", pool, "Ready", "True", waitLimit); err != nil {
			t.Fatal(err)
		}
	}
	const toleration = "tolerations: [{key: nvidia.com/gpu, operator: Exists}]"
	apply(t, env, deployment("plain", 5, `{cpu: "2", memory: 4Gi}`, "nodeSelector: {karpenter.sh/nodepool: general}"))
	apply(t, env, deployment("gpu-work", 2, `{cpu: "1", nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}`, toleration))
	apply(t, env, deployment("budgeted", 3, `{cpu: "1"}`, "nodeSelector: {example.com/pool: budgets}"))
	waitRunning(t, env, "plain", 5)
	waitRunning(t, env, "gpu-work", 2)
	waitRunning(t, env, "budgeted", 3)

	claims, err := env.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	launched := map[string]int{}
	for _, c := range claims {
		launched[c.Pool]++
		// Dashboards and the bill go by these labels.
		if c.Type == "" || c.Zone == "" || c.CapacityType == "" {
			t.Errorf("NodeClaim %s runs and does not say on what: type %q, zone %q, capacity type %q", c.Name, c.Type, c.Zone, c.CapacityType)
		}
	}
	for _, pool := range []string{"general", "gpu", "budgets"} {
		if launched[pool] == 0 {
			t.Errorf("pool %s launched nothing; nodes per pool: %v", pool, launched)
		}
	}
}
