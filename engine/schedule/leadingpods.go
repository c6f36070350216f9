// SPDX-License-Identifier: Apache-2.0

package schedule

import (
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
	// sums is what the first i of them with pods left ask for together, as far as it may fit, as of so
	// many of launcher.placed.
	sums     []quantity.Vector
	summedAt int
}

// fewLeading is how many shape groups a node is filled with as fast as its worth is bounded.
const fewLeading = 32

// leadingOf finds the leading pods of a candidate group. None is known of few.
func (lr *launcher) leadingOf(g *candidateGroup) leadingPods {
	out := leadingPods{known: true, summedAt: -1}
	n := 0
	keys := keySet{}
	for ; n < len(g.shapeGroups) && g.shapeGroups[n].needsOnlyCapacity(); n++ {
		sg := g.shapeGroups[n]
		out.end = sg.at + 1
		for _, q := range sg.shape.Alternatives[0] {
			keys[q.Key] = true
		}
		if sg.cell != nil {
			keys.add(sg.cell.Keys)
		}
	}
	if n < fewLeading {
		return leadingPods{known: true}
	}
	for k := range keys {
		out.keys = append(out.keys, k)
	}
	for _, cand := range lr.candidates {
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
	if lp.summedAt == len(lr.placed) {
		return
	}
	lp.summedAt = len(lr.placed)
	var sum quantity.Vector
	lp.sums = append(lp.sums[:0], sum)
	left := &lr.shapesLeft
	for i := left.withPods(0, lp.end, suits, 1); i >= 0 && lp.most.Holds(&sum); i = left.withPods(i+1, lp.end, suits, 1) {
		sg := lr.shapeGroups[i]
		for _, d := range sg.shape.Dims {
			sum[d] = quantity.Sum(sum[d], sg.shape.Requests[d], sg.left)
		}
		lp.sums = append(lp.sums, sum)
	}
}

// decidedBy reports whether the candidate's offering has one value of each label that the pods'
// requirements look at, so that they do not exclude each other there.
func (lp *leadingPods) decidedBy(cand *candidate) bool {
	return !slices.ContainsFunc(lp.keys, func(k *constraint.Key) bool {
		return !cand.pool.Catalog.HasLabel(k) || cand.pool.Catalog.Flexible(cand.row, k)
	})
}

// boundLeading is the most that a filling of the candidate can be worth by its leading pods; bound
// where nothing is known of them.
func (lr *launcher) boundLeading(cand *candidate, bound float64) float64 {
	g := cand.group
	lp := &g.leading
	if !lp.known {
		*lp = lr.leadingOf(g)
	}
	if lp.end == 0 || cand.pool.hasMinValues() || lr.demand.spreadsOverNodes(g) || !lp.decidedBy(cand) {
		return bound
	}
	if lr.shapesLeft.withPods(0, len(lr.shapeGroups), g.suits, leastShared(lr.shareOf(cand))) >= 0 {
		return bound
	}
	lp.sum(lr, g.suits)
	fitting := sort.Search(len(lp.sums)-1, func(i int) bool { return !cand.room.Holds(&lp.sums[i+1]) })
	used := &lp.sums[fitting]
	rest := cand.room.Sub(*used)
	return min(bound, (lr.prices.Units.Worth(used)+g.bound.of(&rest))*(1+roundingSlack))
}

// maxOf is the larger of both of each resource.
func maxOf(a quantity.Vector, b *quantity.Vector) quantity.Vector {
	for d, n := range b {
		a[d] = max(a[d], n)
	}
	return a
}
