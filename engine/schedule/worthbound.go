// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// worthBound bounds what pods of some shape groups are worth on one node. Seldom can they use all
// of its capacity: they ask for whole multiples of some amount, and for more of one resource than
// of another.
type worthBound struct {
	prices *covering.UnitPrices
	priced []quantity.Dim // resources with a price
	// divisor divides what each of the pods asks for; zero where none asks for any.
	divisor quantity.Vector
	// perUnit is the most that pods are worth for each unit that they ask for of a resource in askedByAll,
	// those for which all pods ask.
	perUnit    [quantity.Dims]float64
	askedByAll []quantity.Dim
}

// newWorthBound finds the bound for pods of the shape groups. Volumes that several pods mount are
// counted by nodes and not by pods: beside them nothing is certain but the capacity.
func newWorthBound(prices *covering.UnitPrices, shapeGroups []*shapeGroup) worthBound {
	b := worthBound{prices: prices}
	for d, price := range prices {
		if price > 0 {
			b.priced = append(b.priced, quantity.Dim(d))
		}
	}
	var askedBy quantity.Vector
	for _, sg := range shapeGroups {
		if len(sg.shape.Mounts) > 0 {
			return worthBound{prices: prices, priced: b.priced}
		}
		var worth float64
		for _, d := range sg.shape.Dims {
			worth += float64(float64(sg.shape.Requests[d]) * prices[d])
		}
		for _, d := range sg.shape.Dims {
			n := sg.shape.Requests[d]
			askedBy[d]++
			b.divisor[d] = greatestDivisor(b.divisor[d], n)
			b.perUnit[d] = max(b.perUnit[d], worth/float64(n))
		}
	}
	for d, n := range askedBy {
		if n == int64(len(shapeGroups)) {
			b.askedByAll = append(b.askedByAll, quantity.Dim(d))
		}
	}
	return b
}

// countsPods reports whether pods are bounded by more than the capacity.
func (b *worthBound) countsPods() bool { return len(b.askedByAll) > 0 }

// roundingSlack is by how much sums of the same products may differ, and far more.
const roundingSlack = 1e-9

// of is the most that the pods can be worth on a node with that room.
func (b *worthBound) of(room *quantity.Vector) float64 {
	var most float64
	for _, d := range b.priced {
		most += float64(float64(b.usable(room, d)) * b.prices[d])
	}
	for _, d := range b.askedByAll {
		most = min(most, float64(b.usable(room, d))*b.perUnit[d])
	}
	return most * (1 + roundingSlack)
}

// usable is what the pods can use of a resource at most.
func (b *worthBound) usable(room *quantity.Vector, d quantity.Dim) int64 {
	n := max(0, room[d])
	if b.divisor[d] > 1 {
		n -= n % b.divisor[d]
	}
	return n
}

// greatestDivisor of two numbers of which neither is negative; every number divides zero.
func greatestDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
