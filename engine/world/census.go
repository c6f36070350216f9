package world

import "github.com/karve-dev/karve/engine/constraint"

// Census counts pods of some kind by the value of a node label, on the nodes that it
// looks at. Nodes that are leaving are none.
type Census struct {
	Key *constraint.Key
	// Looks reports whether pods on the node count, Has whether pods of the class do. Both
	// must always answer the same.
	Looks func(*Host) bool
	Has   func(*Class) bool
	// Settled leaves out terminating pods.
	Settled bool

	// Counts are by value, without zeros. Total is their sum.
	Counts map[int]int
	Total  int
}

// Roll counts nodes by the value of a label: those that it looks at and that are not
// leaving, but for those that the Trial vacated (see Vacate).
type Roll struct {
	Key    *constraint.Key
	Looks  func(*Host) bool
	Counts map[int]int // never zero
}

// Tried reports whether the World is that of a Trial: it then pays to remember what was
// counted. Remembered is a place to keep it in, as long as the Trial lasts.
func (w *World) Tried() bool { return w.trial != nil }

// Remembered is what decisions about a Trial's World left for those that come after them;
// nil at first. It must be true of the World whatever is supposed.
func (w *World) Remembered() *any { return &w.trial.remembered }

// Follow keeps a Census, which says how things stand now, current while the Trial lasts.
func (w *World) Follow(c *Census) {
	t := w.trial
	t.censuses = append(t.censuses, c)
	for class, had := range t.watch {
		if c.Has(class) {
			t.watch[class] = append(had, c)
		}
	}
}

// FollowRoll does the same for a Roll.
func (w *World) FollowRoll(r *Roll) { w.trial.rolls = append(w.trial.rolls, r) }

// watching lists the censuses for which pods of the class count.
func (t *Trial) watching(c *Class) []*Census {
	out, ok := t.watch[c]
	if !ok {
		for _, census := range t.censuses {
			if census.Has(c) {
				out = append(out, census)
			}
		}
		t.watch[c] = out
	}
	return out
}

// recount adds the node with its pods to what is counted, or takes it off.
func (t *Trial) recount(h *Host, by int) {
	if h.Leaving && !h.vacated {
		return
	}
	for _, r := range t.rolls {
		if v, ok := h.Value(r.Key); ok && r.Looks(h) {
			if r.Counts[v] += by; r.Counts[v] == 0 {
				delete(r.Counts, v)
			}
		}
	}
	if h.Leaving {
		return
	}
	for _, m := range h.Crew() {
		for _, c := range t.watching(m.Class) {
			c.add(h, m, by)
		}
	}
}

func (c *Census) add(h *Host, m Member, by int) {
	v, ok := h.Value(c.Key)
	if !ok || !c.Looks(h) {
		return
	}
	n := m.Pods
	if c.Settled {
		n -= m.Terminating
	}
	c.Total += by * n
	if c.Counts[v] += by * n; c.Counts[v] == 0 {
		delete(c.Counts, v)
	}
}
