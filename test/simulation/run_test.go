// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	first = flag.Uint64("seed", 0, "the first seed")
	seeds = flag.Int("seeds", 4, "how many seeds")
	story = flag.String("story", "", "file to write what happens to")
)

// Nothing is lost and nothing is left, whatever happens and whatever goes wrong meanwhile.
func TestSeeds(t *testing.T) {
	authority()
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			begun := time.Now()
			var r Result
			synctest.Test(t, func(t *testing.T) {
				o := Options{Seed: seed}
				if *story != "" {
					f, err := os.Create(*story)
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					o.Trace = func(l string) { fmt.Fprintln(f, l) }
					o.Log = testLog()
				}
				r = Run(t, o)
			})
			t.Logf("%d nodeclaims, %d nodes, %d steps, %v", r.NodeClaims, r.Nodes, len(r.Steps), time.Since(begun).Round(time.Millisecond))
			if len(r.Problems) > 0 {
				t.Errorf("seed %d:\n%s\n%s", seed, strings.Join(r.Steps, "\n"), strings.Join(r.Problems, "\n"))
			}
		})
	}
}
