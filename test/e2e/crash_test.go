// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/local"
)

// scaleUp is how far a scale-up has come.
type scaleUp struct{ claims, vms, nodes, pods int }

// A power cut at any moment of a scale-up must leave, once karve is back, exactly
// one VM per NodeClaim and none without.
//
// Rule LAUNCH-3.
func TestKillsDuringScaleUpLeakAndDuplicateNothing(t *testing.T) {
	env := environment(t)
	settle(t, env)
	const n = 100
	// A pod takes a whole VM of 4 vCPU, so that there are as many as pods.
	apply(t, env, pool("crash", "default", `- {key: karpenter.azure.com/sku-cpu, operator: In, values: ["4"]}`))
	apply(t, env, deployment("crash", n, `{cpu: "3"}`, "nodeSelector: {pool: crash}"))

	// Each kill waits for a point of the scale-up: while claims are written, while
	// VMs are launched, while nodes join, while pods start.
	kills := []func(scaleUp) bool{
		func(p scaleUp) bool { return p.claims >= 1 },
		func(p scaleUp) bool { return p.claims >= n/2 },
		func(p scaleUp) bool { return p.vms >= 1 },
		func(p scaleUp) bool { return p.vms >= n/4 },
		func(p scaleUp) bool { return p.vms >= n/2 },
		func(p scaleUp) bool { return p.nodes >= n/4 },
		func(p scaleUp) bool { return p.nodes >= n/2 },
		func(p scaleUp) bool { return p.pods >= n*3/4 },
	}
	for i, when := range kills {
		err := local.Until(t.Context(), waitLimit, fmt.Sprintf("the moment of kill %d", i+1), func(ctx context.Context) (bool, error) {
			p, err := measureScaleUp(ctx, t, env, "crash")
			return err == nil && when(p), err
		})
		if err != nil {
			t.Fatal(err)
		}
		before := leader(t, env)
		if err := errors.Join(env.KillKarve(), releaseLease(t.Context(), env), env.StartKarve(t.Context())); err != nil {
			t.Fatal(err)
		}
		waitLeader(t, env, before)
	}
	waitRunning(t, env, "crash", n)
	if err := env.CheckVMs(t.Context(), waitLimit); err != nil {
		t.Error(err)
	}
	claims, err := env.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(claims) != n {
		t.Errorf("%d NodeClaims for %d pods that each fill a VM", len(claims), n)
	}
}

// measureScaleUp looks how far the scale-up is, and fails the test the moment two
// VMs exist for one claim: a duplicate that is deleted later was still
// paid for.
func measureScaleUp(ctx context.Context, t *testing.T, env *local.Environment, app string) (scaleUp, error) {
	claims, err := env.Claims(ctx)
	if err != nil {
		return scaleUp{}, err
	}
	vms, err := env.VMs(ctx)
	if err != nil {
		return scaleUp{}, err
	}
	byClaim := map[string]string{}
	for _, m := range vms {
		if other, twice := byClaim[m.ClaimUID]; twice {
			t.Fatalf("VMs %s and %s were both launched for NodeClaim %s", other, m.Name, m.ClaimUID)
		}
		byClaim[m.ClaimUID] = m.Name
	}
	nodes, err := ownNodes(ctx, env)
	if err != nil {
		return scaleUp{}, err
	}
	up, err := running(ctx, env, app)
	return scaleUp{claims: len(claims), vms: len(vms), nodes: len(nodes), pods: up}, err
}

// releaseLease takes the lease from a karve that is dead, so that no process waits for it.
func releaseLease(ctx context.Context, env *local.Environment) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-leader-election"}}
	return client.IgnoreNotFound(env.Client().Delete(ctx, lease))
}

// leader names the process that leads now.
func leader(t *testing.T, env *local.Environment) string {
	t.Helper()
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: "kube-system", Name: "karpenter-leader-election"}
	if err := env.Client().Get(t.Context(), key, &lease); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// waitLeader waits until the karve that was started acts: a kill before that
// would interrupt nothing.
func waitLeader(t *testing.T, env *local.Environment, before string) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, "the new karve leads", func(context.Context) (bool, error) {
		now := leader(t, env)
		return now != "" && now != before, env.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
