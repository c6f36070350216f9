// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// planForOwed plans with pods in mind that controllers have yet to create: pods of one controller arrive
// over many seconds, and each batch has a part of them. It plans for the pods to come as if they were
// there, and then for those that are there, with nodes no smaller than that plan has for pods like them.
// It returns plan, which has no such pods in mind, where it launches nothing for pods of which more are
// owed, and where the other plan leaves out a pod that plan places.
func (ps *preferenceSearch) planForOwed(plan Plan) Plan {
	launches := launchesForOwed(ps.snapshot, plan)
	if len(launches) == 0 {
		return plan
	}
	sizes, cut := ps.sizesForOwed()
	plan.CutShort = joinCuts(plan.CutShort, cut)
	if len(sizes.least) == 0 {
		return plan
	}
	again := newPreferenceSearch(ps.snapshot)
	again.options.budgets = ps.options.budgets
	again.options.tooSmall = sizes.tooSmall(ps.snapshot.PoolCatalogs)
	if !someTooSmall(launches, again.options.tooSmall) {
		return plan
	}
	larger := again.solve()
	cut = joinCuts(plan.CutShort, larger.CutShort)
	if leftOutOf(plan).containsAll(leftOutOf(larger)) {
		plan = larger
	}
	plan.CutShort = cut
	return plan
}

// launchesForOwed lists the plan's launches for pods of which more are owed.
func launchesForOwed(snapshot *cluster.Snapshot, plan Plan) []Launch {
	owed := podSet{}
	for _, c := range snapshot.Classes {
		if c.Owed > 0 {
			owed.add(c.PodsToPlace)
		}
	}
	var out []Launch
	for _, l := range plan.Launches {
		if len(owed) > 0 && slices.ContainsFunc(l.Pods, func(p cluster.PodRef) bool { return owed[p] }) {
			out = append(out, l)
		}
	}
	return out
}

// someTooSmall reports whether the first offering of some of the launches is too small.
func someTooSmall(launches []Launch, tooSmall map[*cluster.PoolCatalog]bitset.Set) bool {
	small := map[string]map[offering.Ref]bool{} // by NodePool
	for m, rows := range tooSmall {
		refs := map[offering.Ref]bool{}
		for row := range rows.All() {
			refs[m.Catalog.Ref(row)] = true
		}
		small[m.Pool.Name] = refs
	}
	return slices.ContainsFunc(launches, func(l Launch) bool { return small[l.Pool][l.Offerings[0]] })
}

// nodeSizes are what nodes must have at least: about as much as one of them of each of the resources.
type nodeSizes struct {
	least []quantity.Vector
	dims  []quantity.Dim
}

// tooSmall returns the offerings of each pool that are smaller than all of the sizes. Pools with minValues
// have none: they need the choice.
func (ns *nodeSizes) tooSmall(pools []*cluster.PoolCatalog) map[*cluster.PoolCatalog]bitset.Set {
	out := map[*cluster.PoolCatalog]bitset.Set{}
	for _, m := range pools {
		if len(m.MinValues) > 0 {
			continue
		}
		var rows bitset.Set
		for row := range m.Catalog.Offerings {
			if !slices.ContainsFunc(ns.least, func(size quantity.Vector) bool { return ns.covers(&m.Allocatable[row], &size) }) {
				rows.Put(row)
			}
		}
		out[m] = rows
	}
	return out
}

// covers reports whether a node has the size, or little less: types of one size differ in what the system
// reserves, and pools in their DaemonSets.
func (ns *nodeSizes) covers(has, size *quantity.Vector) bool {
	return !slices.ContainsFunc(ns.dims, func(d quantity.Dim) bool { return has[d] < size[d]-size[d]/32 })
}

// tailPermille is the part of a plan's price, in thousandths, that nodes for the last pods may cost: they
// say nothing about the sizes that are best for many pods.
const tailPermille = 100

// sizesForOwed plans for the pods that are owed and for those of their classes that are there. It returns
// the sizes of the nodes that this launches, without those for the last pods; none where no pod is owed.
// It also returns which of its searches were cut short.
func (ps *preferenceSearch) sizesForOwed() (out nodeSizes, cut []CutShort) {
	with, restore := ps.snapshot.WithOwed()
	if with == nil {
		return nodeSizes{}, nil
	}
	defer restore()
	all := withoutPreferences(with)
	all.options.budgets = ps.options.budgets
	s := all.makeAttempt(nil, noMaxPrice)
	price := s.finalPrice()
	for _, c := range with.Classes {
		for _, d := range c.Dims {
			if !slices.Contains(out.dims, d) {
				out.dims = append(out.dims, d)
			}
		}
	}
	byPrice := slices.SortedStableFunc(slices.Values(s.launches.all), func(a, b *launch) int {
		return cmp.Compare(b.firstOffering().Price, a.firstOffering().Price)
	})
	hosted := map[*cluster.PodClass]bool{}
	var sum offering.Price
	for _, l := range byPrice {
		isTail := sum >= price-price/1000*tailPermille && !slices.ContainsFunc(l.groups, func(g *podGroup) bool { return !hosted[g.class] })
		sum += l.firstOffering().Price
		if isTail {
			continue
		}
		for _, g := range l.groups {
			hosted[g.class] = true
		}
		if size := l.pool.Allocatable[l.first]; !slices.Contains(out.least, size) {
			out.least = append(out.least, size)
		}
	}
	return out, s.searches.list()
}

// podSet is a set of pods.
type podSet map[cluster.PodRef]bool

func (s podSet) add(pods []cluster.PodRef) {
	for _, p := range pods {
		s[p] = true
	}
}

func (s podSet) containsAll(o podSet) bool {
	for p := range o {
		if !s[p] {
			return false
		}
	}
	return true
}

// leftOutOf is the pods to which the plan gives no place.
func leftOutOf(plan Plan) podSet {
	out := podSet{}
	for _, u := range plan.Unplaced {
		out.add(u.Pods)
	}
	return out
}
