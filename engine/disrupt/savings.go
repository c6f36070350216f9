// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
)

// savings decides whether sets of nodes save enough.
type savings struct {
	in     *Input
	totals map[string]PoolTotals
}

// required is what replacing the nodes must save.
func (s savings) required(set []*node) offering.Price {
	return RequiredSavings(partsOf(set), s.in.Settings)
}

// shortLived is the node whose pods may leave first, if a move of the nodes that saves that much would pay
// were all pods expected to stay; else nil.
func (s savings) shortLived(set []*node, saves offering.Price, launches int) *node {
	var first *node
	for _, n := range set {
		if n.shortStaySavings > 0 && (first == nil || n.ShortestStay < first.ShortestStay) {
			first = n
		}
	}
	if first == nil {
		return nil
	}
	parts := partsOf(set)
	for i := range parts {
		parts[i].ShortStaySavings = 0
	}
	if !Pays(parts, saves, launches, s.in.Settings) {
		return nil
	}
	return first
}

// tooSmall says why a move of the nodes that saves that much does not pay.
func (s savings) tooSmall(set []*node, saves offering.Price, launches int) Kept {
	if n := s.shortLived(set, saves, launches); n != nil {
		return shortLivedPods(n, fmt.Sprintf("$%s/h", saves), saves)
	}
	return savingsTooSmall(set[0], saves, s.required(set))
}

// unaffordable says why no replacement of the nodes pays: they cost less than it must save.
func (s savings) unaffordable(set []*node, before offering.Price) Kept {
	if n := s.shortLived(set, before, 1); n != nil {
		return shortLivedPods(n, fmt.Sprintf("less than $%s/h", before), 0)
	}
	return savingsTooSmall(set[0], 0, s.required(set))
}

// pays reports whether a move of the nodes saves enough.
func (s savings) pays(set []*node, saves offering.Price, launches int) bool {
	return Pays(partsOf(set), saves, launches, s.in.Settings)
}

// scoreByPool scores a move of the nodes in their Balanced pools.
func (s savings) scoreByPool(set []*node, saves offering.Price) (scores map[string]float64, approved bool) {
	return ScoreByPool(partsOf(set), saves, s.totals)
}

// cannotReachThreshold reports whether no move of the node saves enough in its Balanced pool.
func (s savings) cannotReachThreshold(n *node) bool {
	return CannotReachThreshold(n.Node, n.pool, n.price, s.totals[n.Pool])
}

// spotToSpot says why the nodes cannot be replaced by spot nodes, as far as the nodes
// themselves decide it: a spot node is hardly ever replaced by nodes of another capacity type.
func (s savings) spotToSpot(set []*node) Kept {
	if s.in.Settings.SpotToSpot || !allSpot(set) {
		return Kept{}
	}
	return Kept{Because: SpotToSpot, Detail: "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"}
}

// priceOf is what the nodes cost together.
func priceOf(set []*node) offering.Price {
	var sum offering.Price
	for _, n := range set {
		sum = sum.Add(n.price)
	}
	return sum
}

// partsOf splits the nodes by pool.
func partsOf(set []*node) []Part {
	var out []Part
	for _, n := range set {
		i := slices.IndexFunc(out, func(p Part) bool { return p.Pool == n.pool })
		if i < 0 {
			i = len(out)
			out = append(out, Part{Pool: n.pool})
		}
		out[i].Nodes++
		out[i].Price = out[i].Price.Add(n.price)
		out[i].EvictionCost += n.EvictionCost
		out[i].ShortStaySavings = out[i].ShortStaySavings.Add(n.shortStaySavings)
	}
	slices.SortFunc(out, func(x, y Part) int { return cmp.Compare(x.Pool.Name, y.Pool.Name) })
	return out
}
