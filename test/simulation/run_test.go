// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/karve-dev/karve/test/kubeapi"
)

var (
	first  = flag.Uint64("seed", 0, "the first seed")
	seeds  = flag.Int("seeds", 4, "how many seeds")
	pairs  = flag.Int("pairs", 2, "how many pairs of faults")
	every  = flag.Int("every", 0, "one of Azure's faults of so many is tried alone, as the first seed says which; zero: none, for test/faults has them")
	kind   = flag.String("fault", "", "the fault that is tried alone")
	story  = flag.String("story", "", "file to write what happens to")
	shrink = flag.Bool("shrink", false, "leave out what is not needed for a run to fail")
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // worlds are small, and there is much garbage
	klog.SetLogger(logr.Discard())
	crlog.SetLogger(logr.Discard())
	authority()
	os.Exit(m.Run())
}

// Nothing is lost and nothing is left, whatever happens and whatever goes wrong meanwhile.
func TestSeeds(t *testing.T) {
	begun := time.Now()
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { try(t, Options{Seed: seed}) })
	}
	t.Logf("%.0f seeds an hour in this process", float64(*seeds)/time.Since(begun).Hours())
}

// Each fault alone does no harm.
func TestEveryFault(t *testing.T) {
	for i, k := range Faults() {
		if !wanted(i, k) {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			try(t, Options{Seed: *first + uint64(i), For: 20 * time.Minute, Actions: 6, Faults: -1, Kinds: []FaultKind{k}})
		})
	}
}

// wanted reports whether the flags ask for a fault.
func wanted(i int, k FaultKind) bool {
	switch {
	case *kind != "":
		return k.Name == *kind
	case k.Surface == "azure":
		return *every > 0 && uint64(i)%uint64(*every) == *first%uint64(*every)
	}
	return true
}

// Two faults together do none either.
func TestPairsOfFaults(t *testing.T) {
	kinds := Faults()
	for seed := *first; seed < *first+uint64(*pairs); seed++ {
		r := rand.New(rand.NewPCG(seed, 620))
		a, b := kinds[r.IntN(len(kinds))], kinds[r.IntN(len(kinds))]
		t.Run(fmt.Sprintf("seed %d: %s and %s", seed, a.Name, b.Name), func(t *testing.T) {
			try(t, Options{Seed: seed, For: 20 * time.Minute, Actions: 6, Faults: -1, Kinds: []FaultKind{a, b}})
		})
	}
}

// try has a run, and tells what came of it.
func try(t *testing.T, o Options) {
	t.Helper()
	begun := time.Now()
	r := inBubble(t, o, *story)
	t.Logf("%d nodeclaims, %d nodes, %d steps, %v", r.NodeClaims, r.Nodes, len(r.Steps), time.Since(begun).Round(time.Millisecond))
	if len(r.Problems) == 0 {
		return
	}
	if *shrink {
		o.Only = needed(t, o, len(r.Steps))
		t.Logf("of all steps, %v are needed", o.Only)
	}
	t.Errorf("seed %d:\n%s\n%s", o.Seed, strings.Join(r.Steps, "\n"), strings.Join(r.Problems[:min(20, len(r.Problems))], "\n"))
}

func inBubble(t *testing.T, o Options, story string) (r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if story != "" {
			f, err := os.Create(story)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			o.Trace = func(l string) { fmt.Fprintln(f, l) }
			o.Log = testLog(f)
		}
		r = Run(t, o)
	})
	return r
}

// needed are the steps without any of which the run does not fail.
func needed(t *testing.T, o Options, steps int) []int {
	t.Helper()
	o.Only = []int{}
	for i := range steps {
		o.Only = append(o.Only, i)
	}
	for i := len(o.Only) - 1; i >= 0; i-- {
		less := o
		less.Only = slices.Delete(slices.Clone(o.Only), i, i+1)
		if len(inBubble(t, less, "").Problems) > 0 {
			o.Only = less.Only
		}
	}
	return o.Only
}

// docs/faults.md has each fault that has its name here.
func TestPageOfFaults(t *testing.T) {
	page, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`test/simulation` ([A-Za-z, ]+) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, name := range strings.Split(m[1], ", ") {
			named[name] = true
		}
	}
	for _, k := range Faults() {
		if k.Surface == "api" || k.Surface == "azure" {
			continue // of kubeapi and of the emulator, but for those that combine them
		}
		if !named[k.Name] {
			t.Errorf("docs/faults.md has no fault %s", k.Name)
		}
		delete(named, k.Name)
	}
	for _, of := range []string{"TestSeeds", "TestEveryFault", "TestPairsOfFaults", "ServerRestarts", "ChangesForgotten", "Outage"} {
		delete(named, of)
	}
	for name := range named {
		t.Errorf("docs/faults.md names a fault %s, which does not exist", name)
	}
}

// No two faults share a name, and each belongs to a surface.
func TestFaultNames(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Faults() {
		if seen[k.Name] || !slices.Contains(surfaces, k.Surface) {
			t.Errorf("fault %s of surface %s", k.Name, k.Surface)
		}
		seen[k.Name] = true
	}
}

// A karve that is asked to end while it has not seen all objects yet ends: it does not wait for them,
// and gives up waiting for informers between two attempts after controller-runtime's 30 seconds.
//
// Rule STOP-1.
func TestEndsWhileItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.close()
		back := w.api.Inject(kubeapi.Fault{Name: kubeapi.Unreachable, Process: "karve", Resources: []string{"pods"}})
		defer back()
		p := w.startKarve("karve", usual)
		time.Sleep(30 * time.Second)
		select {
		case <-p.done:
			t.Fatalf("it has ended by itself: %v", p.err)
		default:
		}
		p.stop()
		select {
		case <-p.done:
		case <-time.After(35 * time.Second):
			t.Error("it has not ended after 35 seconds")
			back()
			<-p.done
		}
	})
}
