package schedule

import (
	"slices"
	"strconv"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// spreadFilter is a nodeFilter put to rows: whether the spread constraint it belongs to
// looks at a node must be settled when pods that it counts get a cell, or the
// counts it was placed by do not come true.
type spreadFilter struct {
	filter nodeFilter
	id     int
	// ways are label requirements, one of which a node that is looked at meets.
	ways []constraint.Set
}

// partition is the rows of one market for which the answers of a class's sieves are the same.
type partition struct {
	name string // the answers, "" for none; tells sides of a class apart
	in   []bool // by sieve
	set  constraint.Set
	rows bitset.Set
}

// maxSpreadFilters bounds how finely places are told apart by who looks at them, as
// sides may double with each. The others are taken to look everywhere.
const maxSpreadFilters = 6

// spreadFilter returns the shared sieve of a tally's filter.
func (s *solver) spreadFilter(t *domainCount) *spreadFilter {
	if v := s.spreadFilters[t.filter]; v != nil {
		return v
	}
	v := &spreadFilter{filter: t.filter, id: len(s.spreadFilters), ways: []constraint.Set{nil}}
	if t.filter.affinity != nil {
		v.ways = slices.Clone(t.filter.affinity.OwnRequirements())
	}
	for i := range v.ways {
		for _, key := range t.keys {
			if key.Name != cluster.LabelHostname { // which every node has
				v.ways[i] = v.ways[i].With(key.Present())
			}
		}
	}
	s.spreadFilters[t.filter] = v
	return v
}

// findSieves notes which sieves tell apart places that the class could go to: all but
// those that a node meets whenever it takes the class, and those of spreads that are
// merely preferred. The class's keys must be known.
func (s *solver) findSpreadFilters(k *podGroup) {
	for i := range k.increments {
		t := k.increments[i].count
		k.increments[i].filter = -1
		own := func(of *cluster.PodShape) bool { return of == nil || of == k.PodClass.PodShape }
		if !t.hard || own(t.filter.affinity) && own(t.filter.taints) && !slices.ContainsFunc(t.keys, func(key *constraint.Key) bool {
			return key.Name != cluster.LabelHostname && !slices.Contains(k.keys, key)
		}) {
			continue
		}
		v := s.spreadFilter(t)
		at := slices.Index(k.spreadFilters, v)
		if at < 0 && len(k.spreadFilters) < maxSpreadFilters {
			at = len(k.spreadFilters)
			k.spreadFilters = append(k.spreadFilters, v)
		}
		k.increments[i].filter = at
	}
}

// sides splits rows of a market by the answers of the class's sieves.
func (s *solver) partitions(k *podGroup, m *poolState, rows bitset.Set) []partition {
	out := []partition{{rows: rows}}
	for _, v := range k.spreadFilters {
		ways := s.through(k, m, v)
		var next []partition
		for _, p := range out {
			next = append(next, p.split(v, ways)...)
		}
		out = next
	}
	return out
}

// split tells the rows that v lets through, by way, from those that it does not.
func (p partition) split(v *spreadFilter, ways []bitset.Set) []partition {
	var out []partition
	rest := p.rows
	for i, way := range ways {
		if here := rest.And(way); !here.Empty() {
			out = append(out, partition{name: p.name + v.name(i), in: append(slices.Clone(p.in), true), set: p.set.And(v.ways[i]), rows: here})
			rest = rest.Minus(here)
		}
	}
	if !rest.Empty() {
		out = append(out, partition{name: p.name + v.name(-1), in: append(slices.Clone(p.in), false), set: p.set, rows: rest})
	}
	return out
}

// name is the sieve's answer; a negative way means that it does not look there.
func (v *spreadFilter) name(way int) string {
	if way < 0 {
		return " outside " + strconv.Itoa(v.id)
	}
	return " inside " + strconv.Itoa(v.id) + "." + strconv.Itoa(way)
}

// through are the rows, by way, that the sieve can look at when they carry pods of
// the class. Where the launch may choose between labels it will have to choose
// those of the sieve.
func (s *solver) through(k *podGroup, m *poolState, v *spreadFilter) []bitset.Set {
	key := throughKey{m.PoolCatalog, k.PodShape, v}
	if rows, ok := s.lookedAt[key]; ok {
		return rows
	}
	var out []bitset.Set
	if v.filter.tolerates(m.Pool.Taints) {
		for _, way := range v.ways {
			out = append(out, m.MatchingBoth(k.PodShape, way))
		}
	}
	s.lookedAt[key] = out
	return out
}

// throughKey names what through remembers.
type throughKey struct {
	market *cluster.PoolCatalog
	shape  *cluster.PodShape
	sieve  *spreadFilter
}

func (f nodeFilter) tolerates(taints []cluster.Taint) bool {
	if f.taints == nil {
		return true
	}
	_, ok := cluster.Tolerates(f.taints.Tolerations, taints)
	return ok
}

// sideOf is the side a host is on.
func (k *podGroup) partitionOf(h *cluster.NodeInfo) partition {
	var p partition
	for _, v := range k.spreadFilters {
		way := slices.IndexFunc(v.ways, h.Matches)
		if v.filter.taints != nil && !h.Tolerated(v.filter.taints) {
			way = -1
		}
		p.name, p.in = p.name+v.name(way), append(p.in, way >= 0)
	}
	return p
}
