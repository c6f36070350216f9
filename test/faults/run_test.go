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

// few VMs are enough for a fault to show, and quick.
const few = 24

// Whatever goes wrong with Azure, VMs come up and go: nothing is left behind, no
// claim has two, nothing of others is touched, and everything comes to an end.
//
// Rule VM-8.
func TestEveryFault(t *testing.T) {
	run(t, faults.Options{Seed: 1, Machines: few})
	for _, k := range azureemulator.FaultCatalogue() {
		t.Run(k.Name, func(t *testing.T) {
			if r := run(t, faults.Options{Seed: 1, Machines: few, Faults: []string{k.Name}}); r.Strikes == 0 {
				t.Error("it struck nothing")
			}
		})
	}
}

// Two faults at a time are no worse.
//
// Rule VM-8.
func TestPairsOfFaults(t *testing.T) {
	const seed = 1
	pairs := faults.Pairs(faults.Dozen())
	r := rand.New(rand.NewPCG(seed, 66))
	r.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	for _, pair := range pairs[:10] {
		t.Run(pair[0]+"And"+pair[1], func(t *testing.T) {
			run(t, faults.Options{Seed: seed, Machines: few, Faults: pair})
		})
	}
}

// Those that are alike strike together, and nothing is left out.
//
// Rule VM-8.
func TestFaultsAlike(t *testing.T) {
	struck := map[string]int{}
	for _, names := range faults.Alone() {
		for _, name := range names {
			struck[name]++
		}
		if len(names) > 1 {
			run(t, faults.Options{Seed: 1, Machines: few, Faults: names})
		}
	}
	for _, k := range azureemulator.FaultCatalogue() {
		if struck[k.Name] != 1 {
			t.Errorf("%s strikes %d times", k.Name, struck[k.Name])
		}
	}
	if len(struck) != len(azureemulator.FaultCatalogue()) {
		t.Errorf("%d faults of %d", len(struck), len(azureemulator.FaultCatalogue()))
	}
}

// So it is where AKS makes the machines, many with one request: while requests are throttled or
// lost, VMs fail late, and tokens end.
//
// Rule AKS-8.
func TestFaultsWhereAKSMakesMachines(t *testing.T) {
	for _, names := range [][]string{
		{}, {"TooManyRequestsWithoutRetryAfter"}, {"TimeoutAfterCommit"}, {"ZonalAllocationFailed"}, {"LateFailure", "TokensRevoked"}, {"ResetAfterCommit", "FamilyQuota"},
	} {
		t.Run(strings.Join(names, "And"), func(t *testing.T) {
			r := run(t, faults.Options{Seed: 1, Machines: few, Faults: names, AKS: true})
			if len(names) > 0 && r.Strikes == 0 {
				t.Error("it struck nothing")
			}
			if done := r.Ledger.ByOperation; done["Machines.CreateOrUpdate"] == 0 || done["AgentPools.DeleteMachines"] == 0 {
				t.Errorf("AKS made no machines: %v", done)
			}
		})
	}
}

func TestUnknownFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := faults.Run(t.Context(), faults.Options{Machines: 1, Faults: []string{"Earthquake"}}); err == nil {
			t.Error("an earthquake struck")
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
