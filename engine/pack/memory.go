package pack

import (
	"maps"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/world"
)

// memory is what sketches of one Trial find alike, whatever is supposed.
type memory struct {
	censuses map[tallyKey]*world.Census
	rolls    map[rollKey]*world.Roll
	fits     map[fitKey]*world.Fit // see fit
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
		m = &memory{censuses: map[tallyKey]*world.Census{}, rolls: map[rollKey]*world.Roll{}, fits: map[fitKey]*world.Fit{}}
		*at = m
	}
	return m
}

// recall counts what runs for the tally, or remembers it.
func (s *solver) recall(k tallyKey, t *tally) {
	m := remember(s.w)
	c := m.censuses[k]
	if c == nil {
		c = t.follow(s.w)
		m.censuses[k] = c
	}
	t.counts, t.total, t.domains = maps.Clone(c.Counts), c.Total, map[int]bool{}
	if len(t.keys) == 0 {
		return
	}
	at := rollKey{k.key, k.filter}
	r := m.rolls[at]
	if r == nil {
		r = t.followRoll(s.w)
		m.rolls[at] = r
	}
	for v := range r.Counts {
		t.domains[v] = true
	}
}

// follow begins a census for the tally.
func (t *tally) follow(w *world.World) *world.Census {
	only := &tally{key: t.key, of: t.of, filter: t.filter, keys: t.keys}
	c := &world.Census{Key: t.key, Looks: only.passes, Has: only.of.bumped, Settled: t.of.settled}
	c.Counts, c.Total = only.census(w)
	w.Follow(c)
	return c
}

// followRoll begins a roll for the tally.
func (t *tally) followRoll(w *world.World) *world.Roll {
	only := &tally{key: t.key, filter: t.filter, keys: t.keys}
	r := &world.Roll{Key: t.key, Looks: only.passes, Counts: map[int]int{}}
	note := func(h *world.Host) {
		if v, ok := h.Value(t.key); ok && only.passes(h) {
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
