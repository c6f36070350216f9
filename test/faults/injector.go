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

// Dozen are the faults of which every pair is tried: those that cross each other's ways.
func Dozen() []string {
	return []string{
		"LostPut", "LostDelete", "TooManyRequestsWithoutRetryAfter", "LateSuccess", "StuckCreating", "ReorderedAnswers",
		"ZonalAllocationFailed", "FamilyQuota", "SubnetIsFull", "NicOrphaned", "TokensExpired", "ShortMachineList",
	}
}

// Alone are all faults of the catalogue, each once, as they strike without any other; those
// that are the same to a client that creates VMs strike together.
func Alone() [][]string {
	alike := [][]string{
		{"Status408", "Status500", "Status502", "Status503", "Status504"},                         // a server that fails
		{"ResetBeforeSend", "TLSHandshakeFailed", "CertificateExpired", "NameNotResolved"},        // no server is met
		{"ExhaustedAksPUT", "ExhaustedAksLIST", "ExhaustedAksOperationstatus", "ExhaustedAksAPI"}, // karve does not call AKS
		{"ExhaustedComputeGetVM", "ExhaustedComputeUpdateVM", "ExhaustedComputeGetOperation"},     // few ask for these
		{"Evicted30s", "Evicted10s", "EvictedAtOnce"},                                             // and each strikes other VMs
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

// An injector has faults strike.
type injector struct {
	trial   *trial
	kinds   []azureemulator.FaultKind
	random  *rand.Rand
	strikes int
}

func newInjector(t *trial, o Options) (*injector, error) {
	a := &injector{trial: t, random: rand.New(rand.NewPCG(o.Seed, 1))}
	if len(o.Faults) > 0 {
		t.shortage()
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

// strikeAgain is how often what strikes once strikes.
const strikeAgain = 15 * time.Second

// strikeFor strikes for so long, first right before what happens meanwhile. What has
// struck by then stays struck. Without a fault no time passes.
func (a *injector) strikeFor(ctx context.Context, d time.Duration, meanwhile func()) {
	if len(a.kinds) == 0 {
		meanwhile()
		return
	}
	defer a.lift()
	for begun := time.Now(); time.Since(begun) < d; {
		for _, k := range a.kinds {
			if lasts(k) && time.Since(begun) > 0 {
				continue
			}
			a.strike(k)
		}
		meanwhile()
		meanwhile = nothing
		a.trial.observe()
		if scarcity.Sleep(ctx, strikeAgain) != nil {
			return
		}
	}
}

// lasts reports whether a fault goes on by itself once it was injected, or need not come twice.
func lasts(k azureemulator.FaultKind) bool {
	return k.Target == "path" || k.Target == "size" || k.Surface == "async" || k.Name == "LimitsHalved"
}

// strike injects a fault: into the requests that it is about, the creation of VMs of the
// cheapest size, or one in twenty VMs.
func (a *injector) strike(k azureemulator.FaultKind) {
	some := max(1, a.trial.options.Machines/20)
	switch {
	case k.Target == "machine":
		for range max(1, some/8) {
			a.strikeMachine(k)
		}
	case k.Name == "SizeRetired":
		a.inject(azureemulator.Named{Name: k.Name, Target: cheapest})
	case k.Name == addressesLinger:
		a.inject(azureemulator.Named{Name: k.Name, Times: a.trial.options.Machines})
	case k.Target == "size":
		a.inject(azureemulator.Named{Name: k.Name, Target: cheapest, Times: forever})
	case k.Target == "path" && !rare(k):
		a.inject(azureemulator.Named{Name: k.Name, Times: forever, Seed: 1 + a.trial.options.Seed})
	case k.Target == "path":
		a.inject(azureemulator.Named{Name: k.Name, Times: forever})
	default:
		a.inject(azureemulator.Named{Name: k.Name, Times: some})
	}
}

// forever is more often than anything happens.
const forever = 1 << 40

// rare reports whether a fault is about requests of which there are few: it strikes all of
// them, others one in three.
func rare(k azureemulator.FaultKind) bool {
	return k.Surface == "catalogue" || strings.HasPrefix(k.Name, "Operation") ||
		slices.Contains([]string{"TokensUnavailable", "FederationRefused", "NoSecurityGroups", "NoLoadBalancers", "NicReserved", "NicInUse", "NetworkBusy"}, k.Name)
}

// strikeMachine strikes one VM at random, if there is one that it can strike.
func (a *injector) strikeMachine(k azureemulator.FaultKind) {
	var names []string
	for _, vm := range a.trial.region.State().VMs {
		if !a.trial.others.have(vm.Name) && (!strings.HasPrefix(k.Name, "Evicted") || vm.Priority == "Spot") {
			names = append(names, vm.Name)
		}
	}
	if len(names) > 0 {
		a.inject(azureemulator.Named{Name: k.Name, Target: names[a.random.IntN(len(names))]})
	}
}

// inject counts what strikes. What cannot (a VM that goes already) does not, and what
// is struck until it is lifted is counted then.
func (a *injector) inject(n azureemulator.Named) {
	if a.trial.region.Inject(n) == nil && n.Times != forever {
		a.strikes++
	}
}

// lift ends what goes on by itself.
func (a *injector) lift() {
	for _, f := range a.trial.region.Faults() {
		a.strikes += forever - f.Times
	}
	for _, o := range a.trial.region.Capacity.Stockouts() {
		if o.Times > 0 {
			a.strikes += forever - o.Times
		}
	}
	a.trial.region.ClearFaults()
	a.trial.region.Capacity.ClearStockouts("", "", "")
	a.trial.shortage()
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
