// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// podSelectors keeps the selectors that constraints of pods use, and which classes each of
// them selects. It finds this out when update is called, for all changes since the last time: for a
// new class by operations on sets of all selectors, because every selector may select most of the
// classes, as one with app NotIn [x] does.
type podSelectors struct {
	labels     *constraint.Interner // labels of pods and of namespaces
	index      podLabelIndex
	namespaces podNamespaces

	byKey   map[string]*PodSelector
	byID    []*PodSelector
	freeIDs []int // to be used again
	// optional are the selectors that select pods whatever labels they have not. severalLabels are
	// those that require more than one label to be present, and bounding those that bound a label
	// as an integer. listing are those that list their classes.
	optional                         bitset.Sparse
	severalLabels, bounding, listing bitset.Set

	classes []*PodClass // all classes
	onNodes []*PodClass // those with pods on nodes

	// What changed since the last update: stale are classes to be matched with every selector,
	// some of which may be removed, added are new selectors, and removed are IDs of removed
	// selectors that classes may still have.
	stale   []*PodClass
	added   []*PodSelector
	removed bitset.Set

	scratch          signature
	found            bitset.Sparse // scratch: what matching returns
	matched, rejects bitset.Set    // scratch
}

func newPodSelectors() podSelectors {
	return podSelectors{
		labels: constraint.NewInterner(), index: newPodLabelIndex(), namespaces: newPodNamespaces(), byKey: map[string]*PodSelector{},
	}
}

// classMatch is what podSelectors keeps of a class.
type classMatch struct {
	inNamespace *podNamespace
	labelled    []classLabel
	selectors   bitset.Sparse // IDs of the selectors that select the class
	// at is its position in podSelectors.classes, negative once it is removed. onNodesAt is one
	// more than that in onNodes, or zero.
	at, onNodesAt int
	stale         bool // it is in podSelectors.stale
}

// acquire returns the PodSelector of the pods that all the selectors match for one class more,
// which hands it back with release.
func (ss *podSelectors) acquire(all ...Selector) (*PodSelector, error) {
	key := ss.key(all)
	if s := ss.byKey[key]; s != nil {
		s.users++
		return s, nil
	}
	s := &PodSelector{key: key, users: 1, in: ss}
	for _, sel := range all {
		if err := ss.compile(s, sel); err != nil {
			return nil, err
		}
	}
	ss.add(s)
	return s, nil
}

// key identifies the selectors, in any order and however often each is named.
func (ss *podSelectors) key(all []Selector) string {
	if len(all) == 1 {
		ss.scratch.reset()
		ss.scratch.selector(all[0])
		return string(ss.scratch.bytes)
	}
	keys := make([]string, 0, len(all))
	for _, sel := range all {
		ss.scratch.reset()
		ss.scratch.selector(sel)
		keys = append(keys, string(ss.scratch.bytes))
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), "") // the key of a selector is no prefix of another's
}

// compile adds what one Selector requires to the PodSelector.
func (ss *podSelectors) compile(s *PodSelector, sel Selector) error {
	labels, err := ss.labels.Set(sel.Labels)
	if err != nil {
		return err
	}
	namespaceLabels, err := ss.labels.Set(sel.NamespaceLabels)
	if err != nil {
		return err
	}
	s.namespaces = append(s.namespaces, namespaceRule{names: sel.Namespaces, byLabels: sel.NamespaceLabels != nil, labels: namespaceLabels})
	if len(s.namespaces) == 1 {
		s.labels = labels
	} else {
		s.labels = s.labels.And(labels)
	}
	s.nothing = s.nothing || sel.Nothing
	return nil
}

// add gives the selector an ID and adds it to the indexes.
func (ss *podSelectors) add(s *PodSelector) {
	if n := len(ss.freeIDs); n > 0 {
		s.id, ss.freeIDs = ss.freeIDs[n-1], ss.freeIDs[:n-1]
		ss.byID[s.id] = s
	} else {
		s.id = len(ss.byID)
		ss.byID = append(ss.byID, s)
	}
	ss.byKey[s.key] = s
	ss.listing.Put(s.id)
	if s.nothing {
		return
	}
	present := 0
	for _, q := range s.labels {
		if !q.AdmitsAbsent() {
			present++
		}
		if q.HasBounds() {
			ss.bounding.Put(s.id)
		}
	}
	switch {
	case present == 0:
		ss.optional.Put(s.id)
	case present > 1:
		ss.severalLabels.Put(s.id)
	}
	ss.index.addSelector(s)
	ss.namespaces.addSelector(s)
	ss.added = append(ss.added, s)
}

// release takes the selector from one of its users, and removes it with the last one.
func (ss *podSelectors) release(s *PodSelector) {
	if s.users--; s.users > 0 {
		return
	}
	delete(ss.byKey, s.key)
	ss.byID[s.id] = nil
	ss.optional.Drop(s.id)
	for _, set := range []bitset.Set{ss.severalLabels, ss.bounding, ss.listing} {
		set.Drop(s.id)
	}
	if !s.nothing {
		ss.index.removeSelector(s)
		ss.namespaces.removeSelector(s)
	}
	if s.unlisted {
		ss.removed.Put(s.id)
		return
	}
	for _, c := range s.listed {
		c.selectors.Drop(s.id)
	}
	s.listed = nil
	ss.freeIDs = append(ss.freeIDs, s.id)
}

// addClass adds a new class.
func (ss *podSelectors) addClass(c *PodClass) {
	c.classMatch = classMatch{inNamespace: ss.namespaces.getOrAdd(c.namespace), at: len(ss.classes)}
	c.inNamespace.classes++
	ss.classes = append(ss.classes, c)
	ss.index.addClass(c, ss.labels)
	ss.markStale(c)
}

// removeClass removes the class, and from the selectors that list it.
func (ss *podSelectors) removeClass(c *PodClass) {
	for id := range c.selectors.AllIn(ss.listing) {
		s := ss.byID[id]
		s.listed = removeFrom(s.listed, c)
	}
	ss.index.removeClass(c)
	c.inNamespace.classes--
	ss.namespaces.dropIfUnused(c.inNamespace)
	last := len(ss.classes) - 1
	ss.classes[c.at] = ss.classes[last]
	ss.classes[c.at].at = c.at
	ss.classes[last], ss.classes = nil, ss.classes[:last]
	c.at = -1
}

func (ss *podSelectors) markStale(c *PodClass) {
	if !c.stale {
		c.stale = true
		ss.stale = append(ss.stale, c)
	}
}

// updateOnNodes adds the class to onNodes or removes it, when it has its first pods on a node or
// no more.
func (ss *podSelectors) updateOnNodes(c *PodClass) {
	switch {
	case len(c.podsOn) > 0 && c.onNodesAt == 0:
		ss.onNodes = append(ss.onNodes, c)
		c.onNodesAt = len(ss.onNodes)
	case len(c.podsOn) == 0 && c.onNodesAt > 0:
		last := len(ss.onNodes) - 1
		ss.onNodes[c.onNodesAt-1] = ss.onNodes[last]
		ss.onNodes[last].onNodesAt = c.onNodesAt
		ss.onNodes[last], ss.onNodes = nil, ss.onNodes[:last]
		c.onNodesAt = 0
	}
}

func (ss *podSelectors) setNamespace(name string, labels map[string]string) {
	n := ss.namespaces.getOrAdd(name)
	n.exists = true
	ss.setNamespaceLabels(n, labels)
}

func (ss *podSelectors) removeNamespace(name string) {
	if n := ss.namespaces.byName[name]; n != nil {
		n.exists = false
		ss.setNamespaceLabels(n, nil)
		ss.namespaces.dropIfUnused(n)
	}
}

// setNamespaceLabels has the classes of the namespace matched again, if that can change anything.
func (ss *podSelectors) setNamespaceLabels(n *podNamespace, labels map[string]string) {
	if !ss.namespaces.setLabels(n, labels) {
		return
	}
	for _, c := range ss.classes {
		if c.inNamespace == n {
			ss.markStale(c)
		}
	}
}

// update finds out which selectors select which classes by now.
func (ss *podSelectors) update() {
	ss.dropRemoved()
	ss.matchAdded()
	for _, c := range ss.stale {
		if c.stale = false; c.at >= 0 {
			ss.match(c)
		}
	}
	clear(ss.stale)
	ss.stale = ss.stale[:0]
	ss.found.Clear()
}

// dropRemoved drops the IDs of removed selectors from the classes, so that they can be used again.
func (ss *podSelectors) dropRemoved() {
	if ss.removed.Empty() {
		return
	}
	few := ss.removed.Len() < len(ss.removed)
	ids := slices.Collect(ss.removed.All())
	for _, c := range ss.classes {
		if !few {
			c.selectors.DropAll(ss.removed)
			continue
		}
		for _, id := range ids {
			c.selectors.Drop(id)
		}
	}
	ss.freeIDs = append(ss.freeIDs, ids...)
	ss.removed = nil
}

// matchAdded matches new selectors with the classes that are not stale: one by one, unless there
// are so many that it takes less to match the classes with all selectors.
func (ss *podSelectors) matchAdded() {
	added := slices.DeleteFunc(ss.added, func(s *PodSelector) bool { return ss.byID[s.id] != s })
	ss.added = ss.added[:0]
	defer clear(added)
	if len(ss.stale) >= len(ss.classes) && !slices.ContainsFunc(ss.classes, func(c *PodClass) bool { return !c.stale }) {
		return
	}
	pairs := 0
	for _, s := range added {
		pairs += s.candidateCount()
	}
	if pairs > len(ss.classes)*(8+len(ss.byID)/64) {
		for _, c := range ss.classes {
			ss.markStale(c)
		}
		return
	}
	for _, s := range added {
		s.eachCandidate(func(c *PodClass) {
			if !c.stale && s.matches(c) {
				c.selectors.Put(s.id)
				s.list(c)
			}
		})
	}
}

// candidateCount is how many classes eachCandidate visits.
func (s *PodSelector) candidateCount() int {
	if s.byValue == nil {
		return len(s.in.classes)
	}
	n := 0
	for _, v := range s.byValue {
		n += len(v.classes)
	}
	return n
}

// eachCandidate visits classes that include all classes that the selector matches.
func (s *PodSelector) eachCandidate(visit func(*PodClass)) {
	if s.byValue == nil {
		for _, c := range s.in.classes {
			visit(c)
		}
		return
	}
	for _, v := range s.byValue {
		for _, l := range v.classes {
			visit(l.class)
		}
	}
}

// match matches the class with every selector.
func (ss *podSelectors) match(c *PodClass) {
	matching := ss.matching(c)
	for id := range c.selectors.AllIn(ss.listing) {
		if !matching.Has(id) {
			s := ss.byID[id]
			s.listed = removeFrom(s.listed, c)
		}
	}
	for id := range matching.AllIn(ss.listing) {
		if !c.selectors.Has(id) {
			ss.byID[id].list(c)
		}
	}
	c.selectors.Copy(matching)
}

// fewCandidates is up to how many selectors that may select a class are matched with it one by one,
// and not all selectors at once as sets.
const fewCandidates = 32

// matching returns the IDs of the selectors that select the class, in memory that the next call
// uses again.
func (ss *podSelectors) matching(c *PodClass) *bitset.Sparse {
	candidates := ss.optional.Len()
	for _, l := range c.labelled {
		candidates += l.value.label.homed.Len() + l.value.homed.Len()
	}
	if candidates > fewCandidates {
		ss.found.Assign(ss.matchingOfMany(c))
		return &ss.found
	}
	ss.found.Clear()
	ss.putMatching(c, &ss.optional)
	for _, l := range c.labelled {
		ss.putMatching(c, &l.value.label.homed)
		ss.putMatching(c, &l.value.homed)
	}
	return &ss.found
}

// putMatching adds those of the candidates to found that match the class.
func (ss *podSelectors) putMatching(c *PodClass, candidates *bitset.Sparse) {
	for id := range candidates.All() {
		if ss.byID[id].matches(c) {
			ss.found.Put(id)
		}
	}
}

// matchingOfMany is matching by operations on sets of all selectors.
func (ss *podSelectors) matchingOfMany(c *PodClass) bitset.Set {
	out := &ss.matched
	ss.optional.CopyTo(out)
	for _, l := range c.labelled {
		l.value.label.homed.MergeInto(out)
		l.value.homed.MergeInto(out)
	}
	c.inNamespace.selectors.CopyTo(&ss.rejects)
	out.Keep(ss.rejects)
	for _, l := range c.labelled {
		l.value.label.only.CopyTo(&ss.rejects)
		l.value.naming.ToggleIn(&ss.rejects)
		out.DropAll(ss.rejects)
	}
	ss.dropWithLabelsMissing(c, *out)
	ss.dropIfUnmatched(c, *out, ss.bounding)
	return *out
}

// dropWithLabelsMissing drops the selectors that require a label that the class does not have.
func (ss *podSelectors) dropWithLabelsMissing(c *PodClass, found bitset.Set) {
	several := 0
	for i := range min(len(found), len(ss.severalLabels)) {
		several += bits.OnesCount64(found[i] & ss.severalLabels[i])
	}
	if several < len(ss.index.required) {
		ss.dropIfUnmatched(c, found, ss.severalLabels)
		return
	}
	if several == 0 {
		return
	}
	for l := range ss.index.required {
		if _, ok := c.value(l.key); !ok {
			l.requiring.DropFrom(found)
		}
	}
}

// dropIfUnmatched drops those of some selectors that do not match the class, one by one.
func (ss *podSelectors) dropIfUnmatched(c *PodClass, found, some bitset.Set) {
	for i := range min(len(found), len(some)) {
		for w := found[i] & some[i]; w != 0; w &= w - 1 {
			id := i*64 + bits.TrailingZeros64(w)
			if !ss.byID[id].matches(c) {
				found.Drop(id)
			}
		}
	}
}

// interned is for how many labels, values and selectors there is an ID, used or not.
func (ss *podSelectors) interned() int { return ss.labels.Len() + len(ss.byID) }
