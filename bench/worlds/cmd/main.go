// SPDX-License-Identifier: Apache-2.0

// Command cmd judges random worlds and counts what is wrong.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/karve-dev/karve/bench/worlds"
)

func main() {
	var (
		first = flag.Uint64("seed", 1, "seed of the first world")
		count = flag.Uint64("worlds", 20000, "how many worlds to judge")
		show  = flag.Int("show", 1, "of how many failures of each kind to print the smallest world")
	)
	flag.Parse()
	if run(*first, *count, *show) > 0 {
		os.Exit(1)
	}
}

// run judges the worlds, prints a summary, and returns how many failed.
func run(first, count uint64, show int) (failed int) {
	var refused, leftOut, order int
	kinds, excused := map[string]int{}, map[string]int{}
	var took time.Duration // without shrinking
	for seed := first; seed < first+count; seed++ {
		start := time.Now()
		w := worlds.Random(seed).WithWholePrices(seed)
		v := worlds.Judge(w, seed)
		took += time.Since(start)
		for rule, n := range v.Excused {
			excused[rule] += n
		}
		if v.OK() {
			continue
		}
		failed++
		kind := v.Kind()
		if len(v.Refused) > 0 {
			refused++
		}
		if len(v.LeftOut) > 0 {
			leftOut++
		}
		if v.Order != "" {
			order++
		}
		fmt.Printf("seed %d: %s", seed, v)
		if kinds[kind]++; kinds[kind] <= show {
			fmt.Println(worlds.Smallest(w, seed))
		}
	}
	fmt.Printf("%d worlds, %.0f per minute: %d refused, %d wrongly left out, %d depend on the order of events\n",
		count, float64(count)/took.Minutes(), refused, leftOut, order)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("  %s: %d\n", kind, kinds[kind])
	}
	for _, rule := range slices.Sorted(maps.Keys(excused)) {
		fmt.Printf("  left out by %s: %d\n", rule, excused[rule])
	}
	return failed
}
