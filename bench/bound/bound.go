// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// NodeType is nodes that may be launched, any number of them.
type NodeType struct {
	Room  []float64 // for pods, by resource
	Price float64   // of one node, above zero
}

// Group is pods that are alike.
type Group struct {
	Pods     int
	Requests []float64 // of one pod, by resource
	On       []bool    // by node type: whether its nodes take the pods
	// Exclusive is the number of a set of groups of which a node takes pods of one group only; 0 for none.
	Exclusive int
	// Into are the nodes that take the pods, of those that are there already.
	Into []bool
}

// Node is a node that is there, and stays, whatever the plan.
type Node struct {
	Room []float64 // that is free for pods, by resource
}

// Result is a bound on the price of nodes for all pods.
type Result struct {
	Price float64
	// Upper is the price of the fractions of nodes that were found for all pods: the bound would not
	// exceed it, however long the search.
	Upper float64
}

const (
	// precise is by which part of Upper the bound may stay below it.
	precise = 0.002
	// maxSteps ends the search; the bound is then that of the best prices of pods.
	maxSteps = 400
	// maxColumns is how many columns one step adds at most.
	maxColumns = 40
)

// Least returns a bound on the price of nodes that are launched for those pods that the nodes which are
// there do not take. It is an error when some pod fits on no node type. What the pods are worth is computed
// as if all of them needed new nodes; the bound is less what the best pods for each node that is there are
// worth.
func Least(nodeTypes []NodeType, groups []Group, nodes []Node) (Result, error) {
	p, err := newProblem(nodeTypes, groups)
	if err != nil || len(p.groups) == 0 {
		return Result{}, err
	}
	for range maxSteps {
		if added := p.step(); added == 0 || p.bound >= p.master.program.Value()*(1-precise) {
			break
		}
	}
	return Result{Price: max(0, p.bound-p.worthOn(nodes)), Upper: p.master.program.Value()}, nil
}

// problem is the configuration linear program with the columns that were generated so far.
type problem struct {
	nodeTypes []NodeType
	groups    []Group
	items     [][]item // by node type: the groups that it takes
	master    *master
	bound     float64   // the best so far
	prices    []float64 // of one pod of each group: those that gave it
}

// newProblem leaves out what makes no difference: node types that are no better than others, and groups
// without pods.
func newProblem(nodeTypes []NodeType, groups []Group) (*problem, error) {
	p := &problem{groups: merged(groups)}
	for i, t := range nodeTypes {
		if !dominated(nodeTypes, p.groups, i) {
			p.nodeTypes = append(p.nodeTypes, t)
			p.items = append(p.items, itemsOn(t.Room, p.groups, func(g *Group) bool { return g.On[i] }))
		}
	}
	first := p.columnsOfOneGroup()
	for g, c := range first {
		if c.counts == nil {
			return nil, fmt.Errorf("no node type takes the %d pods that request %v", p.groups[g].Pods, p.groups[g].Requests)
		}
	}
	p.prices, p.master = make([]float64, len(p.groups)), newMaster(p.groups, first)
	return p, nil
}

// columnsOfOneGroup are for each group nodes of the type that is cheapest for it alone, as full as can be;
// the zero column when none takes it.
func (p *problem) columnsOfOneGroup() []column {
	out := make([]column, len(p.groups))
	for t, items := range p.items {
		price := p.nodeTypes[t].Price
		for _, it := range items {
			c := &out[it.group]
			if c.counts == nil || price*float64(c.counts[it.group]) < c.price*float64(it.most) {
				*c = column{make([]int, len(p.groups)), price}
				c.counts[it.group] = it.most
			}
		}
	}
	return out
}

// merged joins groups that are alike on nodes to be launched; where one goes, of the nodes that are there,
// all may.
func merged(groups []Group) []Group {
	var out []Group
	for _, g := range groups {
		if g.Pods <= 0 {
			continue
		}
		at := slices.IndexFunc(out, func(o Group) bool {
			return o.Exclusive == 0 && g.Exclusive == 0 && slices.Equal(o.Requests, g.Requests) && slices.Equal(o.On, g.On)
		})
		if at < 0 {
			g.Into = slices.Clone(g.Into)
			out = append(out, g)
			continue
		}
		out[at].Pods += g.Pods
		for n, takes := range g.Into {
			out[at].Into[n] = out[at].Into[n] || takes
		}
	}
	return out
}

// dominated reports whether another node type costs no more than the one and takes all that it takes. Of
// equal ones the first is not.
func dominated(nodeTypes []NodeType, groups []Group, at int) bool {
	for i := range nodeTypes {
		if i != at && atLeast(nodeTypes, groups, i, at) && (i < at || !atLeast(nodeTypes, groups, at, i)) {
			return true
		}
	}
	return false
}

// atLeast reports whether node type a costs no more than b and takes all that it takes.
func atLeast(nodeTypes []NodeType, groups []Group, a, b int) bool {
	if nodeTypes[a].Price > nodeTypes[b].Price {
		return false
	}
	for d := range nodeTypes[a].Room {
		if nodeTypes[a].Room[d] < nodeTypes[b].Room[d] {
			return false
		}
	}
	return !slices.ContainsFunc(groups, func(g Group) bool { return g.On[b] && !g.On[a] })
}

// column is pods that fit together on a node of that price: how many of each group.
type column struct {
	counts []int
	price  float64
}

// step prices the pods, adds columns that are worth more than they cost, and reports how many. The prices
// are between those of the best bound so far and the last ones of the master, which swing from step to
// step (Wentges, "Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming", 1997); if
// these call for no column, the master's.
func (p *problem) step() int {
	last := p.master.prices()
	for _, share := range []float64{0.5, 0} {
		prices := make([]float64, len(last))
		for g := range prices {
			prices[g] = share*p.prices[g] + (1-share)*last[g]
		}
		if added := p.addViolated(p.price(prices), last); added > 0 {
			return added
		}
	}
	return 0
}

// price returns for each node type the pods that are worth most on a node. Where a node is worth more than it
// costs, all prices are scaled until none is; if what all pods are worth is a better bound, it is kept.
func (p *problem) price(prices []float64) (out []column) {
	scale := 1.0
	for t, nodeType := range p.nodeTypes {
		counts, most := pack(p.items[t], nodeType.Room, prices, precise/2*nodeType.Price)
		if most > nodeType.Price {
			scale = min(scale, nodeType.Price/most)
		}
		c := column{make([]int, len(p.groups)), nodeType.Price}
		for i, n := range counts {
			c.counts[p.items[t][i].group] = n
		}
		out = append(out, c)
	}
	sum := 0.0
	for g, group := range p.groups {
		sum += float64(group.Pods) * scale * prices[g]
	}
	if sum > p.bound {
		p.bound = sum
		for g := range prices {
			p.prices[g] = scale * prices[g]
		}
	}
	return out
}

// worthOn is the most that pods on the nodes can be worth, under the prices of the best bound.
func (p *problem) worthOn(nodes []Node) float64 {
	sum := 0.0
	for i, n := range nodes {
		_, most := pack(itemsOn(n.Room, p.groups, func(g *Group) bool { return g.Into[i] }), n.Room, p.prices, 0)
		sum += most
	}
	return sum
}

// addViolated adds the columns that are worth more than they cost under the master's prices, the worst
// first.
func (p *problem) addViolated(columns []column, prices []float64) int {
	excess := func(c column) float64 {
		worth := 0.0
		for g, n := range c.counts {
			worth += float64(n) * prices[g]
		}
		return worth / c.price
	}
	columns = slices.DeleteFunc(columns, func(c column) bool { return excess(c) <= 1+1e-7 })
	slices.SortStableFunc(columns, func(a, b column) int { return cmp.Compare(excess(b), excess(a)) })
	columns = columns[:min(len(columns), maxColumns)]
	p.master.add(columns)
	return len(columns)
}

// item is a group that a node takes: what one pod asks for, and how many fit by themselves.
type item struct {
	group int
	needs []need
	most  int
}

// need is how much of a resource one pod takes.
type need struct {
	resource int
	amount   float64
}

// itemsOn lists the groups that a node with that room takes. Of groups that exclude each other there is one
// whole node's worth together: each pod takes its part of a resource that is numbered after the others.
func itemsOn(room []float64, groups []Group, takes func(*Group) bool) []item {
	var out []item
	for g := range groups {
		group, it := &groups[g], item{group: g}
		if !takes(group) {
			continue
		}
		for d, r := range group.Requests {
			if r > 0 {
				it.needs = append(it.needs, need{d, r})
			}
		}
		if it.most = fitting(room, it.needs, group.Pods); it.most == 0 {
			continue
		}
		if group.Exclusive > 0 {
			it.needs = append(it.needs, need{len(room) + group.Exclusive - 1, 1 / float64(it.most)})
		}
		out = append(out, it)
	}
	return out
}

// fitting is how many pods fit into the room, at most the given number.
func fitting(room []float64, needs []need, most int) int {
	for _, n := range needs {
		most = min(most, int(math.Floor(room[n.resource]/n.amount+1e-9)))
	}
	return max(0, most)
}
