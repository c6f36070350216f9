// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"cmp"
	"math"
	"slices"
)

// patternSearch looks for the best pattern of one node type, by depth first over kinds and with
// bounds from fractional patterns.
type patternSearch struct {
	items  []item
	least  float64 // only patterns of more than this are of interest
	best   []int   // by item; nil while there is none
	count  []int
	orders [len(resourceMixes)][]int // of items, densest first, by mix
}

type item struct {
	kind       int
	most       int
	value      float64
	milli, mib float64
	weight     [len(resourceMixes)]float64 // of one pod, in parts of the node type
}

// resourceMixes are ways to make one resource of cores and memory: no filling has more than one
// node type of any of them.
var resourceMixes = [...]float64{1, 0.75, 0.5, 0.25, 0}

// bestPattern returns the best pattern of the node type, or nil when none is worth more than least.
func (f *floorSearch) bestPattern(v *nodeType, in zoneValues, least float64) (float64, []int) {
	s := patternSearch{least: least}
	milli, mib := float64(v.milli), float64(v.mib)
	for i, k := range f.kinds {
		it := item{kind: i, most: in.most[i], value: in.value[i], milli: float64(k.owner.Milli), mib: float64(k.owner.MiB)}
		if it.most == 0 || it.value <= 0 || it.milli > milli || it.mib > mib {
			continue
		}
		for m, share := range resourceMixes {
			it.weight[m] = share*it.milli/milli + (1-share)*it.mib/mib
		}
		s.items = append(s.items, it)
	}
	s.sort()
	s.count = make([]int, len(s.items))
	s.search(0, milli, mib, maxPods-1, 0, v)
	if s.best == nil {
		return 0, nil
	}
	count := make([]int, len(f.kinds))
	for i, n := range s.best {
		count[s.items[i].kind] = n
	}
	return s.least, count
}

// sort puts the densest items first, as such patterns prune the most.
func (s *patternSearch) sort() {
	denser := func(mix int) func(a, b item) int {
		return func(a, b item) int { return cmp.Compare(b.value/b.weight[mix], a.value/a.weight[mix]) }
	}
	slices.SortStableFunc(s.items, denser(len(resourceMixes)/2))
	for m := range resourceMixes {
		for i := range s.items {
			s.orders[m] = append(s.orders[m], i)
		}
		slices.SortStableFunc(s.orders[m], func(a, b int) int { return denser(m)(s.items[a], s.items[b]) })
	}
}

func (s *patternSearch) search(i int, milli, mib float64, pods int, value float64, v *nodeType) {
	if value > s.least {
		s.least, s.best = value, slices.Clone(s.count)
	}
	if i == len(s.items) || value+s.upperBound(i, milli, mib, v) <= s.least {
		return
	}
	it := &s.items[i]
	n := min(it.most, pods, wholePods(milli, it.milli), wholePods(mib, it.mib))
	for ; n >= 0; n-- {
		s.count[i] = n
		x := float64(n)
		s.search(i+1, milli-x*it.milli, mib-x*it.mib, pods-n, value+x*it.value, v)
	}
	s.count[i] = 0
}

func wholePods(room, each float64) int {
	if each == 0 {
		return math.MaxInt
	}
	return int(room / each)
}

// upperBound is the largest value of pods that fit into the free capacity, by the tightest mix.
func (s *patternSearch) upperBound(from int, milli, mib float64, v *nodeType) float64 {
	best := math.Inf(1)
	for m, share := range resourceMixes {
		room := share*milli/float64(v.milli) + (1-share)*mib/float64(v.mib)
		best = min(best, s.fractionalBound(from, m, room))
	}
	return best*(1+1e-12) + 1e-15
}

// fractionalBound fills the free capacity of a mix with fractions of pods.
func (s *patternSearch) fractionalBound(from, mix int, room float64) float64 {
	sum := 0.0
	for _, i := range s.orders[mix] {
		if i < from {
			continue
		}
		it := &s.items[i]
		all := it.weight[mix] * float64(it.most)
		if all > room {
			return sum + it.value*room/it.weight[mix]
		}
		sum, room = sum+it.value*float64(it.most), room-all
	}
	return sum
}
