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

// progress is how far a scale-up has come.
type progress struct{ claims, machines, nodes, pods int }

// A power cut at any moment of a scale-up must leave, once karve is back, exactly
// one machine per NodeClaim and none without.
//
// Rule LAUNCH-3.
func TestKillsDuringScaleUpLeakAndDuplicateNothing(t *testing.T) {
	env := environment(t)
	settle(t, env)
	const n = 100
	// A pod takes a whole machine of 4 vCPU, so that there are as many as pods.
	apply(t, env, pool("crash", "default", `- {key: karpenter.azure.com/sku-cpu, operator: In, values: ["4"]}`))
	apply(t, env, deployment("crash", n, `{cpu: "3"}`, "nodeSelector: {pool: crash}"))

	// Each kill waits for a point of the scale-up: while claims are written, while
	// machines are bought, while nodes join, while pods start.
	kills := []func(progress) bool{
		func(p progress) bool { return p.claims >= 1 },
		func(p progress) bool { return p.claims >= n/2 },
		func(p progress) bool { return p.machines >= 1 },
		func(p progress) bool { return p.machines >= n/4 },
		func(p progress) bool { return p.machines >= n/2 },
		func(p progress) bool { return p.nodes >= n/4 },
		func(p progress) bool { return p.nodes >= n/2 },
		func(p progress) bool { return p.pods >= n*3/4 },
	}
	for i, when := range kills {
		err := local.Until(t.Context(), patience, fmt.Sprintf("the moment of kill %d", i+1), func(ctx context.Context) (bool, error) {
			p, err := measure(ctx, t, env, "crash")
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
	if err := env.CheckMachines(t.Context(), patience); err != nil {
		t.Error(err)
	}
	claims, err := env.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(claims) != n {
		t.Errorf("%d NodeClaims for %d pods that each fill a machine", len(claims), n)
	}
}

// measure looks how far the scale-up is, and fails the test the moment two
// machines exist for one claim: a duplicate that is tidied away later was still
// paid for.
func measure(ctx context.Context, t *testing.T, env *local.Environment, app string) (progress, error) {
	claims, err := env.Claims(ctx)
	if err != nil {
		return progress{}, err
	}
	machines, err := env.Machines(ctx)
	if err != nil {
		return progress{}, err
	}
	byClaim := map[string]string{}
	for _, m := range machines {
		if other, twice := byClaim[m.ClaimUID]; twice {
			t.Fatalf("machines %s and %s were both bought for NodeClaim %s", other, m.Name, m.ClaimUID)
		}
		byClaim[m.ClaimUID] = m.Name
	}
	nodes, err := ownNodes(ctx, env)
	if err != nil {
		return progress{}, err
	}
	up, err := running(ctx, env, app)
	return progress{claims: len(claims), machines: len(machines), nodes: len(nodes), pods: up}, err
}

// releaseLease takes the lease from a karve that is dead, so that nobody waits for it.
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
	err := local.Until(t.Context(), patience, "the new karve leads", func(context.Context) (bool, error) {
		now := leader(t, env)
		return now != "" && now != before, env.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
