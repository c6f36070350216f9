// SPDX-License-Identifier: Apache-2.0

// Command cmd compares karve with upstream on random worlds and counts who does better.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/karve-dev/karve/bench/compare"
	"github.com/karve-dev/karve/bench/worlds"
)

func main() {
	var (
		first   = flag.Uint64("seed", 1, "seed of the first world")
		count   = flag.Uint64("worlds", 2000, "how many worlds to compare")
		dearer  = flag.Bool("dearer", false, "list also the worlds in which karve's launches cost more")
		smaller = flag.Int("show", 1, "of how many listed worlds of each kind to print the smallest world")
	)
	flag.Parse()
	if run(*first, *count, *dearer, *smaller) > 0 {
		os.Exit(1)
	}
}

// run compares the worlds, prints a summary, and returns in how many karve leaves more pods out.
func run(first, count uint64, dearer bool, smaller int) int {
	ctx := context.Background()
	kinds, why := map[compare.Kind]int{}, map[string]int{}
	partly := 0
	var ours, theirs sum
	for seed := first; seed < first+count; seed++ {
		w := worlds.Shared(seed).WithWholePrices(seed)
		r := compare.World(ctx, w)
		kind := r.Kind()
		kinds[kind]++
		if r.PlaceAsMany() {
			ours.add(r.Ours)
			theirs.add(r.Theirs)
		}
		if len(r.Theirs.Refused) > 0 {
			partly++
		}
		listed := []compare.Kind{compare.LeavesMore, compare.BindsAsMany, compare.OursRefused, compare.NoPlan}
		if !slices.Contains(listed, kind) && !(dearer && (kind == compare.CostsMore || kind == compare.PaysForMore)) {
			continue
		}
		what := fmt.Sprintf("%s: %s", kind, r.Why())
		fmt.Printf("seed %d: %s: %s\n", seed, r.Why(), r)
		if why[what]++; why[what] <= smaller {
			fmt.Println(compare.Smallest(ctx, w))
		}
	}
	fmt.Printf("%d worlds, the filters refuse part of upstream's plan in %d\n", count, partly)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("  %s: %d\n", kind, kinds[kind])
	}
	fmt.Printf("where both place as many pods: karve %s, upstream %s\n", ours, theirs)
	for _, what := range slices.Sorted(maps.Keys(why)) {
		fmt.Printf("    %s: %d\n", what, why[what])
	}
	return kinds[compare.LeavesMore]
}

// sum is what the launches of several plans cost together, and how many they are.
type sum struct {
	usd   float64
	nodes int
}

func (s *sum) add(side compare.Side) {
	s.usd, s.nodes = s.usd+side.Price.USD(), s.nodes+len(side.Plan.Launches)
}

func (s sum) String() string { return fmt.Sprintf("%d nodes for %.2f USD/h", s.nodes, s.usd) }
