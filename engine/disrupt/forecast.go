// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/schedule"
)

// forecast guesses, before any move, which nodes will be kept: pods then move once, to nodes
// that are kept. A node is kept if, when full, it costs hardly more than new nodes would for
// its pods, or not so much more that its own pods should move. Nodes are filled in the order of
// how many pods they keep in place for the least extra cost and the least free capacity; once
// all pods have a place the remaining nodes are removed.
//
// Here the pods of a node may be divided freely. They count in groups that can use the same
// instance types, measured by what they cost at the best prices. A group may fill nodes of one
// pool, zone and capacity type where it runs already. The forecast decides which nodes receive
// pods and which are considered first; drafts decide which may be removed.
func forecast(all []*node, prices *schedule.ShadowPrices, settings Settings) {
	t := &fluidNodes{prices: prices, settings: settings, unplaced: make([]float64, prices.Groups()), runsIn: map[string][]bool{}}
	var order []*fluidNode
	for _, n := range all {
		n.forecast = keepExpected
		if n.info != nil && n.role != leaves && !n.info.MarkedForDeletion {
			order = append(order, t.add(n))
		}
	}
	for _, x := range order {
		t.setScore(x)
	}
	slices.SortStableFunc(order, func(x, y *fluidNode) int {
		if xMay, yMay := x.eligibility == mayConsolidate, y.eligibility == mayConsolidate; xMay != yMay {
			return cmp.Compare(ordinal(xMay), ordinal(yMay)) // first fill nodes that are kept in any case
		}
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.pricePerDisruption, y.pricePerDisruption))
	})
	for _, x := range order {
		t.fill(x)
	}
}

func ordinal(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fluidNodes are the nodes of a cluster whose pods may be divided freely.
type fluidNodes struct {
	prices   *schedule.ShadowPrices
	settings Settings
	// unplaced is what the pods that no node holds yet are worth, by group, USD per hour.
	unplaced []float64
	// runsIn are the groups that run on nodes of one pool, zone and capacity type.
	runsIn map[string][]bool
}

// fluidNode is one of fluidNodes; amounts are USD per hour.
type fluidNode struct {
	*node
	own  []float64 // what its pods are worth, by group
	full float64   // what it would hold, filled up with the pods that are worth most there
	// score is the value of keeping the node, when full, for each unit of what it holds.
	score float64
}

// add adds a node with its pods.
func (t *fluidNodes) add(n *node) *fluidNode {
	x := &fluidNode{node: n, own: make([]float64, len(t.unplaced))}
	if t.runsIn[n.poolZoneCapacityType] == nil {
		t.runsIn[n.poolZoneCapacityType] = make([]bool, len(t.unplaced))
	}
	t.prices.EachGroup(n.info, func(group int, worth float64) {
		x.own[group] += worth
		t.unplaced[group] += worth
		t.runsIn[n.poolZoneCapacityType][group] = true
	})
	return x
}

// minPerEviction is the smallest value of a pod that need not move, USD per hour: among nodes
// that cost the same, those with most pods are kept.
const minPerEviction = 1e-5

// setScore scores a node: its pods need not move, but it costs more than they are worth.
func (t *fluidNodes) setScore(x *fluidNode) {
	most := 0.0
	for group, own := range x.own {
		x.full += own
		if t.runsIn[x.poolZoneCapacityType][group] {
			most = max(most, t.prices.WorthOfFree(x.info, group))
		}
	}
	x.full += most
	if x.pool == nil || x.full <= 0 {
		return
	}
	avoided := max(partsOf([]*node{x.node})[0].evictionSavings(t.settings).USD(), minPerEviction*x.EvictionCost)
	x.score = (avoided - (x.price.USD() - x.full)) / x.full
}

const (
	// wrongShare is the share of its price that a node must waste, however full, to be the wrong
	// instance type. Below that a new one, which is never quite full either, is hardly better.
	wrongShare = 0.1
	// fullShare is how full a node must get to be kept. If fewer pods remain for it, its pods
	// should rather fill other nodes.
	fullShare = 0.9
)

// fill gives the node its own pods and pods of other nodes, unless the node is expected to be
// removed.
func (t *fluidNodes) fill(x *fluidNode) {
	holds, byGroup := t.contents(x)
	if x.eligibility == mayConsolidate {
		x.forecast = x.forecastFor(holds)
	}
	if x.forecast != keepExpected {
		return
	}
	for group := range t.unplaced {
		t.unplaced[group] -= byGroup[group]
	}
}

// forecastFor is the forecast for a node that may be consolidated when it holds that much.
func (x *fluidNode) forecastFor(holds float64) nodeForecast {
	switch {
	case x.replaceable && x.price.USD()-x.full >= max(x.requiredSavings.USD(), x.price.USD()*wrongShare):
		return wrongType
	case holds >= x.full*fullShare, !x.replaceable && holds > 0:
		return keepExpected
	}
	return removeExpected
}

// contents is how much of unplaced the node would hold, in total and by group: its own pods, then
// the pods that are worth most there.
func (t *fluidNodes) contents(x *fluidNode) (holds float64, byGroup []float64) {
	byGroup = make([]float64, len(t.unplaced))
	for group, own := range x.own {
		byGroup[group] = min(own, t.unplaced[group])
		holds += byGroup[group]
	}
	free := 1.0
	if x.info.Index < 0 { // it takes no pods
		free = 0
	}
	for free > 1e-3 {
		best, room := t.mostValuable(x, byGroup)
		if best < 0 {
			break
		}
		added := min(t.unplaced[best]-byGroup[best], room*free)
		byGroup[best] += added
		holds += added
		free -= added / room
	}
	return holds, byGroup
}

// mostValuable is the group with unplaced pods that is worth most in the node's free capacity; -1
// for none.
func (t *fluidNodes) mostValuable(x *fluidNode, held []float64) (best int, room float64) {
	best = -1
	for group, runs := range t.runsIn[x.poolZoneCapacityType] {
		if !runs || t.unplaced[group]-held[group] <= 1e-9 {
			continue
		}
		if r := t.prices.WorthOfFree(x.info, group); r > room {
			best, room = group, r
		}
	}
	return best, room
}
