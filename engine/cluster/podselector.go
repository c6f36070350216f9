// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// PodSelector is the pods that one selector picks, on whatever node they run. Equal
// selectors share one PodSelector.
type PodSelector struct {
	id      int
	key     string
	refs    int // classes whose constraints name it
	members []*PodClass

	namespaces []string
	byLabels   bool // namespaces are also admitted by label
	namespace  constraint.Set
	labels     constraint.Set
	nothing    bool
	// anchor is a label and its value that every picked pod has; empty when there is no such
	// label.
	anchor string
}

// ID is a small number, different for every PodSelector of a Snapshot.
func (g *PodSelector) ID() int { return g.id }

// Selectors are the IDs of the PodSelectors that pick the class. They must not be changed.
func (c *PodClass) Selectors() bitset.Set { return c.selectors }

// Selects reports whether the selector picks the pods of a class.
func (g *PodSelector) Selects(c *PodClass) bool { return c.selectors.Has(g.id) }

// Classes are the classes that the selector picks, in no order. They must not be changed.
func (g *PodSelector) Classes() []*PodClass { return g.members }

// EachNode calls f for every node that takes part in decisions and runs picked pods: with
// the number of these pods, and how many of them are terminating. The order is undefined.
// With real, virtual pods are left out.
func (g *PodSelector) EachNode(real bool, f func(h *NodeInfo, pods, terminating int)) {
	eachOf(g.members, real, f)
}

func eachOf(classes []*PodClass, real bool, f func(h *NodeInfo, pods, terminating int)) {
	for _, c := range classes {
		if !(real && c.Virtual) {
			c.each(f)
		}
	}
}

// AntiAffinityTerm is a required anti-affinity term of some pods: a pod that Pods picks must
// not run in the same domain of Key as they do.
type AntiAffinityTerm struct {
	Key  *constraint.Key
	Pods *PodSelector

	key    string
	owners []*PodClass
}

// Owners are the classes whose pods have the term, in no order. They must not be changed.
func (r *AntiAffinityTerm) Owners() []*PodClass { return r.owners }

// EachNode is PodSelector.EachNode for the pods that have the term.
func (r *AntiAffinityTerm) EachNode(real bool, f func(h *NodeInfo, pods, terminating int)) {
	eachOf(r.owners, real, f)
}

// RequiredAntiAffinity lists the required anti-affinity terms of the class's own pods. They
// must not be changed.
func (c *PodClass) RequiredAntiAffinity() []*AntiAffinityTerm { return c.ownTerms }

// AntiAffinityAgainst lists those of the Snapshot's AntiAffinityTerms whose selector picks
// pods of the class, in order.
func (w *Snapshot) AntiAffinityAgainst(c *PodClass) []*AntiAffinityTerm {
	var out []*AntiAffinityTerm
	for _, r := range w.AntiAffinityTerms {
		if r.Pods.Selects(c) {
			out = append(out, r)
		}
	}
	return out
}

// OwnedBy reports whether the pods of a class have the term.
func (r *AntiAffinityTerm) OwnedBy(c *PodClass) bool { return slices.Contains(c.ownTerms, r) }

// each visits the nodes that run pods of the class. Leaving nodes are left out: their pods run
// elsewhere once the plan has been carried out.
func (c *PodClass) each(f func(h *NodeInfo, pods, terminating int)) {
	for place, n := range c.on {
		if h := place.host; h != nil && !h.Leaving {
			f(h, int(n.pods), int(n.dying))
		}
	}
}

// selector returns the PodSelector of a selector, and makes it when it is new. It counts one
// reference, which the class that names the selector releases with releaseSelector.
func (b *Builder) selector(sel Selector) (*PodSelector, error) {
	b.scratch.reset()
	b.scratch.selector(sel)
	if g := b.selectors[string(b.scratch.bytes)]; g != nil {
		g.refs++
		return g, nil
	}
	g := &PodSelector{key: string(b.scratch.bytes), refs: 1, namespaces: sel.Namespaces, byLabels: sel.NamespaceLabels != nil, nothing: sel.Nothing}
	var err error
	if g.labels, err = b.podLabels.Set(sel.Labels); err != nil {
		return nil, err
	}
	if g.namespace, err = b.podLabels.Set(sel.NamespaceLabels); err != nil {
		return nil, err
	}
	if n := len(b.freeSelectors); n > 0 {
		g.id, b.freeSelectors = b.freeSelectors[n-1], b.freeSelectors[:n-1]
	} else {
		g.id = len(b.selectors)
	}
	b.register(g)
	for _, c := range b.candidates(g) {
		b.enlist(g, c)
	}
	return g, nil
}

// register adds the PodSelector to the maps by key, by ID and by anchor.
func (b *Builder) register(g *PodSelector) {
	b.selectors[g.key] = g
	if g.id == len(b.selectorByID) {
		b.selectorByID = append(b.selectorByID, nil)
	}
	b.selectorByID[g.id] = g
	for _, q := range g.labels {
		if v, ok := q.Single(); ok {
			g.anchor = anchor(q.Key.Name, v)
			break
		}
	}
	b.anchored[g.anchor] = append(b.anchored[g.anchor], g)
}

func anchor(label, value string) string { return label + "\x00" + value }

// candidates returns classes that include all classes that the selector picks.
func (b *Builder) candidates(g *PodSelector) []*PodClass {
	if g.anchor == "" {
		return slices.Collect(maps.Values(b.classes))
	}
	return b.labelled[g.anchor]
}

// enlist adds the class to the PodSelector's classes when the selector picks it.
func (b *Builder) enlist(g *PodSelector, c *PodClass) {
	if b.picks(g, c) {
		g.members = append(g.members, c)
		c.selectors.Put(g.id)
	}
}

func (b *Builder) picks(g *PodSelector, c *PodClass) bool {
	if g.nothing {
		return false
	}
	if !slices.Contains(g.namespaces, c.namespace) {
		if !g.byLabels || !meetsLabels(g.namespace, b.namespaces[c.namespace]) {
			return false
		}
	}
	return meetsLabels(g.labels, c.labels)
}

func meetsLabels(set constraint.Set, labels map[string]string) bool {
	for _, q := range set {
		v, ok := labels[q.Key.Name]
		if ok && !q.Admits(q.Key.ID(v)) || !ok && !q.AdmitsAbsent() {
			return false
		}
	}
	return true
}

// releaseSelector drops one class's reference to the PodSelector, and removes the PodSelector with
// the last one.
func (b *Builder) releaseSelector(g *PodSelector) {
	if g.refs--; g.refs > 0 {
		return
	}
	for _, c := range g.members {
		c.selectors.Drop(g.id)
	}
	delete(b.selectors, g.key)
	b.selectorByID[g.id] = nil
	b.anchored[g.anchor] = drop(b.anchored[g.anchor], g)
	if len(b.anchored[g.anchor]) == 0 {
		delete(b.anchored, g.anchor)
	}
	b.freeSelectors = append(b.freeSelectors, g.id)
}

// regroup matches again the selectors that pick namespaces by label.
func (b *Builder) regroup() {
	for _, g := range b.selectors {
		if !g.byLabels {
			continue
		}
		for _, c := range g.members {
			c.selectors.Drop(g.id)
		}
		g.members = nil
		for _, c := range b.candidates(g) {
			b.enlist(g, c)
		}
	}
}

// antiAffinityTerms is the required anti-affinity terms of all pods, each shared by the classes
// whose pods have it.
type antiAffinityTerms struct {
	byKey  map[string]*AntiAffinityTerm
	sorted []*AntiAffinityTerm // nil when it must be computed again
}

// of returns the shared term, and makes it when it is new.
func (s *antiAffinityTerms) of(key *constraint.Key, g *PodSelector, owner *PodClass) *AntiAffinityTerm {
	name := key.Name + "\x00" + g.key
	t := s.byKey[name]
	if t == nil {
		t = &AntiAffinityTerm{Key: key, Pods: g, key: name}
		s.byKey[name], s.sorted = t, nil
	}
	t.owners = append(t.owners, owner)
	return t
}

// release takes the term from one of its classes, and forgets it with the last one.
func (s *antiAffinityTerms) release(t *AntiAffinityTerm, owner *PodClass) {
	t.owners = drop(t.owners, owner)
	if len(t.owners) == 0 {
		delete(s.byKey, t.key)
		s.sorted = nil
	}
}

// inOrder lists the terms by key.
func (s *antiAffinityTerms) inOrder() []*AntiAffinityTerm {
	if s.sorted == nil {
		s.sorted = slices.SortedFunc(maps.Values(s.byKey), func(x, y *AntiAffinityTerm) int { return cmp.Compare(x.key, y.key) })
	}
	return s.sorted
}

func (g *PodSelector) forget(c *PodClass) {
	g.members = drop(g.members, c)
	c.selectors.Drop(g.id)
}

// drop removes x from the list, which is in no order.
func drop[T comparable](list []T, x T) []T {
	i := slices.Index(list, x)
	if i < 0 {
		return list
	}
	last := len(list) - 1
	list[i] = list[last]
	clear(list[last:])
	return list[:last]
}
