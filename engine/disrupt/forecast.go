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
// Pods are a liquid here, in groups that can use the same instance types, measured by what they
// cost at the best prices. A group may fill nodes of a place where it runs already. The guess
// decides which nodes receive pods and which are tried first; drafts decide which may be
// removed.
func forecast(all []*node, prices *schedule.ShadowPrices, settings Settings) {
	t := &fluidNodes{prices: prices, settings: settings, left: make([]float64, prices.Groups()), welcome: map[string][]bool{}}
	var order []*fluidNode
	for _, n := range all {
		n.forecast = staysFull
		if n.info != nil && n.inMove != leaves && !n.info.Leaving {
			order = append(order, t.see(n))
		}
	}
	for _, x := range order {
		t.rate(x)
	}
	slices.SortStableFunc(order, func(x, y *fluidNode) int {
		if xFree, yFree := x.may == mayConsolidate, y.may == mayConsolidate; xFree != yFree {
			return cmp.Compare(ordinal(xFree), ordinal(yFree)) // first fill nodes kept in any case
		}
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.worth, y.worth))
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

// fluidNodes are the nodes of a cluster when pods are a liquid.
type fluidNodes struct {
	prices   *schedule.ShadowPrices
	settings Settings
	// left is the worth of the pods without a place yet, by group, USD per hour.
	left []float64
	// welcome are the groups that run on nodes of a place.
	welcome map[string][]bool
}

// fluidNode is one of fluidNodes; amounts are USD per hour.
type fluidNode struct {
	*node
	own  []float64 // what its pods are worth, by group
	full float64   // what it would hold, filled up with the pods that are worth most there
	// score is the value of keeping the node, when full, for each unit of what it holds.
	score float64
}

// see notes the pods of a node.
func (t *fluidNodes) see(n *node) *fluidNode {
	x := &fluidNode{node: n, own: make([]float64, len(t.left))}
	if t.welcome[n.place] == nil {
		t.welcome[n.place] = make([]bool, len(t.left))
	}
	t.prices.Parts(n.info, func(group int, worth float64) {
		x.own[group] += worth
		t.left[group] += worth
		t.welcome[n.place][group] = true
	})
	return x
}

// leastPerEviction is the least value of a pod that need not move, USD per hour: among nodes
// that cost the same, those with most pods are kept.
const leastPerEviction = 1e-5

// rate scores a node: its pods need not move, but it costs more than they are worth.
func (t *fluidNodes) rate(x *fluidNode) {
	most := 0.0
	for group, own := range x.own {
		x.full += own
		if t.welcome[x.place][group] {
			most = max(most, t.prices.Room(x.info, group))
		}
	}
	x.full += most
	if x.pool == nil || x.full <= 0 {
		return
	}
	spares := max(parts([]*node{x.node})[0].perEviction(t.settings).USD(), leastPerEviction*x.Cost)
	x.score = (spares - (x.price.USD() - x.full)) / x.full
}

const (
	// wrongShare is the share of its price that a node must waste, however full, to be the wrong
	// instance type. Below that a new one, which is never quite full either, is hardly better.
	wrongShare = 0.1
	// fullShare is how full a node must get to be kept. If fewer pods are left for it, its pods
	// should rather fill other nodes.
	fullShare = 0.9
)

// fill gives the node its own pods and welcome pods of other nodes, unless the node is to be
// removed.
func (t *fluidNodes) fill(x *fluidNode) {
	holds, from := t.pour(x)
	if x.may == mayConsolidate {
		x.forecast = x.guess(holds)
	}
	if x.forecast != staysFull {
		return
	}
	for group := range t.left {
		t.left[group] -= from[group]
	}
}

// guess is the forecast for a node that may be consolidated when it holds that much.
func (x *fluidNode) guess(holds float64) nodeForecast {
	switch {
	case x.replaceable && x.price.USD()-x.full >= max(x.least.USD(), x.price.USD()*wrongShare):
		return wrongType
	case holds >= x.full*fullShare, !x.replaceable && holds > 0:
		return staysFull
	}
	return goes
}

// pour is how much of left the node would hold, in total and by group: its own pods, then the
// pods that are worth most there.
func (t *fluidNodes) pour(x *fluidNode) (holds float64, from []float64) {
	from = make([]float64, len(t.left))
	for group, own := range x.own {
		from[group] = min(own, t.left[group])
		holds += from[group]
	}
	free := 1.0
	if x.info.Index < 0 { // it takes no pods
		free = 0
	}
	for free > 1e-3 {
		best, room := t.dearest(x, from)
		if best < 0 {
			break
		}
		come := min(t.left[best]-from[best], room*free)
		from[best] += come
		holds += come
		free -= come / room
	}
	return holds, from
}

// dearest is the group with pods left that is worth most in the node's free capacity; -1 for none.
func (t *fluidNodes) dearest(x *fluidNode, from []float64) (best int, room float64) {
	best = -1
	for group, welcome := range t.welcome[x.place] {
		if !welcome || t.left[group]-from[group] <= 1e-9 {
			continue
		}
		if r := t.prices.Room(x.info, group); r > room {
			best, room = group, r
		}
	}
	return best, room
}
