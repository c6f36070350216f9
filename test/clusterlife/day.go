// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"time"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
)

// LoadEnds is when the load of a Day stops changing: the rest of the day is for the
// cluster to become as cheap as it can be.
const LoadEnds = 20 * time.Hour

// Day is the first day of a cluster drawn from the seed: its workloads, their owners'
// settings, and all events. Live(24 * time.Hour) runs it.
func Day(seed uint64, decider Decider) *Cluster {
	c := New(seed, decider)
	c.Durations.SearchInterval = time.Minute
	if d := (&day{Cluster: c}); d.chance(70) {
		c.Settings = disrupt.Defaults()
	}
	c.Settings.SpotToSpot = true
	d := &day{c, start.Add(LoadEnds)}
	d.addPools()
	c.mirror = newMirror(c)
	d.addWorkloads()
	d.addCronJobs()
	d.addFailures()
	return c
}

type day struct {
	*Cluster
	loadEnds time.Time
}

func (d *day) chance(percent int) bool { return d.rng.IntN(100) < percent }

func oneOf[T any](d *day, of ...T) T { return of[d.rng.IntN(len(of))] }

// randomTime is some time before the load stops changing.
func (d *day) randomTime() time.Duration {
	return time.Duration(d.rng.Int64N(int64(LoadEnds - time.Hour))).Truncate(time.Second)
}

func (d *day) addPools() {
	general := &Pool{Name: "general", Policy: disrupt.WhenEmptyOrUnderutilized, ConsolidateAfter: oneOf(d, 0, 30*time.Second, 2*time.Minute, 5*time.Minute), Budgets: d.budgets(), MinAge: -1}
	if d.chance(40) {
		general.CapacityTypes = []string{offering.OnDemand}
	}
	d.Pools = append(d.Pools, general)
	if d.chance(50) {
		d.Pools = append(d.Pools, &Pool{Name: "spot", Weight: oneOf[int32](d, 0, 10), CapacityTypes: []string{offering.Spot}, Policy: oneOf(d, disrupt.WhenEmptyOrUnderutilized, disrupt.Balanced),
			ConsolidateAfter: oneOf(d, 30*time.Second, time.Minute), Budgets: d.budgets(), MinSavings: oneOf(d, 0, 0.05), MinAge: -1})
	}
	if d.chance(50) {
		d.Pools = append(d.Pools, &Pool{Name: "batch", Taint: "batch", Policy: oneOf(d, disrupt.WhenEmpty, disrupt.Balanced, disrupt.WhenEmptyOrUnderutilized),
			ConsolidateAfter: oneOf(d, 30*time.Second, 10*time.Minute), Budgets: d.budgets(), MinAge: -1, LimitCPU: oneOf[int64](d, 0, 128)})
	}
	if d.chance(50) {
		d.Pools = append(d.Pools, &Pool{Name: "data", Taint: "data", CapacityTypes: []string{offering.OnDemand}, Policy: disrupt.WhenEmptyOrUnderutilized, ConsolidateAfter: 5 * time.Minute,
			Budgets: d.budgets(), MinSavings: oneOf(d, 0.05, 0.2), MinAge: oneOf(d, 0, 10*time.Minute, time.Hour), TerminationGracePeriod: oneOf(d, 0, 20*time.Minute), ExpireAfter: oneOf(d, 0, 6*time.Hour)})
	}
}

// budgets draws typical budgets: a share, a number, budgets by day only, a freeze in
// office hours, one for drift alone.
func (d *day) budgets() []Budget {
	all := []Budget{{Nodes: oneOf(d, "10%", "20%", "1", "3", "100%")}}
	if d.chance(70) { // one node at a time forbids what takes two: at night it may be more
		all[0].Schedule, all[0].Duration = "0 6 * * *", 13*time.Hour
		all = append(all, Budget{Nodes: oneOf(d, "50%", "100%")})
	}
	if d.chance(30) {
		all = append(all, Budget{Nodes: "0", Schedule: fmt.Sprintf("%d %d * * 1-5", d.rng.IntN(60), 7+d.rng.IntN(3)), Duration: time.Duration(1+d.rng.IntN(9)) * time.Hour,
			Reasons: oneOf(d, nil, []disrupt.Cause{disrupt.Underutilized}, []disrupt.Cause{disrupt.Drifted, disrupt.Underutilized})})
	}
	if d.chance(20) {
		all = append(all, Budget{Nodes: oneOf(d, "1", "5%"), Reasons: []disrupt.Cause{disrupt.Drifted}})
	}
	return all
}

// taintedPool is a pool with a taint, half of the time.
func (d *day) taintedPool() *Pool {
	for _, p := range d.Pools {
		if p.Taint != "" && d.chance(50) {
			return p
		}
	}
	return nil
}

func (d *day) addWorkloads() {
	for i := range 4 + d.rng.IntN(6) {
		w := &workload{
			Name: fmt.Sprintf("w%d", i), Milli: oneOf[int64](d, 100, 250, 500, 500, 1000, 1500, 3000), MiB: oneOf[int64](d, 128, 512, 1024, 2048, 6000),
			Replicas: 2 + d.rng.IntN(10), MaxUnavailable: -1, Grace: time.Duration(d.rng.IntN(60)) * time.Second, Startup: time.Duration(1+d.rng.IntN(40)) * time.Second,
		}
		if p := d.taintedPool(); p != nil {
			w.Placement.Pool, w.Placement.Tolerates = p.Name, p.Taint
		}
		w.Placement.Spread, w.Placement.OnDemand = d.chance(25), w.Placement.Pool == "" && d.chance(15)
		if w.Placement.Spread && d.chance(75) { // without it the first node that is ready takes all
			w.Placement.MinDomains = 3
		}
		w.Placement.OnePerNode = d.chance(12)
		if w.Placement.OnePerNode {
			w.Replicas = min(w.Replicas, 5)
		}
		if d.chance(40) {
			w.MaxUnavailable = oneOf(d, 0, 1, 1, 1, 2)
		}
		if d.chance(12) {
			w.DoNotDisrupt, w.Replicas, w.ProtectFor = true, min(w.Replicas, 2), oneOf(d, 0, 10*time.Minute, 2*time.Hour)
		}
		d.workloads.deploy(w)
		if d.chance(70) {
			d.scaleByHour(w, w.Replicas, d.rng.Float64()*0.9, d.rng.Float64()*0.4, d.loadEnds)
		}
		for d.chance(35) {
			d.after(d.randomTime(), func() { d.StartRollout(w) })
		}
	}
}

func (d *day) addCronJobs() {
	for i := range 1 + d.rng.IntN(3) {
		w := &workload{
			Name: fmt.Sprintf("job%d", i), Milli: oneOf[int64](d, 100, 500, 2000), MiB: 512, Replicas: 1 + d.rng.IntN(3), MaxUnavailable: -1,
			Job: job{Every: time.Minute * oneOf(d, time.Duration(1), 15, 60), Takes: time.Duration(10+d.rng.IntN(200)) * time.Second},
		}
		if i > 0 {
			w.Job.Every = max(w.Job.Every, 15*time.Minute)
		}
		if p := d.taintedPool(); p != nil {
			w.Placement.Pool, w.Placement.Tolerates = p.Name, p.Taint
		}
		if d.chance(30) {
			w.DoNotDisrupt, w.ProtectFor = true, oneOf(d, 0, time.Minute)
		}
		d.startJobs(w, d.loadEnds)
	}
}

func (d *day) addFailures() {
	for range d.rng.IntN(4) {
		d.after(d.randomTime(), func() { d.failNode(d.nodes.random(false)) })
	}
	for range d.rng.IntN(6) {
		d.after(d.randomTime(), func() { d.interruptSpotNode(d.nodes.random(true)) })
	}
	for range d.rng.IntN(5) {
		what := d.randomOffering()
		at := d.randomTime()
		d.after(at, func() { d.SetUnavailable(what, true) })
		d.after(min(at+time.Duration(1+d.rng.IntN(120))*time.Minute, LoadEnds), func() { d.SetUnavailable(what, false) })
	}
	for range d.rng.IntN(4) {
		what, factor := d.randomOffering(), 0.7+d.rng.Float64()*0.7
		d.after(d.randomTime(), func() { d.ScalePrice(what, factor) })
	}
	for _, p := range d.Pools {
		if d.chance(50) {
			d.after(d.randomTime(), func() { d.ChangeTemplate(p) })
		}
	}
	if d.chance(20) {
		d.after(d.randomTime(), func() {
			if m := d.nodes.random(false); m != nil {
				m.doNotDisrupt = true
			}
		})
	}
	for range d.rng.IntN(3) { // no capacity although the catalog offers it
		what := d.randomOffering()
		d.after(d.randomTime(), func() { d.catalog.launchFails[what] = true })
		d.after(LoadEnds, func() { delete(d.catalog.launchFails, what) })
	}
}

func (d *day) randomOffering() offeringKey {
	return offeringKey{sizes[d.rng.IntN(len(sizes))].name, oneOf(d, zones...), oneOf(d, offering.OnDemand, offering.Spot)}
}
