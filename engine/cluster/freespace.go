// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/karve-dev/karve/engine/quantity"

// fanout is how many slots share a maximum, and how many maxima share one of the next level.
const (
	fanoutBits = 4
	fanout     = 1 << fanoutBits
)

// FreeSpace is the free capacity of nodes by slot. It finds the first slot that holds a
// request: maxima over stretches of 16, 256 and so on let the search skip full nodes.
type FreeSpace struct {
	dims   int       // resources per slot
	levels [][]int64 // levels[0] is the free capacity by slot, levels[n] maxima over stretches of 16ⁿ
}

// newRooms makes n slots that hold nothing.
func newFreeSpace(n, dims int) *FreeSpace {
	r := &FreeSpace{dims: dims}
	for {
		r.levels = append(r.levels, make([]int64, n*dims))
		if n <= fanout {
			return r
		}
		n = (n + fanout - 1) / fanout
	}
}

// Clone returns a copy that may be changed.
func (r *FreeSpace) Clone() *FreeSpace {
	out := &FreeSpace{dims: r.dims, levels: make([][]int64, len(r.levels))}
	for i, level := range r.levels {
		out.levels[i] = append([]int64(nil), level...)
	}
	return out
}

// Set changes the free capacity of slot i.
func (r *FreeSpace) Set(i int, room *quantity.Vector) {
	copy(r.levels[0][i*r.dims:(i+1)*r.dims], room[:r.dims])
	for l := 1; l < len(r.levels); l++ {
		i /= fanout
		if !r.updateMaximum(l, i) {
			return
		}
	}
}

// Close makes slot i hold no request, not even one for nothing of some resource.
func (r *FreeSpace) Close(i int) {
	var closed quantity.Vector
	for d := range closed {
		closed[d] = -1
	}
	r.Set(i, &closed)
}

// raise computes maximum i of level l again; false when it has not changed.
func (r *FreeSpace) updateMaximum(l, i int) bool {
	below := r.levels[l-1]
	from, to := i*fanout*r.dims, min(len(below), (i+1)*fanout*r.dims)
	changed := false
	for d := range r.dims {
		most := below[from+d]
		for at := from + r.dims + d; at < to; at += r.dims {
			most = max(most, below[at])
		}
		if at := i*r.dims + d; r.levels[l][at] != most {
			r.levels[l][at], changed = most, true
		}
	}
	return changed
}

// covers reports whether slot i has at least as much of every resource as room.
func (r *FreeSpace) holdsAll(i int, room *quantity.Vector) bool {
	for d, have := range r.levels[0][i*r.dims : (i+1)*r.dims] {
		if have < room[d] {
			return false
		}
	}
	return true
}

// NextWithRoom returns the first slot in [from, to) that holds the request, or -1. The
// request asks only for resources in dims.
func (r *FreeSpace) NextWithRoom(from, to int, request *quantity.Vector, dims []quantity.Dim) int {
	for i := from; i < to; {
		level := 0
		for level+1 < len(r.levels) && i&(1<<(fanoutBits*(level+1))-1) == 0 &&
			!r.holds(level+1, i>>(fanoutBits*(level+1)), request, dims) {
			level++
		}
		if level == 0 && r.holds(0, i, request, dims) {
			return i
		}
		i += 1 << (fanoutBits * level)
	}
	return -1
}

func (r *FreeSpace) holds(level, i int, request *quantity.Vector, dims []quantity.Dim) bool {
	room := r.levels[level][i*r.dims : (i+1)*r.dims]
	for _, d := range dims {
		if room[d] < request[d] {
			return false
		}
	}
	return true
}
