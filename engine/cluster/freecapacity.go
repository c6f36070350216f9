// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/karve-dev/karve/engine/quantity"

// fanout is how many slots share a maximum, and how many maxima share one of the next level.
const (
	fanoutBits = 4
	fanout     = 1 << fanoutBits
)

// FreeCapacity is the free capacity of nodes by slot. It finds the first slot that holds a
// request: maxima over stretches of 16, 256 and so on let the search skip full nodes.
type FreeCapacity struct {
	dims   int       // resources per slot
	levels [][]int64 // levels[0] is the free capacity by slot, levels[n] maxima over stretches of 16ⁿ
}

// NewFreeCapacity makes n slots that hold nothing, with the first dims resources of a Vector.
func NewFreeCapacity(n, dims int) *FreeCapacity {
	f := &FreeCapacity{dims: dims}
	for {
		f.levels = append(f.levels, make([]int64, n*dims))
		if n <= fanout {
			return f
		}
		n = (n + fanout - 1) / fanout
	}
}

// Clone returns a copy that may be changed.
func (f *FreeCapacity) Clone() *FreeCapacity {
	out := &FreeCapacity{dims: f.dims, levels: make([][]int64, len(f.levels))}
	for i, level := range f.levels {
		out.levels[i] = append([]int64(nil), level...)
	}
	return out
}

// Set changes the free capacity of slot i.
func (f *FreeCapacity) Set(i int, free *quantity.Vector) {
	copy(f.levels[0][i*f.dims:(i+1)*f.dims], free[:f.dims])
	for l := 1; l < len(f.levels); l++ {
		i /= fanout
		if !f.updateMaximum(l, i) {
			return
		}
	}
}

// At is the free capacity of slot i. It must not be changed.
func (f *FreeCapacity) At(i int) []int64 { return f.levels[0][i*f.dims : (i+1)*f.dims] }

// Close makes slot i hold no request, not even one for nothing of some resource.
func (f *FreeCapacity) Close(i int) {
	var closed quantity.Vector
	for d := range closed {
		closed[d] = -1
	}
	f.Set(i, &closed)
}

// updateMaximum computes maximum i of level l again; false when it has not changed.
func (f *FreeCapacity) updateMaximum(l, i int) bool {
	below := f.levels[l-1]
	from, to := i*fanout*f.dims, min(len(below), (i+1)*fanout*f.dims)
	changed := false
	for d := range f.dims {
		most := below[from+d]
		for at := from + f.dims + d; at < to; at += f.dims {
			most = max(most, below[at])
		}
		if at := i*f.dims + d; f.levels[l][at] != most {
			f.levels[l][at], changed = most, true
		}
	}
	return changed
}

// holdsAll reports whether slot i has at least as much of every resource as free.
func (f *FreeCapacity) holdsAll(i int, free *quantity.Vector) bool {
	for d, have := range f.At(i) {
		if have < free[d] {
			return false
		}
	}
	return true
}

// NextFitting returns the first slot in [from, to) that holds the request, or -1. The
// request asks only for resources in dims.
func (f *FreeCapacity) NextFitting(from, to int, request *quantity.Vector, dims []quantity.Dim) int {
	for i := from; i < to; {
		level := 0
		for level+1 < len(f.levels) && i&(1<<(fanoutBits*(level+1))-1) == 0 &&
			!f.holds(level+1, i>>(fanoutBits*(level+1)), request, dims) {
			level++
		}
		if level == 0 && f.holds(0, i, request, dims) {
			return i
		}
		i += 1 << (fanoutBits * level)
	}
	return -1
}

func (f *FreeCapacity) holds(level, i int, request *quantity.Vector, dims []quantity.Dim) bool {
	free := f.levels[level][i*f.dims : (i+1)*f.dims]
	for _, d := range dims {
		if free[d] < request[d] {
			return false
		}
	}
	return true
}
