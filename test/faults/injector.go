// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/test/scarcity"
)

// PairedFaults are the faults of which every pair is tried: those that cross each other's ways.
func PairedFaults() []string {
	return []string{
		"LostPut", "LostDelete", "TooManyRequestsWithoutRetryAfter", "LateSuccess", "StuckCreating", "ReorderedAnswers",
		"ZonalAllocationFailed", "FamilyQuota", "SubnetIsFull", "NicOrphaned", "TokensExpired", "ShortMachineList",
	}
}

// SingleFaults are all faults of the catalogue, each once, injected without any other; those
// that are the same to a client that creates VMs are injected together.
func SingleFaults() [][]string {
	alike := [][]string{
		{"Status408", "Status500", "Status502", "Status503", "Status504"},                         // a server that fails
		{"ResetBeforeSend", "TLSHandshakeFailed", "CertificateExpired", "NameNotResolved"},        // no server is met
		{"ExhaustedAksPUT", "ExhaustedAksLIST", "ExhaustedAksOperationstatus", "ExhaustedAksAPI"}, // karve does not call AKS
		{"ExhaustedComputeGetVM", "ExhaustedComputeUpdateVM", "ExhaustedComputeGetOperation"},     // few ask for these
		{"Evicted30s", "Evicted10s", "EvictedAtOnce"},                                             // and each hits other VMs
		{"Freeze", "Reboot", "Redeploy", "Terminate"},                                             // likewise
	}
	all := slices.Clone(alike)
	for _, k := range azureemulator.FaultCatalogue() {
		if !slices.ContainsFunc(alike, func(group []string) bool { return slices.Contains(group, k.Name) }) {
			all = append(all, []string{k.Name})
		}
	}
	return all
}

// injector injects faults.
type injector struct {
	trial  *run
	kinds  []azureemulator.FaultKind
	random *rand.Rand
}

func newInjector(t *run, o Options) (*injector, error) {
	a := &injector{trial: t, random: rand.New(rand.NewPCG(o.Seed, 1))}
	if len(o.Faults) > 0 {
		t.makeScarce()
	}
	catalogue := azureemulator.FaultCatalogue()
	for _, name := range o.Faults {
		i := slices.IndexFunc(catalogue, func(k azureemulator.FaultKind) bool { return k.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("the catalogue has no fault %q", name)
		}
		a.kinds = append(a.kinds, catalogue[i])
	}
	return a, nil
}

// injectAgainAfter is how often a fault that applies once is injected.
const injectAgainAfter = 15 * time.Second

// injectFor injects for so long, first right before what happens meanwhile. What was
// hit by then stays at fault. Without a fault no time passes.
func (a *injector) injectFor(ctx context.Context, d time.Duration, meanwhile func()) {
	if len(a.kinds) == 0 {
		meanwhile()
		return
	}
	defer a.end()
	for begun := time.Now(); time.Since(begun) < d; {
		for _, k := range a.kinds {
			if lasts(k) && time.Since(begun) > 0 {
				continue
			}
			a.inject(k)
		}
		meanwhile()
		meanwhile = nothing
		a.trial.observe()
		if scarcity.Sleep(ctx, injectAgainAfter) != nil {
			return
		}
	}
}

// lasts reports whether a fault goes on by itself once it was injected, or need not come twice.
func lasts(k azureemulator.FaultKind) bool {
	return k.Target == "path" || k.Target == "size" || k.Surface == "async" || k.Name == "LimitsHalved"
}

// inject injects a fault: into the requests that it is about, the creation of VMs of the
// cheapest size, or one in twenty VMs.
func (a *injector) inject(k azureemulator.FaultKind) {
	some := max(1, a.trial.options.VMs/20)
	switch {
	case k.Target == "machine":
		for range max(1, some/8) {
			a.injectIntoVM(k)
		}
	case k.Name == "SizeRetired":
		a.injectNamed(azureemulator.NamedFault{Name: k.Name, Target: cheapest})
	case k.Name == addressesLinger:
		a.injectNamed(azureemulator.NamedFault{Name: k.Name, Times: a.trial.options.VMs})
	case k.Target == "size":
		a.injectNamed(azureemulator.NamedFault{Name: k.Name, Target: cheapest, Times: forever})
	case k.Target == "path" && !rare(k):
		a.injectNamed(azureemulator.NamedFault{Name: k.Name, Times: forever, Seed: 1 + a.trial.options.Seed})
	case k.Target == "path":
		a.injectNamed(azureemulator.NamedFault{Name: k.Name, Times: forever})
	default:
		a.injectNamed(azureemulator.NamedFault{Name: k.Name, Times: some})
	}
}

// forever is more often than anything happens.
const forever = 1 << 40

// rare reports whether a fault is about requests of which there are few: it applies to all of
// them, others to one in three.
func rare(k azureemulator.FaultKind) bool {
	return k.Surface == "catalogue" || strings.HasPrefix(k.Name, "Operation") ||
		slices.Contains([]string{"TokensUnavailable", "FederationRefused", "NoSecurityGroups", "NoLoadBalancers", "NicReserved", "NicInUse", "NetworkBusy"}, k.Name)
}

// injectIntoVM injects into one VM at random, if there is one that it applies to.
func (a *injector) injectIntoVM(k azureemulator.FaultKind) {
	var names []string
	for _, vm := range a.trial.region.State().VMs {
		if !a.trial.others.owns(vm.Name) && (!strings.HasPrefix(k.Name, "Evicted") || vm.Priority == "Spot") {
			names = append(names, vm.Name)
		}
	}
	if len(names) > 0 {
		a.injectNamed(azureemulator.NamedFault{Name: k.Name, Target: names[a.random.IntN(len(names))]})
	}
}

// injectNamed injects a fault if it applies: one of a VM that is being deleted does not.
func (a *injector) injectNamed(n azureemulator.NamedFault) {
	_ = a.trial.region.Inject(n) // what has struck is counted
}

// end ends what goes on by itself.
func (a *injector) end() {
	a.trial.region.ClearFaults()
	a.trial.region.Capacity.ClearStockouts("", "", "")
	a.trial.makeScarce()
}

// Pairs are all pairs of different faults, of a dozen 66.
func Pairs(faults []string) [][]string {
	var pairs [][]string
	for i, one := range faults {
		for _, other := range faults[i+1:] {
			pairs = append(pairs, []string{one, other})
		}
	}
	return pairs
}
