// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/test/faults"
)

// few VMs are enough for a fault to show, and quick; but limits that are halved are reached by
// many only.
const few, many = 24, 300

// meetsNone are faults of request limits that nothing falls under that karve does here, by what
// would: it changes no VM that runs, no agent pool, lists no clusters, and asks AKS for no operation.
func meetsNone() map[string]string {
	return map[string]string{
		"ExhaustedComputeUpdateVM": "VirtualMachines.Update", "ExhaustedAksPUT": "AgentPools.CreateOrUpdate",
		"ExhaustedAksLIST": "ManagedClusters.List", "ExhaustedAksOperationstatus": "ManagedClusters.GetOperation",
	}
}

// Whatever goes wrong with Azure, VMs come up and go: nothing is left behind, no
// claim has two, nothing of others is touched, and everything comes to an end.
//
// Rule VM-8.
func TestEveryFault(t *testing.T) {
	run(t, faults.Options{Seed: 1, VMs: few})
	for _, k := range azureemulator.FaultCatalogue() {
		t.Run(k.Name, func(t *testing.T) {
			o := faults.Options{Seed: 1, VMs: few, Faults: []string{k.Name}, AKS: strings.HasPrefix(k.Name, "ExhaustedAks")}
			if k.Name == "LimitsHalved" {
				o.VMs = many
			}
			r := run(t, o)
			if request, passedBy := meetsNone()[k.Name]; passedBy {
				if n := r.Ledger.ByOperation[request]; n > 0 {
					t.Errorf("it meets %d requests %s now: hold karve to it", n, request)
				}
			} else if r.Struck[k.Name] == 0 {
				t.Error("it never struck")
			}
		})
	}
}

// Two faults at a time are no worse.
//
// Rule VM-8.
func TestPairsOfFaults(t *testing.T) {
	const seed = 1
	pairs := faults.Pairs(faults.PairedFaults())
	r := rand.New(rand.NewPCG(seed, 66))
	r.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	for _, pair := range pairs[:10] {
		t.Run(pair[0]+"And"+pair[1], func(t *testing.T) {
			run(t, faults.Options{Seed: seed, VMs: few, Faults: pair})
		})
	}
}

// Those that are alike are injected together, and none is left out.
//
// Rule VM-8.
func TestFaultsAlike(t *testing.T) {
	injected := map[string]int{}
	for _, names := range faults.SingleFaults() {
		for _, name := range names {
			injected[name]++
		}
		if len(names) > 1 {
			run(t, faults.Options{Seed: 1, VMs: few, Faults: names})
		}
	}
	for _, k := range azureemulator.FaultCatalogue() {
		if injected[k.Name] != 1 {
			t.Errorf("%s is injected %d times", k.Name, injected[k.Name])
		}
	}
	if len(injected) != len(azureemulator.FaultCatalogue()) {
		t.Errorf("%d faults of %d", len(injected), len(azureemulator.FaultCatalogue()))
	}
}

// So it is where AKS creates the VMs, many with one request: while requests are throttled or
// lost, VMs fail late, and tokens end.
//
// Rule AKS-8.
func TestFaultsWhereAKSMakesMachines(t *testing.T) {
	for _, names := range [][]string{
		{}, {"TooManyRequestsWithoutRetryAfter"}, {"TimeoutAfterCommit"}, {"ZonalAllocationFailed"}, {"LateFailure", "TokensRevoked"}, {"ResetAfterCommit", "FamilyQuota"},
	} {
		t.Run(strings.Join(names, "And"), func(t *testing.T) {
			r := run(t, faults.Options{Seed: 1, VMs: few, Faults: names, AKS: true})
			for _, name := range names {
				if r.Struck[name] == 0 {
					t.Errorf("%s never struck", name)
				}
			}
			if done := r.Ledger.ByOperation; done["Machines.CreateOrUpdate"] == 0 || done["AgentPools.DeleteMachines"] == 0 {
				t.Errorf("AKS created no VMs: %v", done)
			}
		})
	}
}

func TestUnknownFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := faults.Run(t.Context(), faults.Options{VMs: 1, Faults: []string{"Earthquake"}}); err == nil {
			t.Error("an unknown fault is accepted")
		}
	})
}

func run(t *testing.T, o faults.Options) (r faults.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		r, err = faults.Run(t.Context(), o)
		if err != nil {
			t.Fatalf("seed %d: %v", o.Seed, err)
		}
		t.Log(r)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	})
	return r
}
