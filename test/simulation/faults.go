// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/test/kubeapi"
)

// FaultKind is something that can go wrong in a world. docs/faults.md lists them all.
type FaultKind struct {
	Name string
	// Surface is api, azure, process, time, node, workload or operator.
	Surface string
	draw    func(*drawing) step
}

// drawing is from what a fault is drawn.
type drawing struct {
	*rand.Rand
	seed uint64
	// lasts is how long the fault goes on, where it goes on at all.
	lasts time.Duration
	// n and m choose whom it strikes, and how.
	n, m int
}

// surfaces are those of FaultKind, in the order of their draw.
var surfaces = []string{"api", "azure", "process", "time", "node", "workload", "operator"}

// Faults are all kinds of faults.
func Faults() []FaultKind {
	return slices.Concat(apiFaults(), azureFaults(), processFaults(), timeFaults(), nodeFaults(), workloadFaults(), operatorFaults())
}

// faultsBySurface are the faults, made once.
var faultsBySurface = func() map[string][]FaultKind {
	by := map[string][]FaultKind{}
	for _, k := range Faults() {
		by[k.Surface] = append(by[k.Surface], k)
	}
	return by
}()

// drawFault is something that goes wrong, any of a surface that is drawn first.
func drawFault(r *rand.Rand, seed uint64) step {
	of := faultsBySurface[pick(r, surfaces...)]
	return of[r.IntN(len(of))].step(r, seed)
}

// step draws one occurrence of a fault.
func (k FaultKind) step(r *rand.Rand, seed uint64) step {
	d := &drawing{Rand: r, seed: seed, n: r.IntN(1 << 20), m: r.IntN(1 << 20)}
	d.lasts = min(5*time.Second+time.Duration(r.ExpFloat64()*float64(3*time.Minute)), 30*time.Minute).Round(time.Second)
	x := k.draw(d)
	if x.what == "" {
		x.what = fmt.Sprintf("%s (%d, %d, %v)", k.Name, d.n, d.m, d.lasts)
	}
	return x
}

// happening makes a kind of fault that does something to the world.
func happening(surface, name string, do func(s *script, d *drawing)) FaultKind {
	return FaultKind{Name: name, Surface: surface, draw: func(d *drawing) step {
		return step{do: func(s *script) {
			s.world.auditor.disturbed()
			do(s, d)
		}}
	}}
}

func apiFaults() []FaultKind {
	var all []FaultKind
	for _, name := range kubeapi.FaultNames() {
		all = append(all, FaultKind{Name: string(name), Surface: "api", draw: func(d *drawing) step {
			f := drawAPIFault(d.Rand, name)
			return step{what: fmt.Sprintf("%s of %v, verbs %v, rate %.2f, delay %v for %v", f.Name, f.Resources, f.Verbs, f.Rate, f.Delay, d.lasts), do: func(s *script) {
				s.forAWhile(d.lasts, s.world.api.Inject(f))
			}}
		}})
	}
	return append(all,
		happening("api", "ChangesForgotten", func(s *script, _ *drawing) { s.world.api.Forget() }),
		happening("api", "ServerRestarts", func(s *script, d *drawing) {
			back := s.world.api.Inject(kubeapi.Fault{Name: kubeapi.Unreachable})
			s.world.api.Forget() // what its watch cache knew is lost
			s.forAWhile(time.Second+d.lasts%(30*time.Second), back)
		}),
		happening("api", "Outage", func(s *script, d *drawing) {
			s.forAWhile(time.Second+time.Duration(d.n)*(30*time.Minute)/(1<<20), s.world.api.Inject(kubeapi.Fault{Name: kubeapi.Unreachable}))
		}),
	)
}

func drawAPIFault(r *rand.Rand, name kubeapi.FaultName) kubeapi.Fault {
	f := kubeapi.Fault{Name: name, Rate: pick(r, 0, 0, 0.1, 0.5), Delay: time.Duration(r.Int64N(int64(20 * time.Second))).Round(time.Millisecond)}
	if r.IntN(3) == 0 {
		f.Verbs = pick(r, []string{"create"}, []string{"patch", "update"}, []string{"delete"}, []string{"get", "list", "watch"})
	}
	kinds := []string{"nodeclaims", "nodepools", "nodes", "pods", "leases", "aksnodeclasses", "poddisruptionbudgets", "replicasets", "events"}
	switch {
	case name == kubeapi.NotServed || name == kubeapi.ConversionFails:
		f.Resources, f.Verbs = []string{pick(r, "nodeclaims", "nodepools", "aksnodeclasses", "nodeoverlays", "capacitybuffers")}, nil
	case name == kubeapi.OlderDefinition:
		f.Resources, f.Verbs, f.Rate = []string{"nodeclaims", "nodepools"}, nil, 0
		f.Fields = []string{"spec.terminationGracePeriod", "spec.template.spec.terminationGracePeriod", "spec.replicas", "status.nodes", "status.lastPodEventTime", "status.nodeClassObservedGeneration"}
	case r.IntN(2) == 0:
		f.Resources = []string{pick(r, kinds...)}
	}
	return f
}

// longestHeldBack is how long Azure may be believed that it wants no more requests.
const longestHeldBack = 31 * time.Minute

func azureFaults() []FaultKind {
	var all []FaultKind
	for _, k := range azureemulator.FaultCatalogue() {
		all = append(all, FaultKind{Name: "Azure/" + k.Name, Surface: "azure", draw: func(d *drawing) step {
			times := 1 + d.m%20
			return step{what: fmt.Sprintf("Azure: %s, %d times", k.Name, times), do: func(s *script) {
				s.world.auditor.disturbed()
				if err := s.world.azure.Inject(azureemulator.NamedFault{Name: k.Name, Times: times, Seed: 1 + d.seed}); err != nil {
					s.world.say("%v", err)
				}
				if k.Name == "TooManyRequestsForADay" {
					s.forAWhile(longestHeldBack, func() {})
				}
			}}
		}})
	}
	return all
}

// forAWhile ends a fault after some time, while other things happen.
func (s *script) forAWhile(d time.Duration, end func()) {
	s.ends = append(s.ends, end)
	w := s.world
	w.auditor.disturbed()
	w.running.Go(func() {
		sleep(w.ctx, d)
		end()
		w.auditor.disturbed()
	})
}
