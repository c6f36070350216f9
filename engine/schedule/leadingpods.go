// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// leadingPods are the first shape groups of a candidate's, as far as nothing but capacity keeps
// their pods off a node. Where no shape group has so many pods that fill gives each node a share of
// them, fill puts all of their pods on the node, in order, until those of one group do not fit. So
// what it gets there is known without filling the node, and only the capacity that is left then may
// be used better or worse. Where pods are all different, this is most of the work of a filling.
type leadingPods struct {
	known bool
	// end is the index in launcher.shapeGroups of the first shape group that may be kept off
	// otherwise.
	end  int
	keys []*constraint.Key // labels that the requirements before it look at
	most quantity.Vector   // no candidate of the group has more room
	dims []quantity.Dim    // what they ask for
	// sums is what the first i of them with pods left ask for together, as far as it may fit, as of so
	// many of shapesLeft.placed.
	sums     []quantity.Vector
	worths   []float64 // of sums
	ends     []int     // the index in launcher.shapeGroups after each of these
	summedAt int
}

// fewLeading is how many shape groups a node is filled with as fast as its worth is bounded.
const fewLeading = 32

// findLeading finds the leading pods of the group, which some of the candidates share. None is known of
// few.
func (g *candidateGroup) findLeading(candidates []*candidate) leadingPods {
	out := leadingPods{known: true, summedAt: -1}
	n := 0
	keys := keySet{}
	var asked bitset.Set
	for ; n < len(g.shapeGroups) && g.shapeGroups[n].needsOnlyCapacity(); n++ {
		sg := g.shapeGroups[n]
		out.end = sg.at + 1
		sg.addKeys(keys)
		for _, d := range sg.shape.Dims {
			asked.Put(int(d))
		}
	}
	if n < fewLeading {
		return leadingPods{known: true}
	}
	out.keys = slices.Collect(maps.Keys(keys))
	for d := range asked.All() {
		out.dims = append(out.dims, quantity.Dim(d))
	}
	for _, cand := range candidates {
		if cand.group == g {
			out.most = maxOf(out.most, &cand.room)
		}
	}
	return out
}

// needsOnlyCapacity reports whether no pods keep those of the shape group off a node, and there is
// but one way to meet their requirements.
func (sg *shapeGroup) needsOnlyCapacity() bool {
	return len(sg.shape.Alternatives) == 1 &&
		!slices.ContainsFunc(sg.allotments, func(a *allotment) bool { return a.group.nodeRules.restricted() })
}

// sum sums up what is left to place.
func (lp *leadingPods) sum(lr *launcher, suits bitset.Set) {
	if lp.summedAt == len(lr.shapesLeft.placed) {
		return
	}
	lp.summedAt = len(lr.shapesLeft.placed)
	var sum quantity.Vector
	lp.sums, lp.worths, lp.ends = append(lp.sums[:0], sum), append(lp.worths[:0], 0), append(lp.ends[:0], 0)
	left := &lr.shapesLeft
	for i := left.withPods(0, lp.end, suits, 1); i >= 0 && lp.most.Holds(&sum); i = left.withPods(i+1, lp.end, suits, 1) {
		sg := lr.shapeGroups[i]
		for _, d := range sg.shape.Dims {
			sum[d] = quantity.Sum(sum[d], sg.shape.Requests[d], sg.left)
		}
		lp.sums, lp.worths, lp.ends = append(lp.sums, sum), append(lp.worths, lr.prices.Units.Worth(&sum)), append(lp.ends, i+1)
	}
}

// fit reports whether the first n of them with pods left fit into the room.
func (lp *leadingPods) fit(n int, room *quantity.Vector) bool {
	sum := &lp.sums[n]
	for _, d := range lp.dims {
		if n := sum[d]; n > 0 && n > room[d] {
			return false
		}
	}
	return true
}

// countLeading counts the shape groups of which fill puts all pods on a node of the candidate before it
// looks at others. It reports false where nothing is known of leading pods. Where shares are carried, fill
// has some of the others first: nodes are then compared by what they would hold without that, which costs up
// to 1 % of the price, but counting each share would make pods that all differ ten times slower to place.
func (lr *launcher) countLeading(cand *candidate) (int, bool) {
	g := cand.group
	lp := &g.leading
	if !lp.known {
		*lp = g.findLeading(lr.candidates)
	}
	if lp.end == 0 || cand.pool.hasMinValues() || lr.demand.spreadsOverNodes(g) || !cand.decides(lp.keys) {
		return 0, false
	}
	if lr.shapesLeft.withPods(0, len(lr.shapeGroups), g.suits, leastShared(lr.shareOf(cand))) >= 0 {
		return 0, false
	}
	lp.sum(lr, g.suits)
	return sort.Search(len(lp.sums)-1, func(i int) bool { return !lp.fit(i+1, &cand.room) }), true
}

// boundByLeading raises the candidate's minPricePerWorth by what is known of leading pods, and returns
// it. That takes longer than the rest of the bound, and is only of use for a candidate that may be the best.
func (lr *launcher) boundByLeading(cand *candidate) float64 {
	if cand.boundedByLeading {
		return cand.minPricePerWorth
	}
	cand.boundedByLeading = true
	if n, known := lr.countLeading(cand); known {
		g, lp := cand.group, &cand.group.leading
		rest := cand.room
		for _, d := range lp.dims {
			rest[d] -= lp.sums[n][d]
		}
		worth := min(cand.roomWorth, (lp.worths[n]+g.bound.of(&rest))*(1+roundingSlack))
		cand.setMinPricePerWorth(worth + lr.worthOfNode(cand))
	}
	return cand.minPricePerWorth
}

// maxOf is the larger of both of each resource.
func maxOf(a quantity.Vector, b *quantity.Vector) quantity.Vector {
	for d, n := range b {
		a[d] = max(a[d], n)
	}
	return a
}
