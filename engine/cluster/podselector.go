package cluster

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// PodSelector is the pods that one selector picks, wherever they run. Selectors that
// say the same share one PodSelector.
type PodSelector struct {
	id      int
	key     string
	refs    int // classes whose constraints name it
	members []*PodClass

	namespaces []string
	byLabels   bool // namespaces are admitted by label, too
	namespace  constraint.Set
	labels     constraint.Set
	nothing    bool
	// anchor is a label, with its value, that everybody it picks has; empty when
	// there is no such label.
	anchor string
}

// ID tells the crowds of a Snapshot apart: a small number.
func (g *PodSelector) ID() int { return g.id }

// Crowds are the IDs of the crowds that pick the class. They must not be changed.
func (c *PodClass) Crowds() bitset.Set { return c.crowds }

// Has reports whether the selector picks the pods of a class.
func (g *PodSelector) Selects(c *PodClass) bool { return c.crowds.Has(g.id) }

// Members are the classes that the selector picks, in no order. They must not be changed.
func (g *PodSelector) Classes() []*PodClass { return g.members }

// Each calls f for every node that takes part in decisions and runs pods of the
// crowd: how many, and how many of them are terminating. The order is undefined.
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

// AntiAffinityTerm is a required anti-affinity term that some pods have: nothing its
// PodSelector picks may share a value of Key with them.
type AntiAffinityTerm struct {
	Key  *constraint.Key
	Pods *PodSelector

	key    string
	owners []*PodClass
}

// Owners are the classes whose pods have the term, in no order. They must not be changed.
func (r *AntiAffinityTerm) Owners() []*PodClass { return r.owners }

// Each is PodSelector.EachNode for the pods that have the term.
func (r *AntiAffinityTerm) EachNode(real bool, f func(h *NodeInfo, pods, terminating int)) {
	eachOf(r.owners, real, f)
}

// Repulsions are the required anti-affinity terms that the class's own pods have. They must not be
// changed.
func (c *PodClass) Repulsions() []*AntiAffinityTerm { return c.repulsions }

// Repelling lists those of the Snapshot's Repulsions that keep pods of the class away, in order.
func (w *Snapshot) AntiAffinityAgainst(c *PodClass) []*AntiAffinityTerm {
	var out []*AntiAffinityTerm
	for _, r := range w.AntiAffinityTerms {
		if r.Pods.Selects(c) {
			out = append(out, r)
		}
	}
	return out
}

// Owned reports whether the pods of a class have the term.
func (r *AntiAffinityTerm) OwnedBy(c *PodClass) bool { return slices.Contains(c.repulsions, r) }

// each visits the nodes that run pods of the class. Nodes that are leaving are
// not among them: what runs there will not be there when the plan comes true.
func (c *PodClass) each(f func(h *NodeInfo, pods, terminating int)) {
	for place, n := range c.on {
		if h := place.host; h != nil && !h.Leaving {
			f(h, int(n.pods), int(n.dying))
		}
	}
}

// crowd returns the PodSelector of a selector, making it when it is new. The class that
// names it must be released again.
func (b *Builder) crowd(sel Selector) (*PodSelector, error) {
	b.scratch.reset()
	b.scratch.selector(sel)
	if g := b.crowds[string(b.scratch.bytes)]; g != nil {
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
	if n := len(b.freeCrowds); n > 0 {
		g.id, b.freeCrowds = b.freeCrowds[n-1], b.freeCrowds[:n-1]
	} else {
		g.id = len(b.crowds)
	}
	b.register(g)
	for _, c := range b.candidates(g) {
		b.enlist(g, c)
	}
	return g, nil
}

// register makes a crowd known by its id and by what all of its members have.
func (b *Builder) register(g *PodSelector) {
	b.crowds[g.key] = g
	if g.id == len(b.crowdByID) {
		b.crowdByID = append(b.crowdByID, nil)
	}
	b.crowdByID[g.id] = g
	for _, q := range g.labels {
		if v, ok := q.Single(); ok {
			g.anchor = anchor(q.Key.Name, v)
			break
		}
	}
	b.anchored[g.anchor] = append(b.anchored[g.anchor], g)
}

func anchor(label, value string) string { return label + "\x00" + value }

// candidates are classes among which all are that the selector picks.
func (b *Builder) candidates(g *PodSelector) []*PodClass {
	if g.anchor == "" {
		return slices.Collect(maps.Values(b.classes))
	}
	return b.labelled[g.anchor]
}

// enlist makes the class a member of the crowd when the selector picks it.
func (b *Builder) enlist(g *PodSelector, c *PodClass) {
	if b.picks(g, c) {
		g.members = append(g.members, c)
		c.crowds.Put(g.id)
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

// releaseCrowd drops one class's interest in the crowd.
func (b *Builder) releaseCrowd(g *PodSelector) {
	if g.refs--; g.refs > 0 {
		return
	}
	for _, c := range g.members {
		c.crowds.Drop(g.id)
	}
	delete(b.crowds, g.key)
	b.crowdByID[g.id] = nil
	b.anchored[g.anchor] = drop(b.anchored[g.anchor], g)
	if len(b.anchored[g.anchor]) == 0 {
		delete(b.anchored, g.anchor)
	}
	b.freeCrowds = append(b.freeCrowds, g.id)
}

// regroup looks again at the crowds that pick namespaces by label.
func (b *Builder) regroup() {
	for _, g := range b.crowds {
		if !g.byLabels {
			continue
		}
		for _, c := range g.members {
			c.crowds.Drop(g.id)
		}
		g.members = nil
		for _, c := range b.candidates(g) {
			b.enlist(g, c)
		}
	}
}

// repulsion returns the shared term, making it when it is new.
func (b *Builder) repulsion(key *constraint.Key, g *PodSelector, owner *PodClass) *AntiAffinityTerm {
	name := key.Name + "\x00" + g.key
	r := b.repulsions[name]
	if r == nil {
		r = &AntiAffinityTerm{Key: key, Pods: g, key: name}
		b.repulsions[name], b.repelling = r, nil
	}
	r.owners = append(r.owners, owner)
	return r
}

func (b *Builder) releaseRepulsion(r *AntiAffinityTerm, owner *PodClass) {
	r.owners = drop(r.owners, owner)
	if len(r.owners) == 0 {
		delete(b.repulsions, r.key)
		b.repelling = nil
	}
}

func (g *PodSelector) forget(c *PodClass) {
	g.members = drop(g.members, c)
	c.crowds.Drop(g.id)
}

// drop takes x out of the list, which is in no order.
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
