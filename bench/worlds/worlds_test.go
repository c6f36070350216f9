// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"flag"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/schedule"
)

var (
	count = flag.Uint64("worlds", 500, "how many random worlds to judge")
	show  = flag.Int("show", 3, "of how many failures to print the smallest world")
	first = flag.Uint64("seed", 1, "seed of the first one")
)

// found are the seeds of worlds of Plain that once failed, by what was wrong.
var found = map[string][]uint64{
	"a spread counts only nodes with the labels of all hard spreads":     {14510, 18938},
	"a launch whose label the pod's own affinity excludes opens nothing": {5374},
	"the first of its kind joins pods that any of its terms finds":       {7828, 17562},
	"an empty domain that no placed pod minds may be opened":             {677, 3651, 13208, 19301},
	"a domain that pods cannot use is not opened for its own sake":       {1882},
	"the first of its kind does not outrun pods that must be spread":     {214677},
	"a larger node where no other may be launched":                       {9628, 106638, 107239},
	"pods that wait for each other have no place":                        {27220, 36397, 101034, 101881},
	"spread pods that must follow one that blocks them":                  {301821, 304717},
	"order of binding along a chain of spreads":                          {314262},
	"pods that join one whose spread counts them":                        {514626},
	"hostname spread over nodes that this plan fills":                    {897, 3150, 7812, 10543, 25326},
}

// foundWithExtras are such seeds of Random.
var foundWithExtras = map[string][]uint64{
	"a spread of pods without a place narrows no launch":         {276, 290},
	"no pod is expected beside pods that exist nowhere":          {2017},
	"pods join a launch that then lists fewer values":            {4165},
	"a pod whose node is gone uses no ReadWriteOncePod claim":    {401761, 408720, 409103},
	"a chunk of a buffer opens no domain to a pod's cost":        {409742, 1002142},
	"a pod that must be spread follows no terminating pod":       {901641, 1008528},
	"a launch may become what a hostname spread looks at":        {903955, 3517108},
	"a launch that keeps a planned pod off its node":             {1404408, 1504327},
	"a plan that can be bound in few orders":                     {814561, 1506200, 3039981, 4611786},
	"a larger launch in a domain that may be empty":              {1101534},
	"what a cell takes is not forgotten":                         {1111249},
	"pods that are bound after those whose spread they are of":   {3215430},
	"a spread over nodes keeps no pod off that does not ask it":  {3407698},
	"spread pods may be bound before those beside them":          {1115893},
	"launches open no domain that spreads do not count":          {1119284},
	"a launch that may be in several domains counts in each":     {1207799, 1304509},
	"buffers spread over the domains that buffers open":          {2007825},
	"a pod that follows into no known domain holds none back":    {2009031},
	"pods spread over the nodes there are come before buffers":   {2103425},
	"a label of the pool alone opens no domain either":           {2107991},
	"a cell takes no more when a group is assigned again":        {2318221, 2411405, 2512708},
	"minValues without nodes that keep a planned pod off":        {2406537},
	"a launch becomes what has room for a buffer":                {2207904},
	"an empty domain minds only pods in domains too full":        {2510386, 7300938},
	"a domain that anti-affinity closes counts once it has pods": {2703185},
	"pods spread over nodes close only pools that they count":    {2602574, 2957224, 7700529},
	"a pod without the label is none to join in a domain":        {2513254},
	"a launch may be in a domain that spreads leave empty":       {2305013},
	"an open label may be chosen within a spread or outside":     {2215241, 7802400, 3108577},
	"spread pods wait for none in a domain closed to them":       {2214049},
	"limits that fewer values do not need are for pods left out": {3122691, 3128555},
	"quota that a launch gives back is for pods left out":        {2607207},
	"the first of its kind on a node beside pods to be spread":   {3007301},
	"minValues within each of several node affinity terms":       {2707967, 2941940, 3018080, 9402889},
	"a launch that becomes larger with fewer values":             {2803570, 9603710},
	"a first offering takes quota that minValues need":           {3124564},
	"a node that spreads over the hostname need not look at":     {3031937},
	"a launch outrun by pods that nodes take before it":          {3123288},
	"a launch that becomes larger in another domain":             {9600999},
	"spread pods have room where their nodes become larger":      {3232276},
	"a spread that counts no pod holds its pods back from none":  {9101159},
	"a launch may leave a domain empty or become another":        {9101062},
	"pods follow one that may be in several other domains":       {9505330, 3200089},
	"offerings outside a hostname spread are for buffers":        {3108611},
	"a pod that would keep one spread over nodes off its node":   {4108584},
	"a merged node attaches the volumes of the pods of both":     {7711573},
}

// TestFoundWorlds: what was found once stays mended.
func TestFoundWorlds(t *testing.T) {
	for what, seeds := range found {
		for _, seed := range seeds {
			if v := Judge(Plain(seed), seed); !v.OK() {
				t.Errorf("%s: seed %d: %s", what, seed, v)
			}
		}
	}
	for what, seeds := range foundWithExtras {
		for _, seed := range seeds {
			if v := Judge(Random(seed), seed); !v.OK() {
				t.Errorf("%s: seed %d of Random: %s", what, seed, v)
			}
		}
	}
}

// cheaper are worlds of Shared with whole prices for which a plan of Karpenter's once cost less, by what was
// missing, and what its launches cost.
var cheaper = map[string]map[uint64]float64{
	"nodes that NodePools of lower weight launch anyway are filled": {954: 0.6400, 1937: 0.3297},
	"pods choose their domains after nodes are launched for others": {493: 1.0137, 505: 0.3070, 625: 1.5460, 1604: 0.1513},
	"two nodes divide their pods anew":                              {387: 0.5417},
	"anti-affinity to nobody settles no domain":                     {658: 0.1943},
}

// TestNoDearer: karve's launches for these worlds cost no more than Karpenter's did.
func TestNoDearer(t *testing.T) {
	for what, seeds := range cheaper {
		for seed, usd := range seeds {
			plan := Shared(seed).WithWholePrices(seed).Plan()
			if price := (plan.Price() - plan.Preferences.Cost).USD(); price > usd+0.0001 {
				t.Errorf("%s: seed %d costs $%.4f/h, and Karpenter's plan $%.4f/h", what, seed, price, usd)
			}
		}
	}
}

// TestPending: pods whose nodes are not launched stay pending, and most that a plan has a place for are
// bound as the nodes arrive.
func TestPending(t *testing.T) {
	planned, bound, missed := 0, 0, 0
	for seed := uint64(1); seed <= 60; seed++ {
		w := Random(seed)
		plan := w.Plan()
		pending := w.Pending(plan)
		without := plan
		without.Launches = nil
		for _, l := range plan.Launches {
			without.Unplaced = append(without.Unplaced, schedule.Unplaced{Pods: l.Pods})
			for _, p := range l.Pods {
				planned++
				if !pending[types.UID(p.UID)] {
					bound++
				}
			}
		}
		missed += max(0, len(w.Pending(without))-len(pending))
	}
	t.Logf("%d pods planned for launches, %d bound there or elsewhere, %d stay pending without the launches", planned, bound, missed)
	if bound < planned*3/4 || missed < bound/2 {
		t.Errorf("%d of %d pods with a launch are bound, %d stay pending without the launches", bound, planned, missed)
	}
}

// TestRandomWorlds: for random clusters of every scheduling feature, kube-scheduler carries out
// every plan, no pod is left out for which there is a node, and the order of events
// changes nothing.
func TestRandomWorlds(t *testing.T) {
	shown := 0
	kinds := map[string]int{}
	excused := map[string]int{}
	for seed := *first; seed < *first+*count; seed++ {
		w := Random(seed).WithWholePrices(seed)
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
