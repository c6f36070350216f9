// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/karve-dev/karve/local"
)

func TestEvictedSpotNodeIsReplaced(t *testing.T) {
	env := environment(t)
	settle(t, env)
	apply(t, env, pool("spot", "default", `- {key: karpenter.sh/capacity-type, operator: In, values: [spot]}`))
	apply(t, env, deployment("spot", 4, `{cpu: "1"}`, "nodeSelector: {pool: spot}"))
	waitRunning(t, env, "spot", 4)
	var victim local.Claim
	err := local.Until(t.Context(), waitLimit, "a VM is evicted", func(ctx context.Context) (bool, error) {
		claims, err := env.Claims(ctx)
		for _, victim = range claims {
			if victim.ProviderID != "" && !victim.Deleting { // the VM of another may still be being created
				return true, env.Emulator().VMs.Evict(path.Base(victim.ProviderID), 0)
			}
		}
		return false, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if victim.CapacityType != "spot" {
		t.Fatalf("claim %s is %q, its pool allows spot only", victim.Name, victim.CapacityType)
	}
	err = local.Until(t.Context(), waitLimit, "the evicted node's claim is gone", func(ctx context.Context) (bool, error) {
		claims, err := env.Claims(ctx)
		for _, c := range claims {
			if c.UID == victim.UID {
				return false, fmt.Errorf("%s is there, deleting=%v", c.Name, c.Deleting)
			}
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	waitRunning(t, env, "spot", 4)
	if err := env.CheckVMs(t.Context(), waitLimit); err != nil {
		t.Error(err)
	}
}

func TestEmptyNodesAreGivenBack(t *testing.T) {
	env := environment(t)
	settle(t, env) // nodes, VMs, network interfaces and disks
	apply(t, env, pool("empty", "default", ""))
	work := deployment("empty", 6, `{cpu: "2"}`, "nodeSelector: {pool: empty}")
	apply(t, env, work)
	waitRunning(t, env, "empty", 6)
	remove(t, env, work)
	err := local.Until(t.Context(), waitLimit, "the pool's nodes are gone while the pool stays", func(ctx context.Context) (bool, error) {
		claims, err := env.Claims(ctx)
		return err == nil && len(claims) == 0, err
	})
	if err != nil {
		t.Error(err)
	}
}

// A thousand pods of one CPU come to run. How long it took is printed, not judged.
func TestThousandPodsRun(t *testing.T) {
	env := plain.take(t)
	settle(t, env)
	apply(t, env, pool("thousand", "default", ""))
	began := time.Now()
	apply(t, env, deployment("thousand", 1000, `{cpu: "1"}`, "nodeSelector: {pool: thousand}"))
	waitRunning(t, env, "thousand", 1000)
	t.Logf("1000 pods ran %.1f s after their Deployment was created", time.Since(began).Seconds())
	if err := env.CheckVMs(t.Context(), waitLimit); err != nil {
		t.Error(err)
	}
}
