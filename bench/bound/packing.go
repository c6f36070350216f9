// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/schedule/simplex"
)

// packing finds the pods that are worth most on one node: a knapsack with several resources. It
// begins with what whole pods remain of the best divisible ones, branches on how many pods of each group
// there are, and bounds what the rest can be worth by a knapsack with one resource, the weighted sum of
// all (Glover, "Surrogate constraints", 1968). The weights are shadow prices of the node's resources.
type packing struct {
	candidates []candidate // those worth most for their weight first
	room       []float64   // that is left, by resource
	weights    []float64   // by resource
	counts     []int       // by item
	best       []int       // the counts that were worth most
	value      float64     // of these
	unseen     float64     // an upper bound on what was not looked at
	slack      float64     // by how much what is not looked at may exceed value
	branches   int
}

// candidate is an item, with what a pod is worth and its weight.
type candidate struct {
	item
	at           int // in items
	worth, price float64
}

// maxBranches ends the search on one node; what was not looked at is bounded.
const maxBranches = 1000

// pack returns the number of pods of each item that are together worth most on a node with that room, as
// far as was looked at, and an upper bound on what any pods are worth. What can be worth no more than slack
// beyond the pods found so far is not looked at.
func pack(items []item, room, prices []float64, slack float64) (counts []int, most float64) {
	p := packing{counts: make([]int, len(items)), slack: slack, room: slices.Clone(room)}
	for _, it := range items {
		for _, n := range it.needs {
			for n.resource >= len(p.room) {
				p.room = append(p.room, 1)
			}
		}
	}
	p.weights = make([]float64, len(p.room))
	for i, it := range items {
		if prices[it.group] > 0 {
			p.candidates = append(p.candidates, candidate{item: it, at: i, worth: prices[it.group]})
		}
	}
	divisible := p.divide()
	slices.SortStableFunc(p.candidates, func(a, b candidate) int { return cmp.Compare(b.worth*a.price, a.worth*b.price) })
	p.round(divisible)
	p.branch(0, 0)
	return p.best, max(p.value, p.unseen)
}

// divide sets the shadow prices of the node's resources, were pods divisible, and returns how many of each
// item the best node would then have.
func (p *packing) divide() []float64 {
	gain, byResource := make([]float64, len(p.candidates)), make([][]float64, len(p.room))
	for i := range p.candidates {
		c := &p.candidates[i]
		gain[i] = c.worth * float64(c.most) // in shares of most
		for _, n := range c.needs {
			if byResource[n.resource] == nil {
				byResource[n.resource] = make([]float64, len(p.candidates))
			}
			byResource[n.resource][i] = n.amount * float64(c.most) / p.room[n.resource]
		}
	}
	var rows [][]float64
	var resources []int // of the first rows
	for d, row := range byResource {
		if row != nil {
			resources, rows = append(resources, d), append(rows, row)
		}
	}
	for i := range p.candidates {
		rows = append(rows, make([]float64, len(p.candidates)))
		rows[len(rows)-1][i] = 1
	}
	program := simplex.New(gain, rows, slices.Repeat([]float64{1}, len(rows)))
	program.Maximize()
	shadow, shares := program.ShadowPrices(), program.X()
	for row, d := range resources {
		p.weights[d] = max(0, shadow[row]) / p.room[d]
	}
	divisible := make([]float64, len(p.counts))
	for i := range p.candidates {
		c := &p.candidates[i]
		divisible[c.at] = shares[i] * float64(c.most)
		for _, n := range c.needs {
			c.price += p.weights[n.resource] * n.amount
		}
	}
	return divisible
}

// round begins with the whole pods of the divisible ones and adds more while they fit.
func (p *packing) round(divisible []float64) {
	for _, whole := range []bool{true, false} {
		for i := range p.candidates {
			c := &p.candidates[i]
			n := fitting(p.room, c.needs, c.most-p.counts[c.at])
			if whole {
				n = min(n, int(math.Floor(divisible[c.at]+1e-6)))
			}
			p.take(c, n)
			p.value += float64(n) * c.worth
		}
	}
	p.best = slices.Clone(p.counts)
	for i := range p.candidates {
		c := &p.candidates[i]
		p.take(c, -p.counts[c.at])
	}
}

// branch decides how many pods of the candidates from at on there are, beside some that are worth value.
func (p *packing) branch(at int, value float64) {
	if value > p.value {
		p.value, p.best = value, slices.Clone(p.counts)
	}
	if at == len(p.candidates) {
		return
	}
	if upper := value + p.relaxed(at); upper <= p.value+p.slack || p.branches == maxBranches {
		p.unseen = max(p.unseen, upper)
		return
	}
	p.branches++
	c := &p.candidates[at]
	n := fitting(p.room, c.needs, c.most)
	p.take(c, n)
	for ; n > 0; n-- {
		p.branch(at+1, value+float64(n)*c.worth)
		p.take(c, -1)
	}
	p.branch(at+1, value)
}

func (p *packing) take(c *candidate, pods int) {
	for _, n := range c.needs {
		p.room[n.resource] -= float64(pods) * n.amount
	}
	p.counts[c.at] += pods
}

// relaxed bounds what the candidates from at on can be worth in the room that is left.
func (p *packing) relaxed(at int) float64 {
	room, sum := 0.0, 0.0
	for d, w := range p.weights {
		room += w * max(0, p.room[d])
	}
	room *= 1 + 1e-9
	for i := range p.candidates[at:] {
		c := &p.candidates[at+i]
		n := float64(fitting(p.room, c.needs, c.most))
		if c.price*n > room {
			return sum + room/c.price*c.worth
		}
		room -= c.price * n
		sum += n * c.worth
	}
	return sum
}
