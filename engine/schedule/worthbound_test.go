// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// No choice of pods that fit into some room is worth more than the bound.
func TestWorthBoundHolds(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		prices := covering.UnitPrices{quantity.CPU: r.Float64(), quantity.Memory: r.Float64(), quantity.Pods: r.Float64() / 10}
		var groups []*shapeGroup
		for range 1 + r.IntN(4) {
			groups = append(groups, shapeGroupOf(1+r.Int64N(4), r.Int64N(4)))
		}
		bound := newWorthBound(&prices, groups)
		room := quantity.Vector{quantity.CPU: r.Int64N(20), quantity.Memory: r.Int64N(20), quantity.Pods: 1 + r.Int64N(8)}
		var used quantity.Vector
		for range 30 {
			sg := groups[r.IntN(len(groups))]
			if next := used.Add(sg.shape.Requests); fitsInto(next, room) {
				used = next
			}
		}
		if got, most := prices.Worth(&used), bound.of(&room); got > most {
			t.Errorf("seed %d: pods on a node are worth %v, the bound is %v", seed, got, most)
		}
	}
}

// Pods that are all alike and leave capacity unused meet the bound.
func TestWorthBoundOfPodsAlike(t *testing.T) {
	prices := covering.UnitPrices{quantity.CPU: 2, quantity.Memory: 1}
	bound := newWorthBound(&prices, []*shapeGroup{shapeGroupOf(3, 5)})
	room := quantity.Vector{quantity.CPU: 11, quantity.Memory: 100, quantity.Pods: 10}
	if got, want := bound.of(&room), 3*(2*3.0+5); got < want || got > want*1.0001 {
		t.Errorf("the bound is %v, three pods are worth %v", got, want)
	}
}

func shapeGroupOf(cpu, memory int64) *shapeGroup {
	s := &cluster.PodShape{Requests: quantity.Vector{quantity.CPU: cpu, quantity.Memory: memory, quantity.Pods: 1}}
	for d, n := range s.Requests {
		if n > 0 {
			s.Dims = append(s.Dims, quantity.Dim(d))
		}
	}
	return &shapeGroup{shape: s}
}

func fitsInto(v, room quantity.Vector) bool {
	for d, n := range v {
		if n > room[d] {
			return false
		}
	}
	return true
}
