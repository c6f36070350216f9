// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/karve-dev/karve/test/evictions"
	"github.com/karve-dev/karve/test/faults"
	"github.com/karve-dev/karve/test/report"
	"github.com/karve-dev/karve/test/scarcity"
)

var (
	write = flag.String("write", "", "measure, which takes minutes, and write the figures to this file")
	vms   = flag.Int("vms", 1000, "of each run with faults")
	seed  = flag.Uint64("seed", 1, "of everything that is drawn")
)

// collection collects figures from drills that run side by side.
type collection struct {
	mu sync.Mutex
	report.Figures
	ups []float64 // seconds from 0 to 1,000 nodes, of every growth
}

func (g *collection) add(change func(*report.Figures)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.Figures)
}

func TestFigures(t *testing.T) {
	if *write == "" {
		t.Skip("it takes minutes: see -write; the drills have tests of their own")
	}
	g := &collection{}
	t.Run("drills", func(t *testing.T) { sideBySide(t, g.drills()) })
	if n := len(g.ups); n > 0 {
		slices.Sort(g.ups)
		g.SecondsTo1000Nodes = g.ups[n/2]
		t.Logf("0 to 1,000 nodes, in seconds: %.0f", g.ups)
	}
	t.Logf("seed %d\n%s", *seed, g.Table())
	if t.Failed() {
		t.Fatal("nothing is written, as not everything could be measured")
	}
	if err := g.Write(*write); err != nil {
		t.Error(err)
	}
}

// drill is one measurement. It runs in a bubble of virtual time.
type drill struct {
	name string
	run  func(*testing.T)
}

// drills are all drills, the longest first: nothing is left to run alone in the end.
func (g *collection) drills() []drill {
	all := []drill{g.evictions()}
	all = append(all, g.launches()...)
	all = append(all, g.growths()...)
	return append(all, g.faultRuns()...)
}

// sideBySide runs drills in their order, as many at a time as there are processors. Those of
// testing's own that are parallel run in no order.
func sideBySide(t *testing.T, all []drill) {
	next := make(chan drill)
	var lanes sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		lanes.Go(func() {
			for p := range next {
				t.Run(p.name, func(t *testing.T) { synctest.Test(t, p.run) })
			}
		})
	}
	for _, p := range all {
		next <- p
	}
	close(next)
	lanes.Wait()
}

func (g *collection) launches() []drill {
	first := func(name string, serve func(context.Context, scarcity.Scenario) (scarcity.Result, error), to func(*report.Figures) *float64) drill {
		return drill{name, func(t *testing.T) {
			r, err := serve(t.Context(), scarcity.Scenario{Seed: *seed})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
			g.add(func(f *report.Figures) { *to(f) = r.FirstAttemptSuccess() })
		}}
	}
	return []drill{
		first("scarcity", scarcity.Karve, func(f *report.Figures) *float64 { return &f.FirstAttemptSuccess }),
		first("scarcity, one offer at a time", scarcity.Incumbent, func(f *report.Figures) *float64 { return &f.BaselineFirstAttemptSuccess }),
	}
}

// growths are several, by seeds that follow one another: when the last of a thousand VMs is up
// depends on how long the slowest few take to boot, which is drawn, far more than on who launches
// them.
func (g *collection) growths() []drill {
	var all []drill
	for i := range uint64(growths) {
		all = append(all, drill{fmt.Sprint("growth ", i+1), func(t *testing.T) {
			r := runFaults(t, *seed+i, 1000, nil)
			n, deletes := float64(r.VMs), r.Ledger.ByOperation["VirtualMachines.Delete"]
			g.add(func(f *report.Figures) {
				f.ARMWritesPerNode = max(f.ARMWritesPerNode, float64(r.Ledger.Writes-deletes)/n)
				f.ARMReadsPerNode = max(f.ARMReadsPerNode, float64(r.Ledger.Reads)/n)
				f.ThrottledRequests += r.Ledger.Throttled
				g.ups = append(g.ups, r.Up.Seconds())
			})
		}})
	}
	return all
}

const growths = 9

func (g *collection) evictions() drill {
	return drill{"evictions", func(t *testing.T) {
		r := evictions.Run(t, evictions.Options{Seed: *seed})
		t.Log(r)
		g.add(func(f *report.Figures) { f.NoticeToReplacementP99Seconds = r.Quantile(0.99).Seconds() })
	}}
}

// faultRuns are one for each pair of the dozen, which are longer, and one for every fault, or
// several that are alike.
func (g *collection) faultRuns() []drill {
	var all []drill
	for _, pair := range faults.Pairs(faults.PairedFaults()) {
		all = append(all, g.faultRun(pair, func(f *report.Figures) { f.FaultPairsRun++ }))
	}
	for _, names := range faults.SingleFaults() {
		all = append(all, g.faultRun(names, func(f *report.Figures) { f.FaultsRun += len(names) }))
	}
	return all
}

func (g *collection) faultRun(names []string, count func(*report.Figures)) drill {
	return drill{strings.Join(names, " and "), func(t *testing.T) {
		r := runFaults(t, *seed, *vms, names)
		g.add(func(f *report.Figures) {
			f.Leaked, f.Duplicates, f.ForeignTouched = f.Leaked+len(r.Leaked), f.Duplicates+len(r.Duplicates), f.ForeignTouched+len(r.OthersChanged)
			count(f)
		})
	}}
}

// runFaults fails for what the figures do not tell: claims that never end.
func runFaults(t *testing.T, seed uint64, vms int, names []string) faults.Result {
	t.Helper()
	r, err := faults.Run(t.Context(), faults.Options{Seed: seed, VMs: vms, Faults: names})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	return r
}
