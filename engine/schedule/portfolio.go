// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
)

// policy is how a plan chooses where several ways are right. None is the cheapest for all clusters.
// The zero policy serves well where there are many pods.
type policy struct {
	// fewestNodes leaves prices out: each node is the one that holds the most.
	fewestNodes bool
	// largestDomains sends a pod that may be in several topology domains to the one where the largest
	// node can be launched for pods like it. It looks at every offering for every pod group.
	largestDomains bool
	// anyPriority places pods of all priorities together: those of low priority fill the nodes of others.
	// Where limits do not suffice for all, they may take the place of those.
	anyPriority bool
	// cheapestDomains sends a pod that may be in several topology domains to the one with the cheapest
	// offering, as far as maxSkew allows it, and not to the one with the fewest pods.
	cheapestDomains bool
	// sharedDomains sends a pod that may be in several topology domains to one where a node is to be
	// launched anyway, as far as maxSkew allows it. Pods with the fewest domains choose first, domains and
	// existing nodes, and of these the pods of which a node would cost the most.
	sharedDomains bool
	// smallestFirst gives the choice of existing nodes and of domains to small pods first.
	smallestFirst bool
	// largestFirst fills a new node with the largest pods first, and not with a share of each size.
	largestFirst bool
	// divideByShare computes again what a new node should hold whenever a third of the pods were placed,
	// and not after a number of launches.
	divideByShare bool
	// groupByGroup launches nodes for one pod group before the next chooses its domains, the group with the
	// largest pods first: pods that may be in several topology domains go to one where such a node has room.
	groupByGroup bool
	// carryShares lets shapes of which a new node's share is less than one pod have one in turn, so that the
	// node gets its share of them together. It serves pods that nearly all differ.
	carryShares bool
	// colocateAll places pods that must share a node with others together from the start. Other policies
	// do so with those of which an earlier round left some out.
	colocateAll bool
	// leastForEach launches for pods that must share a node the cheapest one that holds them, and not one
	// that others like them share.
	leastForEach bool
}

// portfolio is the policies that are tried beside the zero policy. Each lowered the price of random
// clusters together by more than any other one would have beside those before it; TestPortfolio measures
// what it leaves to all others. divideByShare came later, for plans of many launches, the second for
// large batches of several priorities, for which few policies can be tried, and groupByGroup, after plans of
// Karpenter's had been cheaper: it places pod by pod.
var portfolio = []policy{
	{anyPriority: true, cheapestDomains: true, smallestFirst: true},
	{anyPriority: true},
	{divideByShare: true},
	{anyPriority: true, cheapestDomains: true, sharedDomains: true},
	{fewestNodes: true, anyPriority: true, largestFirst: true},
	{fewestNodes: true, anyPriority: true, smallestFirst: true, largestFirst: true},
	{cheapestDomains: true, smallestFirst: true},
	{anyPriority: true, cheapestDomains: true, largestFirst: true},
	{fewestNodes: true, smallestFirst: true},
	{anyPriority: true, cheapestDomains: true, groupByGroup: true},
	{anyPriority: true, carryShares: true},
	{anyPriority: true, colocateAll: true},
	{anyPriority: true, colocateAll: true, leastForEach: true},
}

// fewAlike is of how many pods a pod group has fewer on average where pods nearly all differ.
const fewAlike = 4

// firstPolicy is the policy of the first plan: the zero policy, but where several priorities have too
// many pods for a second plan. Placed one after the other, those of each get nodes of their own. Where there
// is no second plan for pods that nearly all differ either, it carries shares.
func (ps *preferenceSearch) firstPolicy() policy {
	classes, budget := ps.snapshot.Classes, ps.options.budgets[Policies]
	pods, several := 0, false
	for _, c := range classes {
		pods += len(c.PodsToPlace)
		several = several || comparePlacingOrder(c, classes[0]) != 0
	}
	if pods == 0 || budget == 0 || affordablePlans(budget, pods, len(classes)) > 0 {
		return policy{}
	}
	return policy{anyPriority: several, carryShares: pods < fewAlike*len(classes)}
}

// tryPolicies makes further plans, each by another policy of the portfolio, and returns the best of all.
// Where the first plan was of any priority and leaves out pods, they may be the wrong ones: a plan by the
// zero policy is one of them, whatever the budget.
func (ps *preferenceSearch) tryPolicies(s *solver, maxPrice offering.Price) *solver {
	budget := ps.options.budgets[Policies]
	if budget == 0 || ps.options.noLaunches || len(s.launches.all) == 0 || s.limits.overMaxPrice() {
		return s
	}
	policies := policiesFor(s.podGroups, len(s.launches.all))
	tries := policies[:min(affordablePlans(budget, countPods(s.podGroups), len(s.podGroups)), len(policies))]
	cut := len(policies) - len(tries)
	if ps.policy.anyPriority && countLeftOut(s.podGroups) > 0 {
		tries = slices.Concat([]policy{{}}, tries)
	}
	if len(tries) > 0 { // the price of a plan takes a choice of offerings for each of its launches
		s = ps.bestPolicy(s, tries, maxPrice)
	}
	s.searches.cut(Policies, cut)
	return s
}

// bestPolicy is the best of the plan and of those that the policies make.
func (ps *preferenceSearch) bestPolicy(s *solver, policies []policy, maxPrice offering.Price) *solver {
	best := rate(s)
	for _, p := range policies {
		other := rate(ps.makePlan(directions{first: s.learned.first, policy: p}, nil, maxPrice))
		if other.betterThan(best) {
			best, other = other, best
		}
		best.searches.inherit(&other.searches, searchNames...)
	}
	return best.solver
}

// policySteps is how many steps of the budget a plan by another policy takes. Pods that are alike are
// placed together, so those that differ take more.
func policySteps(pods, groups int) int { return pods + 8*groups }

// affordablePlans is for how many further plans the budget suffices, to the nearest whole number: the first
// of them saves most, so it is made where the budget has half its steps.
func affordablePlans(budget, pods, groups int) int {
	steps := policySteps(pods, groups)
	return (budget + steps/2) / steps
}

// With fewLaunchesToDivide launches it hardly matters how often the pods left are divided over nodes.
const fewLaunchesToDivide = 2

// policiesFor is the portfolio without what makes no difference to pods of the groups, for which the zero
// policy makes so many launches: most decisions are about a few pods that are alike.
func policiesFor(groups []*podGroup, launches int) []policy {
	severalPriorities := slices.ContainsFunc(groups, func(g *podGroup) bool { return comparePlacingOrder(g.class, groups[0].class) != 0 })
	overDomains := slices.ContainsFunc(groups, func(g *podGroup) bool { return len(g.domainKeys) > 0 })
	severalPods, follow := countPods(groups) > 1, slices.ContainsFunc(groups, (*podGroup).follows)
	var out []policy
	for _, p := range portfolio {
		p.anyPriority = p.anyPriority && severalPriorities
		p.cheapestDomains, p.sharedDomains = p.cheapestDomains && overDomains, p.sharedDomains && len(groups) > 1
		p.smallestFirst, p.groupByGroup = p.smallestFirst && len(groups) > 1, p.groupByGroup && len(groups) > 1
		p.carryShares = p.carryShares && len(groups) > 1 && launches > 1
		p.fewestNodes, p.largestFirst = p.fewestNodes && severalPods, p.largestFirst && severalPods
		p.divideByShare, p.colocateAll = p.divideByShare && launches > fewLaunchesToDivide, p.colocateAll && follow
		p.leastForEach = p.leastForEach && follow
		if p != (policy{}) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// ratedPlan is a plan with what it is compared by.
type ratedPlan struct {
	*solver
	price offering.Price
	// afterAll is how many pods, left out because of minValues, some node has room for in the end.
	afterAll int
}

func rate(s *solver) ratedPlan {
	r := ratedPlan{solver: s, price: s.finalPrice()}
	for _, g := range s.podGroups {
		if g.placed < len(g.pods) && !g.excluded() {
			r.afterAll += min(len(g.pods)-g.placed, s.launches.roomDespiteMinValues(g))
		}
	}
	return r
}

// roomDespiteMinValues is how many pods of the group have room on the first offerings of launches of
// NodePools with minValues.
func (ls *launchList) roomDespiteMinValues(g *podGroup) int {
	n := 0
	for _, l := range ls.all {
		if l.pool.hasMinValues() && l.pool.Compatible(g.shape).All.Has(l.first) {
			room := l.pool.Allocatable[l.first].Sub(l.used)
			n += g.countFitting(&room)
		}
	}
	return n
}

// betterThan reports whether the plan is better. The first of these in which they differ decides: the pods
// placed, of high priority first, those that find room after all, the price, and how few the nodes are.
func (r ratedPlan) betterThan(o ratedPlan) bool {
	switch {
	case r.placesMoreThan(o.solver):
		return true
	case o.placesMoreThan(r.solver):
		return false
	}
	return cmp.Or(cmp.Compare(o.afterAll, r.afterAll), cmp.Compare(r.price, o.price), cmp.Compare(len(r.launches.all), len(o.launches.all))) < 0
}

// countPods counts the pods of the groups.
func countPods(groups []*podGroup) int {
	n := 0
	for _, g := range groups {
		n += len(g.pods)
	}
	return n
}
