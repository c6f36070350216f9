// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/disrupt"
)

// disruption looks for moves and executes them, in the order of controller/disruption.
type disruption struct {
	c        *Cluster
	moves    []*move
	chosen   int                  // moves ever chosen
	backoff  map[string]time.Time // by node: until when no move takes it
	failures map[string]int       // by node: failed moves in sequence

	changesSearched int  // changes of the cluster at the last search
	searchDue       bool // a search is scheduled
	lastSearch      time.Time
	wakeAt          time.Time // when a search is due because a reason lapses
}

func newDisruption(c *Cluster) *disruption {
	return &disruption{c: c, backoff: map[string]time.Time{}, failures: map[string]int{}}
}

// schedule makes a search due where something changed since the last one.
func (d *disruption) schedule() {
	if d.c.changes != d.changesSearched {
		d.searchAt(d.lastSearch.Add(d.c.Durations.SearchInterval))
	}
}

// searchAt looks for moves then, or at once when that has passed. A search that is due
// already sees later changes, too.
func (d *disruption) searchAt(t time.Time) {
	if d.searchDue {
		return
	}
	d.searchDue = true
	d.c.after(max(time.Second, t.Sub(d.c.now)), func() { d.search() })
}

func (d *disruption) search() {
	d.searchDue, d.lastSearch = false, d.c.now
	snapshot := d.c.mirror.snapshot()
	facts := d.input(nil)
	d.changesSearched = d.c.changes
	d.c.Stats.Searches++
	plan := d.c.decider.Search(snapshot, facts)
	d.c.Checker.checkReasons(plan)
	for _, m := range plan.Moves {
		d.choose(m)
	}
	d.searchWhenReasonsLapse(plan.Kept)
}

// searchWhenReasonsLapse searches again when the first reason to keep a node lapses by itself.
func (d *disruption) searchWhenReasonsLapse(left []disrupt.Kept) {
	var first time.Time
	for _, l := range left {
		if !l.Until.IsZero() && l.Until.After(d.c.now) && (first.IsZero() || l.Until.Before(first)) {
			first = l.Until
		}
	}
	if first.IsZero() || d.wakeAt.After(d.c.now) && !d.wakeAt.After(first) {
		return
	}
	d.wakeAt = first
	d.c.after(first.Sub(d.c.now), func() { d.c.changes++ })
}

// choose begins a move. A voluntary move waits and is checked again.
func (d *disruption) choose(plan disrupt.Move) {
	d.chosen++
	m := &move{Move: plan, id: d.chosen}
	for _, key := range plan.Nodes {
		n := d.c.nodes.find(key)
		if n == nil || n.move != nil {
			d.c.Checker.violation("disjoint", "move %d takes %s, which is gone or moves already", m.id, key)
			return
		}
		m.nodes = append(m.nodes, n)
	}
	for _, n := range m.nodes {
		n.move = m
	}
	d.moves = append(d.moves, m)
	d.c.Stats.Moves++
	d.c.logf("move %d: %s %v, %d launches, %d evictions, %s -> %s %s", m.id, m.Cause, m.Nodes, len(m.Launches), m.Evictions, m.PriceBefore, m.PriceAfter, m.Detail)
	for _, h := range plan.Nominations {
		d.c.logf("  to %s: %s", h.Node, d.c.describe(h.Pods))
	}
	d.c.Checker.moveChosen(m)
	wait := d.c.Durations.Validation
	if !m.voluntary() {
		wait = time.Second
	}
	d.c.after(wait, func() { d.validate(m) })
}

// validate looks at the move again and, while it is right, taints its nodes.
func (d *disruption) validate(m *move) {
	if m.stage == over {
		return
	}
	now, left := d.c.decider.Recheck(d.c.mirror.snapshot(), d.input(m), m.Move)
	if left.Because != "" {
		d.c.logf("move %d rejected: %s %s", m.id, left.Because, left.Detail)
		d.c.Stats.Rejected++
		d.end(m)
		return
	}
	d.c.Checker.moveRechecked(m, now)
	m.Move = now
	for _, n := range slices.Clone(m.nodes) {
		if !slices.Contains(now.Nodes, n.key) {
			m.drop(n)
		}
	}
	m.stage = tainted
	for _, n := range m.nodes {
		n.tainted = true
	}
	d.c.changed()
	d.c.Checker.nodesTainted(m)
	d.c.after(time.Second, func() { d.launch(m) })
}

// launch looks past all caches once more, now that no new pod can be bound to the nodes,
// and launches their replacements.
func (d *disruption) launch(m *move) {
	if m.stage == over {
		return
	}
	for _, n := range slices.Clone(m.nodes) {
		why := d.objection(m, n)
		if why == "" {
			continue
		}
		if m.Cause != disrupt.Empty || len(m.nodes) == 1 {
			d.c.logf("move %d withdrawn: %s %s", m.id, n.key, why)
			d.c.Stats.Rejected++
			d.end(m)
			return
		}
		m.drop(n)
	}
	m.stage = launched
	for _, l := range m.Launches {
		r := d.c.nodes.order(l.Pool, l.Offerings)
		r.replacementFor = m
		m.replacements = append(m.replacements, r)
		d.c.mirror.nominate(r.key, l.Pods)
	}
	for _, h := range m.Nominations {
		d.c.mirror.nominate(h.Node, h.Pods)
	}
	for _, n := range m.nodes {
		for _, p := range n.pods {
			d.c.mirror.podChanged(p)
		}
	}
	d.c.Checker.replacementsOrdered(m)
	d.c.changed()
	d.c.after(d.c.Durations.RegistrationTimeout, func() {
		if m.stage == launched {
			d.fail(m, "a replacement never came")
		}
	})
	d.advance(m)
}

// objection is the reason against disrupting the node that the check after the taint finds.
func (d *disruption) objection(m *move, n *node) string {
	switch {
	case n.isDeleting():
		return "is going by itself"
	case n.doNotDisrupt:
		return "is not to be disrupted"
	case m.Cause == disrupt.Empty && n.hasPods():
		return "is not empty any more"
	case !m.voluntary() && n.pool.TerminationGracePeriod > 0:
		return ""
	}
	for _, p := range n.pods {
		if !p.terminating && p.protected(d.c.now) {
			return "runs " + p.uid + ", which is not to be disrupted"
		}
		if !p.terminating && p.owner.allowedEvictions() == 0 {
			return "runs " + p.uid + ", which may not be evicted"
		}
	}
	return ""
}

// advance drains the nodes once every replacement is there.
func (d *disruption) advance(m *move) {
	if m.stage != launched {
		return
	}
	for _, r := range m.replacements {
		if r.phase == gone {
			d.fail(m, "a replacement is gone")
			return
		}
		if !r.ready() { // not yet, or not any more: then it is removed soon
			return
		}
	}
	m.stage = draining
	d.c.undone.track(m)
	for _, n := range m.nodes {
		d.c.Stats.ByCause[m.Cause]++
		d.c.nodes.delete(n)
	}
	d.c.Checker.drainBegan(m)
}

// fail cancels a move; its nodes back off, longer each time.
func (d *disruption) fail(m *move, why string) {
	d.c.logf("move %d failed: %s", m.id, why)
	d.c.Stats.Failed++
	for _, n := range m.nodes {
		d.failures[n.key]++
		d.backoff[n.key] = d.c.now.Add(min(time.Hour, time.Minute<<min(6, d.failures[n.key]-1)))
	}
	for _, r := range m.replacements {
		if r.phase != gone && len(r.pods) == 0 {
			d.c.nodes.delete(r)
		}
	}
	d.end(m)
}

// end forgets the move; its nodes, where they are not deleted, are kept.
func (d *disruption) end(m *move) {
	m.stage = over
	for _, n := range slices.Clone(m.nodes) {
		if n.isDeleting() {
			continue
		}
		m.drop(n)
		for _, p := range n.pods {
			p.nominatedTo = ""
			d.c.mirror.podChanged(p)
		}
	}
	d.moves = slices.DeleteFunc(d.moves, func(o *move) bool { return o == m })
	d.c.changed()
}

// progress updates moves when something changed: replacements that initialized or failed,
// nodes that were deleted otherwise.
func (d *disruption) progress() {
	for _, m := range slices.Clone(d.moves) {
		m.nodes = slices.DeleteFunc(m.nodes, func(n *node) bool { return n.phase == gone })
		switch {
		case len(m.nodes) == 0:
			d.c.Checker.moveEnded(m)
			d.c.undone.nodesDeleted(m)
			d.end(m)
		case m.stage == launched:
			d.advance(m)
		}
	}
}
