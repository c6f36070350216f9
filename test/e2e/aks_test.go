// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local"
)

// aksEnvironment is an environment of one test's, in which AKS creates the VMs.
func aksEnvironment(t *testing.T) *local.Environment {
	t.Helper()
	ownEnvironments.wait(t)
	b := commands(t)
	// The test's context ends before what it left behind is looked at.
	env, err := local.Start(context.WithoutCancel(t.Context()), local.Options{
		Dir:           filepath.Join(t.TempDir(), "aks"),
		Controlplane:  b.controlplane,
		Karve:         b.karve,
		ProvisionMode: "aksmachineapiheaderbatch",
		KarveEnv:      []string{"ORPHAN_GRACE_PERIOD=5s", "LEADER_ELECTION_LEASE_DURATION=60s", "CONSOLIDATION_VALIDATION_DELAY=3s", "CONSOLIDATION_EXPECTED_STAY=0s"},
		Azure:         azureemulator.Options{TimeScale: 0.02, Seed: 1},
		Progress:      func(step string) { t.Log(step) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(tailOf(env.KarveLog()))
		}
		if err := errors.Join(env.Err(), env.Close()); err != nil {
			t.Error(err)
		}
	})
	return env
}

// Twenty pods come to run on machines that AKS makes and bootstraps; a node that a user
// deletes is replaced; and nothing stays behind, in AKS's pool either.
//
// Rule AKS-1.
func TestMachinesOfAKSBecomeNodes(t *testing.T) {
	env := aksEnvironment(t)
	settle(t, env)
	apply(t, env, pool("aks", "default", `- {key: karpenter.azure.com/sku-cpu, operator: In, values: ["8"]}`))
	apply(t, env, deployment("aks", 20, `{cpu: "1"}`, "nodeSelector: {pool: aks}"))
	waitRunning(t, env, "aks", 20)
	waitNodesOfAKS(t, env)

	victim := env.Emulator().State().Machines[0]
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: victim.VM}}
	if err := env.Client().Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	waitMachineGone(t, env, victim.Name)
	waitRunning(t, env, "aks", 20)
	if err := env.CheckVMs(t.Context(), waitLimit); err != nil {
		t.Error(err)
	}
	remove(t, env, deployment("aks", 20, `{cpu: "1"}`, ""))
	err := local.Until(t.Context(), waitLimit, "AKS's pool is empty", func(context.Context) (bool, error) {
		if left := len(env.Emulator().State().Machines); left > 0 {
			return false, fmt.Errorf("%d machines are left", left)
		}
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// waitNodesOfAKS waits until each machine of AKS has its initialized Node, which
// comes a moment after its pods run, and no Node is without a machine.
func waitNodesOfAKS(t *testing.T, env *local.Environment) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, "each machine of AKS has its node", func(ctx context.Context) (bool, error) {
		nodes, err := ownNodes(ctx, env)
		if err != nil {
			return false, err
		}
		byVM := map[string]corev1.Node{}
		for _, n := range nodes {
			byVM[filepath.Base(n.Spec.ProviderID)] = n
		}
		machines := env.Emulator().State().Machines
		if len(machines) == 0 || len(machines) != len(nodes) {
			return false, fmt.Errorf("AKS has %d machines, the cluster %d nodes", len(machines), len(nodes))
		}
		for _, m := range machines {
			n := byVM[m.VM]
			if n.Labels["kubernetes.azure.com/agentpool"] != m.Pool || n.Labels["pool"] != "aks" || n.Labels["karpenter.sh/initialized"] != "true" {
				return false, fmt.Errorf("machine %s on %s has the node %q with labels %v", m.Name, m.VM, n.Name, n.Labels)
			}
		}
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func waitMachineGone(t *testing.T, env *local.Environment, name string) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, "machine "+name+" is gone", func(context.Context) (bool, error) {
		for _, m := range env.Emulator().State().Machines {
			if m.Name == name {
				return false, fmt.Errorf("it is %s", m.Provisioning)
			}
		}
		return true, env.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
