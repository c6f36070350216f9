// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local"
)

// Where addresses, nodes or cores are scarce, every pod runs that any nodes within the bounds could
// run, although the pods arrive little by little: the first nodes are chosen for all that their
// Deployment asks for.
//
// Rule PLAN-17.
func TestScarceThingsGoRound(t *testing.T) {
	ownEnvironments.wait(t)
	b := commands(t)
	env, err := local.Start(t.Context(), local.Options{
		Dir: t.TempDir(), Controlplane: b.controlplane, Karve: b.karve,
		KarveEnv: []string{"ORPHAN_GRACE_PERIOD=5s", "LEADER_ELECTION_LEASE_DURATION=60s"},
		Azure:    azureemulator.Options{TimeScale: 0.02, Seed: 1, SubnetPrefix: "10.224.0.0/27"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name            string
		limits          string
		replicas, milli int
		want            int // that run in the end: no nodes within the bounds have room for more
	}{
		{"nodes", `{nodes: "5"}`, 200, 500, 200},
		{"cores", `{cpu: "40"}`, 100, 500, 79},
		{"addresses", `{}`, 4000, 250, 4000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "addresses" { // the last; deleting its pods takes minutes
				settle(t, env)
			}
			apply(t, env, openPool(c.name, c.limits))
			gated := "nodeSelector: {pool: " + c.name + "}\nschedulingGates: [{name: example.com/arrival}]"
			apply(t, env, deployment(c.name, c.replicas, fmt.Sprintf("{cpu: %dm}", c.milli), gated))
			arrive(t, env, c.name, c.replicas, 30*time.Second)
			waitRunning(t, env, c.name, c.want)
			claims, err := env.Claims(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			types := map[string]int{}
			for _, claim := range claims {
				types[claim.Type]++
			}
			t.Logf("%d pods run on %d nodes, of types %v", c.want, len(claims), types)
		})
	}
}

// openPool is a NodePool of all sizes on demand.
func openPool(name, limits string) []byte {
	return fmt.Appendf(nil, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  limits: %[2]s
  template:
    metadata: {labels: {pool: %[1]s}}
    spec:
      nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}
`, name, limits)
}

// arrive opens the scheduling gates of an app's n pods, evenly over a time, oldest name first.
func arrive(t *testing.T, env *local.Environment, app string, n int, over time.Duration) {
	t.Helper()
	var waiting []corev1.Pod
	err := local.Until(t.Context(), waitLimit, fmt.Sprintf("%d pods of %s exist", n, app), func(ctx context.Context) (bool, error) {
		var err error
		waiting, err = pods(ctx, env, app)
		return len(waiting) == n, err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(waiting, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	const steps = 30
	tick := time.NewTicker(over / steps)
	defer tick.Stop()
	for i := range steps {
		for _, p := range waiting[i*n/steps : (i+1)*n/steps] {
			open := p.DeepCopy()
			open.Spec.SchedulingGates = nil
			if err := env.Client().Patch(t.Context(), open, client.MergeFrom(&p)); err != nil {
				t.Fatal(err)
			}
		}
		<-tick.C
	}
}
