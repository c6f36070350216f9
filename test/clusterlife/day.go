// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"time"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
)

// Quiet is when the load of a Day stops changing: the rest of the day is for the
// cluster to become as cheap as it can be.
const Quiet = 20 * time.Hour

// Day is the first day of a cluster drawn from the seed: its workloads, their owners'
// settings, and all events. Live(24 * time.Hour) runs it.
func Day(seed uint64, mind Mind) *Cluster {
	c := New(seed, mind)
	c.Pace.Search = time.Minute
	if d := (&day{Cluster: c}); d.often(70) {
		c.Settings = disrupt.Defaults()
	}
	c.Settings.SpotToSpot = true
	d := &day{c, dawn.Add(Quiet)}
	d.pools()
	c.view = newView(c)
	d.workloads()
	d.cronJobs()
	d.accidents()
	return c
}

type day struct {
	*Cluster
	quiet time.Time
}

func (d *day) often(percent int) bool { return d.rng.IntN(100) < percent }

func one[T any](d *day, of ...T) T { return of[d.rng.IntN(len(of))] }

// some time before the load stops changing.
func (d *day) sometime() time.Duration {
	return time.Duration(d.rng.Int64N(int64(Quiet - time.Hour))).Truncate(time.Second)
}

func (d *day) pools() {
	general := &Pool{Name: "general", Policy: disrupt.WhenEmptyOrUnderutilized, ConsolidateAfter: one(d, 0, 30*time.Second, 2*time.Minute, 5*time.Minute), Budgets: d.budgets(), MinAge: -1}
	if d.often(40) {
		general.CapacityTypes = []string{offering.OnDemand}
	}
	d.Pools = append(d.Pools, general)
	if d.often(50) {
		d.Pools = append(d.Pools, &Pool{Name: "spot", Weight: one[int32](d, 0, 10), CapacityTypes: []string{offering.Spot}, Policy: one(d, disrupt.WhenEmptyOrUnderutilized, disrupt.Balanced),
			ConsolidateAfter: one(d, 30*time.Second, time.Minute), Budgets: d.budgets(), MinSavings: one(d, 0, 0.05), MinAge: -1})
	}
	if d.often(50) {
		d.Pools = append(d.Pools, &Pool{Name: "batch", Taint: "batch", Policy: one(d, disrupt.WhenEmpty, disrupt.Balanced, disrupt.WhenEmptyOrUnderutilized),
			ConsolidateAfter: one(d, 30*time.Second, 10*time.Minute), Budgets: d.budgets(), MinAge: -1, LimitCPU: one[int64](d, 0, 128)})
	}
	if d.often(50) {
		d.Pools = append(d.Pools, &Pool{Name: "data", Taint: "data", CapacityTypes: []string{offering.OnDemand}, Policy: disrupt.WhenEmptyOrUnderutilized, ConsolidateAfter: 5 * time.Minute,
			Budgets: d.budgets(), MinSavings: one(d, 0.05, 0.2), MinAge: one(d, 0, 10*time.Minute, time.Hour), Grace: one(d, 0, 20*time.Minute), ExpireAfter: one(d, 0, 6*time.Hour)})
	}
}

// budgets draws typical budgets: a share, a number, budgets by day only, a freeze in
// office hours, one for drift alone.
func (d *day) budgets() []Budget {
	all := []Budget{{Nodes: one(d, "10%", "20%", "1", "3", "100%")}}
	if d.often(70) { // one node at a time forbids what takes two: at night it may be more
		all[0].Schedule, all[0].Lasts = "0 6 * * *", 13*time.Hour
		all = append(all, Budget{Nodes: one(d, "50%", "100%")})
	}
	if d.often(30) {
		all = append(all, Budget{Nodes: "0", Schedule: fmt.Sprintf("%d %d * * 1-5", d.rng.IntN(60), 7+d.rng.IntN(3)), Lasts: time.Duration(1+d.rng.IntN(9)) * time.Hour,
			Reasons: one(d, nil, []disrupt.Cause{disrupt.Underutilized}, []disrupt.Cause{disrupt.Drifted, disrupt.Underutilized})})
	}
	if d.often(20) {
		all = append(all, Budget{Nodes: one(d, "1", "5%"), Reasons: []disrupt.Cause{disrupt.Drifted}})
	}
	return all
}

// taints of the pools that have one.
func (d *day) dedicated() *Pool {
	for _, p := range d.Pools {
		if p.Taint != "" && d.often(50) {
			return p
		}
	}
	return nil
}

func (d *day) workloads() {
	for i := range 4 + d.rng.IntN(6) {
		w := &workload{
			Name: fmt.Sprintf("w%d", i), Milli: one[int64](d, 100, 250, 500, 500, 1000, 1500, 3000), MiB: one[int64](d, 128, 512, 1024, 2048, 6000),
			Replicas: 2 + d.rng.IntN(10), MaxDown: -1, Grace: time.Duration(d.rng.IntN(60)) * time.Second, Startup: time.Duration(1+d.rng.IntN(40)) * time.Second,
		}
		if p := d.dedicated(); p != nil {
			w.Pool, w.Tolerates = p.Name, p.Taint
		}
		w.Spread, w.OnDemand = d.often(25), w.Pool == "" && d.often(15)
		if w.Spread && d.often(75) { // without it the first node that is ready takes all
			w.Domains = 3
		}
		w.Apart = d.often(12)
		if w.Apart {
			w.Replicas = min(w.Replicas, 5)
		}
		if d.often(40) {
			w.MaxDown = one(d, 0, 1, 1, 1, 2)
		}
		if d.often(12) {
			w.DoNotDisrupt, w.Replicas, w.ProtectFor = true, min(w.Replicas, 2), one(d, 0, 10*time.Minute, 2*time.Hour)
		}
		d.deploy(w)
		if d.often(70) {
			d.wave(w, w.Replicas, d.rng.Float64()*0.9, d.rng.Float64()*0.4, d.quiet)
		}
		for d.often(35) {
			d.after(d.sometime(), func() { d.Roll(w) })
		}
	}
}

func (d *day) cronJobs() {
	for i := range 1 + d.rng.IntN(3) {
		w := &workload{
			Name: fmt.Sprintf("job%d", i), Milli: one[int64](d, 100, 500, 2000), MiB: 512, Replicas: 1 + d.rng.IntN(3), MaxDown: -1,
			Every: time.Minute * one(d, time.Duration(1), 15, 60), Takes: time.Duration(10+d.rng.IntN(200)) * time.Second,
		}
		if i > 0 {
			w.Every = max(w.Every, 15*time.Minute)
		}
		if p := d.dedicated(); p != nil {
			w.Pool, w.Tolerates = p.Name, p.Taint
		}
		if d.often(30) {
			w.DoNotDisrupt, w.ProtectFor = true, one(d, 0, time.Minute)
		}
		d.jobs(w, d.quiet)
	}
}

func (d *day) accidents() {
	for range d.rng.IntN(4) {
		d.after(d.sometime(), func() { d.fails(d.some(false)) })
	}
	for range d.rng.IntN(6) {
		d.after(d.sometime(), func() { d.reclaim(d.some(true)) })
	}
	for range d.rng.IntN(5) {
		what := d.deal()
		at := d.sometime()
		d.after(at, func() { d.SoldOut(what, true) })
		d.after(min(at+time.Duration(1+d.rng.IntN(120))*time.Minute, Quiet), func() { d.SoldOut(what, false) })
	}
	for range d.rng.IntN(4) {
		what, factor := d.deal(), 0.7+d.rng.Float64()*0.7
		d.after(d.sometime(), func() { d.Price(what, factor) })
	}
	for _, p := range d.Pools {
		if d.often(50) {
			d.after(d.sometime(), func() { d.Retemplate(p) })
		}
	}
	if d.often(20) {
		d.after(d.sometime(), func() {
			if m := d.some(false); m != nil {
				m.stays = true
			}
		})
	}
	for range d.rng.IntN(3) { // no capacity although the catalog offers it
		what := d.deal()
		d.after(d.sometime(), func() { d.market.failing[what] = true })
		d.after(Quiet, func() { delete(d.market.failing, what) })
	}
}

func (d *day) deal() deal {
	return deal{sizes[d.rng.IntN(len(sizes))].name, one(d, zones...), one(d, offering.OnDemand, offering.Spot)}
}
