// SPDX-License-Identifier: Apache-2.0

// Package covering solves the fractional covering problem: launch any fractions of node types
// so that their capacities add up to a demand and the fractions to a number of nodes, at the
// least cost. That cost is a lower bound for any plan with whole nodes, and the shadow prices
// say what a unit of each resource is worth in it.
package covering

import (
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/simplex"
)

// NodeType is one node as the covering problem sees it.
type NodeType struct {
	Room  quantity.Vector
	Price float64 // per hour, any unit
}

// UnitPrices are prices of one base unit of each resource.
type UnitPrices [quantity.Dims]float64

// Worth prices a vector of resources. Resources below zero count as none.
func (u *UnitPrices) Worth(v *quantity.Vector) float64 {
	var sum float64
	for d, n := range v {
		sum += float64(float64(max(0, n)) * u[d])
	}
	return sum
}

// Prices are the shadow prices of one base unit of each resource and of one node.
type Prices struct {
	Units UnitPrices
	Node  float64
}

// Capped limits room to the demand. Nodes are whole, so the cost without the rest is still a
// bound, and numbers that stand for "no limit" would swamp the others.
func Capped(room quantity.Vector, demand *quantity.Vector) quantity.Vector {
	for d, n := range demand {
		room[d] = min(room[d], n)
	}
	return room
}

// Solve returns the least cost of covering demand with at least that many nodes, and the
// shadow prices. Both are zero when no node type offers some resource that demand asks for.
//
// It solves the dual linear program, max Σ demand·λ + nodes·μ so that room·λ + μ ≤
// price for every node type and λ, μ ≥ 0. Prices are not negative.
func Solve(demand quantity.Vector, nodes int, nodeTypes []NodeType) (cost float64, prices Prices) {
	var dims []int
	for d, n := range demand {
		if n > 0 {
			dims = append(dims, d)
		}
	}
	if len(dims) == 0 || len(nodeTypes) == 0 {
		return 0, prices
	}
	program := dual(&demand, nodes, nodeTypes, dims)
	if !program.Maximize() {
		return 0, prices // no node type offers some resource: no bound
	}
	x := program.X()
	for i, d := range dims {
		prices.Units[d] = x[i] / float64(demand[d])
	}
	if nodes > 0 {
		prices.Node = x[len(dims)] / float64(nodes)
	}
	return program.Value(), prices
}

// dual is the dual program. Its variables are the shadow prices of resources, and the one of nodes if there
// must be any. They are scaled by the demand, so that every gain starts as 1.
func dual(demand *quantity.Vector, nodes int, nodeTypes []NodeType, dims []int) *simplex.Dictionary {
	width := len(dims)
	if nodes > 0 {
		width++
	}
	gain, rows, rhs := make([]float64, width), make([][]float64, len(nodeTypes)), make([]float64, len(nodeTypes))
	for i := range gain {
		gain[i] = 1
	}
	cells := make([]float64, len(nodeTypes)*width)
	for i, s := range nodeTypes {
		row := cells[i*width : (i+1)*width]
		for j, d := range dims {
			row[j] = float64(max(0, s.Room[d])) / float64(demand[d])
		}
		if nodes > 0 {
			row[len(dims)] = 1 / float64(nodes)
		}
		rows[i], rhs[i] = row, s.Price
	}
	return simplex.New(gain, rows, rhs)
}
