// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"container/heap"
	"math"
	"slices"
)

// limit distinguishes a case: at most, or at least, so many nodes of some variety.
type limit struct {
	variety
	n    int
	most bool
}

// variety is a subset of the nodes; the zero variety is all.
type variety struct {
	class, vessel int // one more than the index; 0 for any
	zone          string
}

func (s variety) counts(f *floorer, vessel int, zone string) bool {
	return (s.class == 0 || s.class == f.class[vessel]+1) && (s.vessel == 0 || s.vessel == vessel+1) && (s.zone == "" || s.zone == zone)
}

// maxCases bounds how many cases are examined. The lowest bound of the cases that exist by
// then is a lower bound.
const maxCases = 400

// solve returns the lowest bound of all cases, in dollars an hour, splitting the lowest
// until it reaches enough.
func (f *floorer) solve(enough float64) float64 {
	open := &cases{f.newCase(nil)}
	for range maxCases / 2 {
		lowest := (*open)[0]
		if lowest.floor >= enough*(1-1e-7) || !lowest.splits {
			break
		}
		heap.Pop(open)
		for _, most := range []bool{true, false} {
			l := limit{lowest.by, int(math.Floor(lowest.count)), most}
			if !most {
				l.n++
			}
			next := f.newCase(append(slices.Clone(lowest.limits), l))
			next.floor = max(next.floor, lowest.floor) // it is part of that
			heap.Push(open, next)
		}
	}
	return (*open)[0].floor
}

// aCase is a part of all possibilities.
type aCase struct {
	limits []limit
	floor  float64
	// splits reports whether the best mixture has a fraction of nodes of a variety.
	splits bool
	by     variety
	count  float64
}

func (f *floorer) newCase(limits []limit) *aCase {
	floor, shares := f.relax(limits)
	c := &aCase{limits: limits, floor: floor}
	for _, level := range []func(filling) variety{
		func(filling) variety { return variety{} },
		func(x filling) variety { return variety{class: f.class[x.vessel] + 1} },
		func(x filling) variety { return variety{vessel: x.vessel + 1} },
		func(x filling) variety { return variety{vessel: x.vessel + 1, zone: x.zone} },
	} {
		if c.split(f, shares, level); c.splits {
			break
		}
	}
	return c
}

// split finds the variety of nodes with the least whole number.
func (c *aCase) split(f *floorer, shares map[int]float64, level func(filling) variety) {
	counts := map[variety]float64{}
	var order []variety
	for j := range f.known {
		share, ok := shares[j]
		if !ok {
			continue
		}
		s := level(f.known[j])
		if _, seen := counts[s]; !seen {
			order = append(order, s)
		}
		counts[s] += share
	}
	best := 1e-4
	for _, s := range order {
		if off := math.Abs(counts[s] - math.Round(counts[s])); off > best {
			best, c.splits, c.by, c.count = off, true, s, counts[s]
		}
	}
}

// cases is a heap, lowest bound first.
type cases []*aCase

func (c cases) Len() int           { return len(c) }
func (c cases) Less(i, j int) bool { return c[i].floor < c[j].floor }
func (c cases) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *cases) Push(x any)        { *c = append(*c, x.(*aCase)) }
func (c *cases) Pop() any {
	old := *c
	last := old[len(old)-1]
	*c = old[:len(old)-1]
	return last
}
