// SPDX-License-Identifier: Apache-2.0

// Command decisions prints the engine's decisions on recorded and seeded clusters, a
// line each: the cluster's name and a digest of the decision. Two trees that print the same
// decide the same, so a refactoring is checked by
//
//	go run ./hack/decisions > after.txt && diff before.txt after.txt
//
// The digest covers the launches, their prices and the order of their offerings, the nodes of
// pods, which pods are left out after how many offerings each filter removed, and which nodes are
// disrupted. It leaves texts aside: reason codes and messages may change. -show prints the
// decision on one cluster instead of its digest.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

func main() {
	seeds := flag.Uint64("seeds", 500, "how many seeded clusters of each kind")
	transcripts := flag.String("transcripts", "engine/schedule/testdata", "folder of recorded clusters")
	show := flag.String("show", "", "print the decision on the cluster of this name")
	flag.Parse()
	r := recorder{out: os.Stdout, show: *show}
	if err := r.recorded(*transcripts); err != nil {
		fmt.Fprintln(os.Stderr, "decisions:", err)
		os.Exit(1)
	}
	for seed := range *seeds {
		r.seeded(seed)
	}
}

// recorder prints decisions as digests, or one of them in full.
type recorder struct {
	out  io.Writer
	show string
}

// wants reports whether a decision on the cluster of that name has to be made.
func (r recorder) wants(name string) bool { return r.show == "" || r.show == name }

func (r recorder) write(name, decision string) {
	if r.show != "" {
		fmt.Fprint(r.out, decision)
		return
	}
	fmt.Fprintf(r.out, "%s %x\n", name, sha256.Sum256([]byte(decision)))
}

// recorded replays the transcripts in a folder and the folders below it.
func (r recorder) recorded(folder string) error {
	var files []string
	for _, pattern := range []string{"*.txt", "*/*.txt"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return fmt.Errorf("no transcripts in %s", folder)
	}
	for _, file := range files {
		inside, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		name := "transcript/" + strings.TrimSuffix(filepath.ToSlash(inside), ".txt")
		if !r.wants(name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		cluster, _, _ := strings.Cut(string(text), "----\n")
		script, err := enginetest.Parse(cluster)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		r.write(name, plan(schedule.Solve(script.Snapshot())))
	}
	return nil
}

// seeded decides on one cluster of each kind.
func (r recorder) seeded(seed uint64) {
	pods := 1 + int(seed%60)
	for _, kind := range []struct {
		name string
		draw func() *enginetest.Script
	}{
		{"plain", func() *enginetest.Script { return enginetest.Random(seed, pods) }},
		{"full", func() *enginetest.Script { return enginetest.RandomFull(seed, pods) }},
		{"small", func() *enginetest.Script { return enginetest.RandomSmall(seed, seed%2 == 0) }},
	} {
		if name := fmt.Sprintf("%s/%d", kind.name, seed); r.wants(name) {
			r.write(name, plan(schedule.Solve(kind.draw().Snapshot())))
		}
	}
	if name := fmt.Sprintf("disrupt/%d", seed); r.wants(name) {
		r.write(name, disruption(seed))
	}
}

// disruption returns the decision of a search on a cluster that runs pods.
func disruption(seed uint64) string {
	script := enginetest.WithoutPending(enginetest.Populated(seed, 25))
	fleet := disrupttest.Of(script)
	var pools []disrupt.Pool
	for _, p := range script.Pools {
		pools = append(pools, disrupt.Pool{Name: p.Name, Static: p.Static})
	}
	settings := disrupt.Settings{SpotToSpot: seed%2 == 0, Upstream: seed%5 == 0}
	found := disrupt.Search(fleet.Builder.Snapshot(), fleet.ForDisruption(disrupttest.Now(), pools, settings), disrupt.Cursor{})
	var w strings.Builder
	for _, m := range found.Moves {
		fmt.Fprintf(&w, "move %s %v: %d → %d, %d evictions\n", m.Cause, m.Nodes, m.PriceBefore, m.PriceAfter, m.Evictions)
		for _, home := range m.Nominations {
			fmt.Fprintf(&w, "  to %s: %s\n", home.Node, pods(home.Pods))
		}
		for _, l := range m.Launches {
			launch(&w, l)
		}
	}
	for _, l := range found.Kept {
		fmt.Fprintf(&w, "stays %s: %d\n", l.Key, l.WouldSave)
	}
	return w.String()
}

// plan is a plan without its words.
func plan(p schedule.Plan) string {
	var w strings.Builder
	for _, n := range p.Nominations {
		fmt.Fprintf(&w, "on %s: %s\n", n.Node, pods(n.Pods))
	}
	for _, l := range p.Launches {
		launch(&w, l)
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(&w, "unplaced %s\n", pods(u.Pods))
		for _, f := range u.Funnels {
			fmt.Fprintf(&w, "  %s: %d", f.Pool, f.Offerings)
			for _, c := range f.Cuts {
				fmt.Fprintf(&w, " −%d", c.Removed)
			}
			fmt.Fprintln(&w)
		}
	}
	fmt.Fprintf(&w, "preferences %d of %d for %d; at least %d\n", p.Preferences.Honoured, p.Preferences.Asked, p.Preferences.Cost, p.LowerBound)
	return w.String()
}

func launch(w io.Writer, l schedule.Launch) {
	fmt.Fprintf(w, "launch in %s for %s: %v\n", l.Pool, pods(l.Pods), offerings(l.Offerings))
	for _, r := range l.RunnersUp {
		fmt.Fprintf(w, "  next %s %s %s in %s: %d\n", r.Type, r.Zone, r.CapacityType, r.Pool, r.More)
	}
}

// offerings writes the offerings in order. Extras are written only where there are any, so that
// decisions compare with those of trees that knew none.
func offerings(refs []offering.Ref) []string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = fmt.Sprintf("{%s %s %s %s %t}", r.Type, r.Zone, r.CapacityType, r.Price, r.Fallback)
		if r.Extras != 0 {
			out[i] += fmt.Sprintf(" of it %s extras", r.Extras)
		}
	}
	return out
}

func pods(refs []cluster.PodRef) string {
	var names []string
	for _, r := range refs {
		names = append(names, r.Namespace+"/"+r.Name)
	}
	return strings.Join(names, " ")
}
