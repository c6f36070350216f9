package cluster

import "github.com/karve-dev/karve/engine/quantity"

// fanout is how many rooms share a maximum, and how many maxima the next one up.
const (
	fanoutBits = 4
	fanout     = 1 << fanoutBits
)

// FreeSpace is a row of rooms, searched for the first that holds a request: maxima
// over stretches of 16, 256 and so on let a search pass by what is full.
type FreeSpace struct {
	dims   int       // resources per room
	levels [][]int64 // levels[0] are the rooms, levels[n] maxima over stretches of 16ⁿ
}

// newRooms makes n rooms that hold nothing.
func newRooms(n, dims int) *FreeSpace {
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

// Set changes room i.
func (r *FreeSpace) Set(i int, room *quantity.Vector) {
	copy(r.levels[0][i*r.dims:(i+1)*r.dims], room[:r.dims])
	for l := 1; l < len(r.levels); l++ {
		i /= fanout
		if !r.raise(l, i) {
			return
		}
	}
}

// Close makes room i hold nothing, not even what asks for nothing of some resource.
func (r *FreeSpace) Close(i int) {
	var closed quantity.Vector
	for d := range closed {
		closed[d] = -1
	}
	r.Set(i, &closed)
}

// raise computes maximum i of level l anew; false when it is what it was.
func (r *FreeSpace) raise(l, i int) bool {
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

// covers reports whether room i has as much of everything.
func (r *FreeSpace) covers(i int, room *quantity.Vector) bool {
	for d, have := range r.levels[0][i*r.dims : (i+1)*r.dims] {
		if have < room[d] {
			return false
		}
	}
	return true
}

// Next returns the first room from from on, and before to, that holds the
// request, which asks for nothing but dims; -1 when there is none.
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
