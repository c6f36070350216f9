package world

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
)

// Index groups the hosts by their values of some labels, by their taints and by
// whether they are initialized, and finds those with room in each group. It is
// kept current from decision to decision.
type Index struct {
	Groups []HostGroup
	Rooms  *Rooms // by slot; to be cloned before it is changed

	hosts []int32 // Host.Index by slot: group by group, ascending within each
	slots []int32 // by Host.Index
	lets  map[*Shape][]int32
}

// HostGroup is hosts that are alike as far as an Index can tell.
type HostGroup struct {
	First    *Host // one of them
	From, To int   // their slots
}

// Host returns the Host.Index of the host in a slot.
func (x *Index) Host(slot int) int { return int(x.hosts[slot]) }

// Slot returns the slot of the host with that Host.Index.
func (x *Index) Slot(host int) int { return int(x.slots[host]) }

// Accepting lists the groups whose hosts let pods of the shape in, by number. An
// Index over fewer labels than the shape asks for cannot tell.
func (x *Index) Accepting(s *Shape) []int32 {
	out, ok := x.lets[s]
	if !ok {
		for i := range x.Groups {
			if x.Groups[i].First.lets(s) {
				out = append(out, int32(i))
			}
		}
		x.lets[s] = out
	}
	return out
}

// lets is Accepts, whatever the shape demands of the host's name.
func (h *Host) lets(s *Shape) bool {
	if s.Named {
		_, ok := tolerates(s.Tolerations, h.Taints, s.AvoidSoft)
		return ok
	}
	return h.Accepts(s)
}

// Index returns the index over the keys, in any order; the hostname is left out.
func (w *World) Index(keys []*constraint.Key) *Index {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k *constraint.Key) bool { return k.Name == LabelHostname })
	slices.SortFunc(keys, func(a, b *constraint.Key) int { return cmp.Compare(a.Name, b.Name) })
	keys = slices.Compact(keys)
	var name strings.Builder
	for _, k := range keys {
		name.WriteString(k.Name)
		name.WriteByte(0)
	}
	x := w.indexes[name.String()]
	if x == nil {
		x = newIndex(w.Hosts, keys, w.Resources.Len())
		w.indexes[name.String()] = x
	}
	return x
}

func newIndex(hosts []*Host, keys []*constraint.Key, dims int) *Index {
	x := &Index{Rooms: newRooms(len(hosts), dims), hosts: make([]int32, len(hosts)), slots: make([]int32, len(hosts)), lets: map[*Shape][]int32{}}
	groups := map[string]int{}
	of := make([]int, len(hosts))
	var name []byte
	for i, h := range hosts {
		name = h.likeness(name[:0], keys)
		g, ok := groups[string(name)]
		if !ok {
			g = len(x.Groups)
			groups[string(name)] = g
			x.Groups = append(x.Groups, HostGroup{First: h})
		}
		of[i] = g
		x.Groups[g].To++
	}
	next := 0
	for g := range x.Groups {
		n := x.Groups[g].To
		x.Groups[g].From, x.Groups[g].To = next, next
		next += n
	}
	for i, h := range hosts {
		slot := x.Groups[of[i]].To
		x.Groups[of[i]].To++
		x.hosts[slot], x.slots[i] = int32(i), int32(slot)
		x.Rooms.Set(slot, &h.Free)
	}
	return x
}

// likeness writes bytes that are equal for hosts that an index puts together.
func (h *Host) likeness(b []byte, keys []*constraint.Key) []byte {
	b = append(b, 0)
	if h.Initialized {
		b[len(b)-1] = 1
	}
	for _, k := range keys {
		v, ok := h.labels[k]
		if !ok {
			v = -1
		}
		b = binary.AppendVarint(b, int64(v))
	}
	for _, t := range h.Taints {
		for _, part := range []string{t.Key, t.Value, string(t.Effect)} {
			b = binary.AppendUvarint(b, uint64(len(part)))
			b = append(b, part...)
		}
	}
	return b
}
