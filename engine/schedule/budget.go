// SPDX-License-Identifier: Apache-2.0

package schedule

import "slices"

// Search names a search for a plan that a number of steps bounds: the same snapshot gives the same
// plan on any computer, and no snapshot keeps one busy for long.
type Search string

const (
	Rounds      Search = "rounds"      // rounds that learn from the round before; see learned
	Colocation  Search = "colocation"  // nodes for pods that must share one
	BindOrder   Search = "bind order"  // an order in which pods can be bound; see bindOrder
	Improvement Search = "improvement" // launches that the plan can do without; see improver
	Retry       Search = "retry"       // places for pods that were left out; see retrier
	Enlargement Search = "enlargement" // larger launches for pods that were left out
	// HostnameSpread looks for places of pods that a spread over the hostname left out; see
	// spreadOverNodes.
	HostnameSpread Search = "hostname spread"
	ClaimTurns     Search = "claim turns" // which pod gets a claim that is for one; see exclusiveClaims
	Orders         Search = "orders"      // further plans in which pods that were left out come first; see placeLeftOutFirst
	Policies       Search = "policies"    // further plans by other policies; see tryPolicies
	Cells          Search = "cells"       // further plans with pods in other topology domains; see tryOtherCells
	Preferred      Search = "preferences" // which preferences are honoured; see preferenceSearch
)

// searchNames lists the searches in the order in which plans name them.
var searchNames = []Search{Rounds, Colocation, BindOrder, Improvement, Retry, Enlargement, HostnameSpread, ClaimTurns, Orders, Policies, Cells, Preferred}

// CutShort says that a search of a plan stopped because its steps were spent.
type CutShort struct {
	Search Search
	// Unexamined is how much it did not look at: for Improvement launches with free capacity, for
	// Policies policies, for Cells cells of pod classes, for Preferred preferences of pod classes, and for
	// the others pods.
	Unexamined int
}

// budgets are how many steps each search of a plan may take.
type budgets map[Search]int

// defaultBudgets are more than common clusters take.
func defaultBudgets() budgets {
	return budgets{
		Rounds:         64,
		ClaimTurns:     16,      // rounds
		Colocation:     1 << 20, // see colocation.spend
		BindOrder:      1 << 16, // see boundPods
		Improvement:    maxImproveSteps,
		Retry:          1 << 16, // see retrier
		Enlargement:    1 << 16, // a step for each launch and each offering that is tried
		HostnameSpread: 1 << 24, // a step for each node that is counted
		Orders:         4,       // plans
		Policies:       1 << 15, // see policySteps
		Cells:          1 << 13, // see policySteps
		Preferred:      8,       // plans made to find the best one
	}
}

// searches records which searches of a round were cut short.
type searches struct {
	budgets       budgets
	unexamined    map[Search]int
	improveSteps  int // that the improver took
	colocateSteps int // see colocation.spend
}

// cut records that a search did not look at n things; n may be zero.
func (x *searches) cut(of Search, n int) {
	if n <= 0 {
		return
	}
	if x.unexamined == nil {
		x.unexamined = map[Search]int{}
	}
	x.unexamined[of] += n
}

// inherit records what searches for another plan did not look at, which this one was preferred to.
func (x *searches) inherit(o *searches, of ...Search) {
	for _, name := range of {
		if x.unexamined[name] == 0 {
			x.cut(name, o.unexamined[name])
		}
	}
}

// list lists the searches that were cut short.
func (x *searches) list() []CutShort {
	var out []CutShort
	for _, name := range searchNames {
		if n := x.unexamined[name]; n > 0 {
			out = append(out, CutShort{name, n})
		}
	}
	return out
}

// Unexamined is how much a search did not look at because its steps were spent.
func (p *Plan) Unexamined(of Search) int {
	i := slices.IndexFunc(p.CutShort, func(c CutShort) bool { return c.Search == of })
	if i < 0 {
		return 0
	}
	return p.CutShort[i].Unexamined
}

// joinCuts lists the searches that were cut short in either list, with the larger number of each.
func joinCuts(a, b []CutShort) []CutShort {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	var both searches
	for _, list := range [][]CutShort{a, b} {
		for _, c := range list {
			both.cut(c.Search, max(0, c.Unexamined-both.unexamined[c.Search]))
		}
	}
	return both.list()
}
