// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// shapesLeft finds, among shape groups in their order, the next one with pods left that fit into
// some room. There may be as many shapes as pods: a walk over all of them for every filling of every
// candidate would take the cube of that.
type shapesLeft struct {
	groups int
	dims   []quantity.Dim // that some shape asks for
	// negated holds the requests of a shape as negative amounts, and what is less than any room for
	// a group without pods left; counts holds the number of pods left.
	negated, counts *cluster.FreeCapacity
	// sizes holds the sizes of shapes as negative amounts: the groups mostly come by size, so few of
	// those that are not too large do not fit.
	sizes *cluster.FreeCapacity
	room  quantity.Vector // scratch: the same of a room
	most  int64           // no group has more pods left
	each  []int32         // how many pods each group has left: for walks over all of them
	pods  int             // how many are left of all groups
	// placed lists the pods that were placed since the launcher began, in order.
	placed []placedPods
}

// placedPods is that pods of a shape group were placed, with how many were left before and after.
type placedPods struct {
	shapeGroup    *shapeGroup
	before, after int
}

func newShapesLeft(groups []*shapeGroup) shapesLeft {
	var asked bitset.Set
	for _, sg := range groups {
		for _, d := range sg.shape.Dims {
			asked.Put(int(d))
		}
	}
	out, width := shapesLeft{groups: len(groups)}, 1
	for d := range asked.All() {
		out.dims, width = append(out.dims, quantity.Dim(d)), d+1
	}
	out.negated, out.counts = cluster.NewFreeCapacity(len(groups), width), cluster.NewFreeCapacity(len(groups), 1)
	out.sizes, out.each = cluster.NewFreeCapacity(len(groups), 1), make([]int32, len(groups))
	for i, sg := range groups {
		sg.at = i
		out.sizes.Set(i, negatedSize(&sg.shape.Requests))
		out.update(sg)
		out.most, out.pods = max(out.most, int64(sg.left)), out.pods+sg.left
	}
	return out
}

func negatedSize(v *quantity.Vector) *quantity.Vector {
	return &quantity.Vector{-quantity.Size(v[quantity.CPU], v[quantity.Memory])}
}

// note takes note of how many pods the group has left.
func (x *shapesLeft) note(sg *shapeGroup) {
	before := int(x.counts.At(sg.at)[0])
	if sg.left == before {
		return
	}
	x.placed = append(x.placed, placedPods{sg, before, sg.left})
	x.pods += sg.left - before
	x.update(sg)
}

// update records how many pods the group has left.
func (x *shapesLeft) update(sg *shapeGroup) {
	var v quantity.Vector
	for _, d := range x.dims {
		if v[d] = -sg.shape.Requests[d]; sg.left == 0 {
			v[d] = -quantity.Most - 1
		}
	}
	x.negated.Set(sg.at, &v)
	x.counts.Set(sg.at, &quantity.Vector{int64(sg.left)})
	x.each[sg.at] = int32(sg.left)
}

// sum sums up what all pods left ask for. largest is the largest request for each resource, and groups
// how many shape groups have pods left.
func (x *shapesLeft) sum() (requests, largest quantity.Vector, groups int) {
	for i := range x.groups {
		left := x.counts.At(i)[0]
		if left == 0 {
			continue
		}
		groups++
		negated := x.negated.At(i)
		for _, d := range x.dims {
			requests[d] = quantity.Sum(requests[d], -negated[d], int(left))
			largest[d] = max(largest[d], -negated[d])
		}
	}
	return requests, largest, groups
}

// fitting returns the first of the groups from i that is in suits and of which a pod fits into the
// room; -1 when there is none.
func (x *shapesLeft) fitting(i, n int, suits bitset.Set, room *quantity.Vector) int {
	for _, d := range x.dims {
		x.room[d] = -max(0, min(quantity.Most, room[d]))
	}
	if i = x.sizes.NextFitting(i, n, negatedSize(room), firstDim); i < 0 {
		return -1
	}
	for {
		if i = suits.Next(i); i < 0 {
			return -1
		}
		if i = x.negated.NextFitting(i, n, &x.room, x.dims); i < 0 || suits.Has(i) {
			return i
		}
	}
}

// firstDim is the only resource of shapesLeft.counts and of shapesLeft.sizes.
var firstDim = []quantity.Dim{0}

// withPods returns the first of the groups from i that is in suits and has at least that many pods
// left; -1 when there is none.
func (x *shapesLeft) withPods(i, n int, suits bitset.Set, least int64) int {
	if least > x.most {
		return -1
	}
	for {
		if i = suits.Next(i); i < 0 {
			return -1
		}
		if i = x.counts.NextFitting(i, n, &quantity.Vector{least}, firstDim); i < 0 || suits.Has(i) {
			return i
		}
	}
}

// leastShared is with how many pods left of a shape group the share of one node is not none.
func leastShared(share float64) int64 { return int64(min(1/share, math.MaxInt32)) }

// wholeShares yields the groups in suits of which that share of the pods left is at least one pod, and how many
// pods it is, rounded down.
func (x *shapesLeft) wholeShares(suits bitset.Set, share float64, yield func(int, int) bool) {
	least := leastShared(share)
	for i := x.withPods(0, x.groups, suits, least); i >= 0; i = x.withPods(i+1, x.groups, suits, least) {
		if n := int(float64(x.each[i]) * share); n > 0 && !yield(i, n) {
			return
		}
	}
}

// carriedShares yields the same as wholeShares, and of groups of which the share is less than one pod one
// whenever it adds up to one with that of those before.
func (x *shapesLeft) carriedShares(suits bitset.Set, share float64, yield func(int, int) bool) {
	carried := 0.0
	for i, left := range x.each {
		if left == 0 || !suits.Has(i) {
			continue
		}
		of := float64(left) * share
		if of < 1 {
			if carried += of; carried < 1 {
				continue
			}
			of, carried = 1, carried-1
		}
		if !yield(i, int(of)) {
			return
		}
	}
}
