// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// MostSteps bounds what improve does for one plan.
const MostSteps = maxImproveSteps

// SolveWithin is Solve without preferences, with that many steps for improve. It also returns
// how many steps improve took.
func SolveWithin(snapshot *cluster.Snapshot, steps int) (Plan, int) {
	ps := newPreferenceSearch(snapshot)
	ps.options.budgets[Improvement] = steps
	s := ps.makeAttempt(nil, noMaxPrice)
	return s.plan(), s.searches.improveSteps
}

// Searches lists the searches that steps bound.
func Searches() []Search { return searchNames }

// SolveWithBudget is Solve with another budget for one search.
func SolveWithBudget(snapshot *cluster.Snapshot, of Search, steps int) Plan {
	ps := newPreferenceSearch(snapshot)
	ps.options.budgets[of] = steps
	return ps.decide()
}

// SolveByZeroPolicy is Solve by the zero policy, with no other cells than it chooses.
func SolveByZeroPolicy(snapshot *cluster.Snapshot) Plan {
	ps := newPreferenceSearch(snapshot)
	ps.options.budgets[Policies], ps.options.budgets[Cells] = 0, 0
	return ps.decide()
}

// PaysForPreferences reports whether the plan costs more for preferences, and whether that is in vain: no
// more of them hold than in the plan that knows none.
func PaysForPreferences(snapshot *cluster.Snapshot) (pays, inVain bool) {
	ps := newPreferenceSearch(snapshot)
	plan := ps.solve()
	if plan.Preferences.Cost == 0 {
		return false, false
	}
	_, honoured := ps.summarize(ps.best, &plan)
	plain := newPreferenceSearch(snapshot)
	_, byChance := plain.summarized(plain.makeAttempt(nil, noMaxPrice), 0)
	return true, !honoursMore(honoured, byChance)
}

// PolicyPrices is what a plan costs by the zero policy, by the best policy of the portfolio, and by the
// best of all combinations of five switches, in USD/h. Plans that place fewer pods than the one by the zero policy
// do not count.
func PolicyPrices(snapshot *cluster.Snapshot) (zero, best, bestOfAll float64) {
	ps := withoutPreferences(snapshot)
	first := ps.makePlan(directions{}, nil, noMaxPrice)
	zero = first.finalPrice().USD()
	best, bestOfAll = zero, zero
	for i := range 1 << 5 {
		p := policy{fewestNodes: i&1 > 0, anyPriority: i&2 > 0, cheapestDomains: i&4 > 0, smallestFirst: i&8 > 0, largestFirst: i&16 > 0}
		s := ps.makePlan(directions{policy: p}, nil, noMaxPrice)
		if first.placesMoreThan(s) {
			continue
		}
		price := s.finalPrice().USD()
		bestOfAll = min(bestOfAll, price)
		if slices.Contains(portfolio, p) {
			best = min(best, price)
		}
	}
	return zero, best, bestOfAll
}

// DividedPrices is what a plan costs by the zero policy and by policy.divideByShare, in USD/h.
func DividedPrices(snapshot *cluster.Snapshot) (zero, byShare float64) {
	ps := withoutPreferences(snapshot)
	share := directions{policy: policy{divideByShare: true}}
	return ps.makePlan(directions{}, nil, noMaxPrice).finalPrice().USD(), ps.makePlan(share, nil, noMaxPrice).finalPrice().USD()
}

// Packings is what ComparePackWithFill found: how many nodes were packed, how many of them with pods that
// are limited per node, and the first that fill filled otherwise.
type Packings struct {
	Packed, Limited int
	Difference      string
}

// ComparePackWithFill launches nodes for the pods of a snapshot one after the other, and both packs and
// fills every candidate that is countable.
func ComparePackWithFill(snapshot *cluster.Snapshot) Packings {
	var out Packings
	s := newSolverOf(snapshot)
	allotments, _ := s.assign(s.podGroups)
	for _, pools := range s.pools.byWeight() {
		lr := newLauncher(s, pools, allotments)
		lr.gatherCandidates()
		for range 8 {
			if lr.comparePackWithFill(&out); out.Difference != "" {
				return out
			}
			best := lr.best()
			if best == nil {
				break
			}
			lr.launchCopies(best)
		}
	}
	return out
}

func (lr *launcher) comparePackWithFill(out *Packings) {
	for _, cand := range lr.candidates {
		if !lr.isCountable(cand) {
			continue
		}
		lr.pack(cand)
		worth, used, counted := cand.worth, cand.used, map[*shapeGroup]int{}
		for i := range cand.group.suits.All() {
			if sg := lr.shapeGroups[i]; i < cand.packing.leading && sg.left > 0 {
				counted[sg] = sg.left
			}
		}
		for _, p := range cand.packing.pods {
			counted[p.shapeGroup] += p.n
		}
		lr.fillAsPacked(cand)
		if worth != cand.worth || used != cand.used {
			out.Difference = fmt.Sprintf("%s: packed %v worth %v, put there %v worth %v", cand.pool.Catalog.Ref(cand.row).Type, used, worth, cand.used, cand.worth)
			return
		}
		lr.fill(cand)
		put, limited := map[*shapeGroup]int{}, false
		for _, p := range cand.content {
			put[p.allotment.shapeGroup] += p.n
			limited = limited || p.allotment.group.nodeRules.limitsOwnPods()
		}
		out.Packed++
		if limited {
			out.Limited++
		}
		if worth != cand.worth || used != cand.used || !maps.Equal(counted, put) {
			out.Difference = fmt.Sprintf("%s: packed %v worth %v, filled %v worth %v", cand.pool.Catalog.Ref(cand.row).Type, used, worth, cand.used, cand.worth)
			return
		}
	}
}
