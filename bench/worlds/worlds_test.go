// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"flag"
	"testing"
)

var (
	count = flag.Uint64("worlds", 500, "how many random worlds to judge")
	show  = flag.Int("show", 3, "of how many failures to print the smallest world")
	first = flag.Uint64("seed", 1, "seed of the first one")
)

// TestRandomWorlds: for random clusters of every scheduling feature, kube-scheduler carries out
// every plan, no pod is left out for which there is a node, and the order of events
// changes nothing.
func TestRandomWorlds(t *testing.T) {
	shown := 0
	kinds := map[string]int{}
	excused := map[string]int{}
	for seed := *first; seed < *first+*count; seed++ {
		w := Random(seed)
		v := Judge(w, seed)
		for rule, n := range v.Excused {
			excused[rule] += n
		}
		if v.OK() {
			continue
		}
		kinds[v.Kind()]++
		t.Errorf("seed %d: %s", seed, v)
		if shown++; shown <= *show {
			t.Log(Smallest(w, seed))
		}
	}
	t.Log("excused:", excused)
	t.Log("failures:", kinds)
}
