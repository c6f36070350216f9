package pack

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/world"
)

// memory is what sketches of one Trial find alike, whatever is supposed.
type memory struct {
	censuses map[tallyKey]*world.Census
	rolls    map[rollKey]*world.Roll
	lenses   map[rollKey]*world.Lens
	fits     map[fitKey]*world.Fit        // see fit
	soft     *[]*world.Host               // see softlyTainted; nil until somebody asks
	sale     map[*world.Market]bitset.Set // see onSale
	terms    *terms
}

// rollKey names the nodes that a spread looks at, by the value of a label.
type rollKey struct {
	key    *constraint.Key
	filter nodeFilter
}

// remember returns the memory of the Trial of which w is the World.
func remember(w *world.World) *memory {
	at := w.Remembered()
	m, ok := (*at).(*memory)
	if !ok {
		m = &memory{censuses: map[tallyKey]*world.Census{}, rolls: map[rollKey]*world.Roll{}, lenses: map[rollKey]*world.Lens{}, fits: map[fitKey]*world.Fit{}, sale: map[*world.Market]bitset.Set{}}
		*at = m
	}
	return m
}

// softlyTainted lists, in order, hosts among which are all that merely prefer to keep pods away.
func softlyTainted(w *world.World) []*world.Host {
	if !w.Tried() {
		return w.Hosts
	}
	m := remember(w)
	if m.soft == nil {
		var out []*world.Host
		for _, h := range w.Hosts {
			if slices.ContainsFunc(h.Taints, func(t world.Taint) bool { return t.Effect == world.PreferNoSchedule }) {
				out = append(out, h)
			}
		}
		m.soft = &out
	}
	return *m.soft
}

// onSale are the market's rows that are available; nil where it does not pay to remember them.
func onSale(w *world.World, m *world.Market) bitset.Set {
	if !w.Tried() {
		return nil
	}
	known := remember(w).sale
	if known[m] == nil {
		known[m] = (&stall{Market: m}).onSale()
	}
	return known[m]
}

// terms are the required anti-affinity terms of the World's pods.
type terms struct {
	domains []*world.Repulsion // over labels other than the hostname
	apart   bitset.Set         // the crowds of the others, where pods without the term are among them
}

// termsOf sorts the terms, or remembers them.
func termsOf(w *world.World) *terms {
	if !w.Tried() {
		return newTerms(w)
	}
	m := remember(w)
	if m.terms == nil {
		m.terms = newTerms(w)
	}
	return m.terms
}

func newTerms(w *world.World) *terms {
	t := &terms{}
	for _, r := range w.Repulsions {
		switch {
		case r.Key.Name != world.LabelHostname:
			t.domains = append(t.domains, r)
		case slices.ContainsFunc(r.Crowd.Members(), func(c *world.Class) bool { return !r.Owned(c) }):
			t.apart.Put(r.Crowd.ID())
		}
	}
	return t
}

// recall counts what runs for the tally, or remembers it.
func (s *solver) recall(k tallyKey, t *tally) {
	m := remember(s.w)
	c := m.census(k, t, s.w)
	t.counts, t.total, t.domains = maps.Clone(c.Counts), c.Total, map[int]bool{}
	if len(t.keys) == 0 {
		return
	}
	for v := range m.roll(t, s.w).Counts {
		t.domains[v] = true
	}
}

// census is what the tally counts, followed from now on.
func (m *memory) census(k tallyKey, t *tally, w *world.World) *world.Census {
	c := m.censuses[k]
	if c == nil {
		c = m.follow(t, w)
		m.censuses[k] = c
	}
	return c
}

// roll is the nodes that the tally looks at, followed from now on.
func (m *memory) roll(t *tally, w *world.World) *world.Roll {
	at := rollKey{t.key, t.filter}
	r := m.rolls[at]
	if r == nil {
		r = m.followRoll(t, w)
		m.rolls[at] = r
	}
	return r
}

// lens is how the tally looks at nodes.
func (m *memory) lens(t *tally, w *world.World) *world.Lens {
	at := rollKey{t.key, t.filter}
	l := m.lenses[at]
	if l == nil {
		only := &tally{filter: t.filter, keys: t.keys}
		if labels, named := only.labels(); named {
			l = world.NewFineLens(t.key, only.passes)
		} else {
			l = w.NewLens(t.key, labels, only.passes)
		}
		m.lenses[at] = l
	}
	return l
}

// labels are those that the tally's filter looks at; true when the hostname is one of them.
func (t *tally) labels() (out []*constraint.Key, named bool) {
	out = slices.Clone(t.keys)
	if f := t.filter.affinity; f != nil {
		for _, alt := range f.Own() {
			for _, q := range alt {
				out, named = append(out, q.Key), named || q.Key.Name == world.LabelHostname
			}
		}
	}
	return out, named
}

// follow begins a census for the tally.
func (m *memory) follow(t *tally, w *world.World) *world.Census {
	of := t.of
	c := &world.Census{Lens: m.lens(t, w), Classes: of.classes(), Settled: of.settled, Counts: map[int]int{}}
	of.each(w, func(h *world.Host, n int) {
		if v, ok := c.Value(h); ok && n > 0 {
			c.Counts[v] += n
			c.Total += n
		}
	})
	w.Follow(c)
	return c
}

// followRoll begins a roll for the tally.
func (m *memory) followRoll(t *tally, w *world.World) *world.Roll {
	r := &world.Roll{Lens: m.lens(t, w), Counts: map[int]int{}}
	note := func(h *world.Host) {
		if v, ok := r.Value(h); ok {
			r.Counts[v]++
		}
	}
	for _, h := range w.Hosts {
		if open(h) {
			note(h)
		}
	}
	for _, h := range w.Stuck {
		note(h)
	}
	w.FollowRoll(r)
	return r
}
