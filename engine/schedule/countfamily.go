// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// countFamily is domain counts that differ only in which pods they count. Each has a place: the ID
// of its selector, or, where those are counted that have an anti-affinity term, the next number.
// Where as many selectors as there are pods each select most of these, the family finds the counts
// that include a pod, and adds to them, as sets of places.
type countFamily struct {
	like    *domainCount
	byPlace map[int]*domainCount
	places  bitset.Set
	// together are pods that were added to many counts at once, by value of the label, and
	// togetherTotal over all values.
	together      map[int]*tally
	togetherTotal tally
}

// manyCounts is from how many counts on pods are added to all of them at once.
const manyCounts = 64

// add adds n pods to the counts at the places, in the domain v.
func (f *countFamily) add(v int, in *includedCounts, n int) {
	if in.n < manyCounts {
		for place := range in.places.All() {
			f.byPlace[place].add(v, n)
		}
		return
	}
	if f.together == nil {
		f.together = map[int]*tally{}
	}
	if f.together[v] == nil {
		f.together[v] = &tally{}
	}
	f.together[v].add(&in.places, n)
	f.togetherTotal.add(&in.places, n)
}

// put gives the count its place.
func (f *countFamily) put(dc *domainCount) {
	dc.family, dc.place = f, len(f.byPlace)
	if dc.of.selector != nil {
		dc.place = dc.of.selector.ID()
	}
	f.byPlace[dc.place] = dc
	f.places.Put(dc.place)
}

// includedCounts are the counts of one family that include the pods of a group.
type includedCounts struct {
	family *countFamily
	places bitset.Sparse
	n      int // places
}

// first is the least number of the counts.
func (in *includedCounts) first() int {
	first := -1
	for place := range in.places.All() {
		if n := in.family.byPlace[place].number; first < 0 || n < first {
			first = n
		}
	}
	return first
}

// countFamilies sorts domain counts into families.
type countFamilies struct {
	index  countIndex // of the counts in all families
	all    []*countFamily
	byKey  map[familyKey]*countFamily
	sorted int // how many counts of topology.countList are in a family
}

// familyKey names the family of a domain count.
type familyKey struct {
	key                          *constraint.Key
	filter                       nodeFilter
	requiresKeys, hard, bySelect bool
	skipTerminating, skipVirtual bool
}

// sort puts the counts that are new into families. Whether some rule that must hold reads them has
// to be known.
func (x *countFamilies) sort(list []*domainCount) {
	for _, dc := range list[x.sorted:] {
		key := familyKey{
			key: dc.key, filter: dc.filter, requiresKeys: len(dc.requiredKeys) > 0, hard: dc.hard, bySelect: dc.of.selector != nil,
			skipTerminating: dc.of.skipTerminating, skipVirtual: dc.of.skipVirtual,
		}
		f := x.byKey[key]
		if f == nil {
			f = &countFamily{like: dc, byPlace: map[int]*domainCount{}}
			x.byKey[key] = f
			x.all = append(x.all, f)
		}
		f.put(dc)
		x.index.add(dc.of)
	}
	x.sorted = len(list)
}

// including returns, by family, the counts that some rule reads and that include pods of the class.
// The families are in the order of their first such counts.
func (x *countFamilies) including(c *cluster.PodClass, list []*domainCount) []includedCounts {
	if len(x.all) == 0 {
		return nil
	}
	var out []includedCounts
	if len(x.all) < c.Selectors().Len() && len(x.index.byTerm) == 0 {
		out = x.intersecting(c)
	} else {
		for number := range x.index.including(c).All() {
			dc := list[number]
			at := slices.IndexFunc(out, func(in includedCounts) bool { return in.family == dc.family })
			if at < 0 {
				at = len(out)
				out = append(out, includedCounts{family: dc.family})
			}
			out[at].places.Put(dc.place)
		}
	}
	for i := range out {
		out[i].dropUnread()
	}
	out = slices.DeleteFunc(out, func(in includedCounts) bool { return in.n == 0 })
	if len(out) > 1 {
		slices.SortFunc(out, func(a, b includedCounts) int { return cmp.Compare(a.first(), b.first()) })
	}
	return out
}

// intersecting returns for each family the counts that include pods of the class, when all count by
// selector. It pays off where there are fewer families than selectors of the class.
func (x *countFamilies) intersecting(c *cluster.PodClass) []includedCounts {
	var out []includedCounts
	for _, f := range x.all {
		if !(f.like.of.skipVirtual && c.Virtual) {
			out = append(out, includedCounts{family: f, places: c.Selectors().In(f.places)})
		}
	}
	return out
}

// dropUnread drops counts that no rule reads any more, and counts the others.
func (in *includedCounts) dropUnread() {
	if !in.family.like.hard {
		for place := range in.places.All() {
			if in.family.byPlace[place].readers == 0 {
				in.places.Drop(place)
			}
		}
	}
	in.n = in.places.Len()
}
