// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"container/heap"
	"math"
	"slices"
)

// branchLimit distinguishes a branch: at most, or at least, so many nodes of some subset.
type branchLimit struct {
	nodeSubset
	n      int
	atMost bool
}

// nodeSubset is a subset of the nodes; the zero nodeSubset is all of them.
type nodeSubset struct {
	class, nodeType int // one more than the index; 0 for any
	zone            string
}

func (s nodeSubset) counts(f *floorSearch, nodeType int, zone string) bool {
	return (s.class == 0 || s.class == f.class[nodeType]+1) && (s.nodeType == 0 || s.nodeType == nodeType+1) && (s.zone == "" || s.zone == zone)
}

// maxBranches bounds how many branches are examined. The lowest bound of the branches that exist by
// then is a lower bound.
const maxBranches = 400

// solve returns the lowest bound of all branches, in dollars an hour, splitting the lowest
// until it reaches enough.
func (f *floorSearch) solve(enough float64) float64 {
	open := &branchHeap{f.newBranch(nil)}
	for range maxBranches / 2 {
		lowest := (*open)[0]
		if lowest.floor >= enough*(1-1e-7) || !lowest.fractional {
			break
		}
		heap.Pop(open)
		for _, most := range []bool{true, false} {
			l := branchLimit{lowest.by, int(math.Floor(lowest.count)), most}
			if !most {
				l.n++
			}
			next := f.newBranch(append(slices.Clone(lowest.limits), l))
			next.floor = max(next.floor, lowest.floor) // it is part of that
			heap.Push(open, next)
		}
	}
	return (*open)[0].floor
}

// branch is a part of all possibilities.
type branch struct {
	limits []branchLimit
	floor  float64
	// splits reports whether the best solution has a fraction of nodes of a subset.
	fractional bool
	by         nodeSubset
	count      float64
}

func (f *floorSearch) newBranch(limits []branchLimit) *branch {
	floor, shares := f.relax(limits)
	c := &branch{limits: limits, floor: floor}
	for _, level := range []func(pattern) nodeSubset{
		func(pattern) nodeSubset { return nodeSubset{} },
		func(x pattern) nodeSubset { return nodeSubset{class: f.class[x.nodeType] + 1} },
		func(x pattern) nodeSubset { return nodeSubset{nodeType: x.nodeType + 1} },
		func(x pattern) nodeSubset { return nodeSubset{nodeType: x.nodeType + 1, zone: x.zone} },
	} {
		if c.split(f, shares, level); c.fractional {
			break
		}
	}
	return c
}

// split finds the subset of nodes with the least whole number.
func (c *branch) split(f *floorSearch, shares map[int]float64, level func(pattern) nodeSubset) {
	counts := map[nodeSubset]float64{}
	var order []nodeSubset
	for j := range f.patterns {
		share, ok := shares[j]
		if !ok {
			continue
		}
		s := level(f.patterns[j])
		if _, seen := counts[s]; !seen {
			order = append(order, s)
		}
		counts[s] += share
	}
	best := 1e-4
	for _, s := range order {
		if off := math.Abs(counts[s] - math.Round(counts[s])); off > best {
			best, c.fractional, c.by, c.count = off, true, s, counts[s]
		}
	}
}

// branchHeap is a heap, lowest bound first.
type branchHeap []*branch

func (c branchHeap) Len() int           { return len(c) }
func (c branchHeap) Less(i, j int) bool { return c[i].floor < c[j].floor }
func (c branchHeap) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *branchHeap) Push(x any)        { *c = append(*c, x.(*branch)) }
func (c *branchHeap) Pop() any {
	old := *c
	last := old[len(old)-1]
	*c = old[:len(old)-1]
	return last
}
