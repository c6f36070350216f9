// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/disrupt"
)

// stage is the phase of a move.
type stage int

const (
	chosen   stage = iota // waits for its second look
	tainted               // its nodes take no more pods
	launched              // replacements are on their way, pods are nominated to them
	draining              // its nodes' claims are deleted
	over
)

// move is a move under way.
type move struct {
	disrupt.Move
	id    int
	stage stage
	nodes []*node
	// bought are its replacements.
	replacements []*node
	// unproved is the record of a consolidation until it is known whether it lasts; nil for none.
	record *recentConsolidation
}

// choose begins a move. A voluntary move waits and is checked again.
func (c *Cluster) choose(plan disrupt.Move) {
	c.movesChosen++
	m := &move{Move: plan, id: c.movesChosen}
	for _, key := range plan.Nodes {
		n := c.findNode(key)
		if n == nil || n.move != nil {
			c.Checker.violation("disjoint", "move %d takes %s, which is gone or moves already", m.id, key)
			return
		}
		m.nodes = append(m.nodes, n)
	}
	for _, n := range m.nodes {
		n.move = m
	}
	c.moves = append(c.moves, m)
	c.Stats.Moves++
	c.logf("move %d: %s %v, %d launches, %d evictions, %s -> %s %s", m.id, m.Cause, m.Nodes, len(m.Launches), m.Evictions, m.PriceBefore, m.PriceAfter, m.Detail)
	for _, h := range plan.Receivers {
		c.logf("  to %s: %s", h.Node, c.describe(h.Pods))
	}
	c.Checker.moveChosen(m)
	wait := c.Durations.Validation
	if !m.voluntary() {
		wait = time.Second
	}
	c.after(wait, func() { c.validate(m) })
}

// voluntary moves are made for money, the others are due.
func (m *move) voluntary() bool {
	return m.Cause == disrupt.Empty || m.Cause == disrupt.Underutilized
}

// validate looks at the move again and, while it is right, taints its nodes.
func (c *Cluster) validate(m *move) {
	if m.stage == over {
		return
	}
	now, left := c.decider.Recheck(c.mirror.snapshot(), c.disruptionInput(m), m.Move)
	if left.Because != "" {
		c.logf("move %d rejected: %s %s", m.id, left.Because, left.Detail)
		c.Stats.Rejected++
		c.end(m)
		return
	}
	c.Checker.moveRechecked(m, now)
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
	c.changed()
	c.Checker.nodesTainted(m)
	c.after(time.Second, func() { c.launch(m) })
}

// drop takes a node out of the move.
func (m *move) drop(n *node) {
	n.move, n.tainted = nil, false
	m.nodes = slices.DeleteFunc(m.nodes, func(o *node) bool { return o == n })
}

// launch looks past all caches once more, now that no new pod can be bound to the nodes,
// and launches their replacements.
func (c *Cluster) launch(m *move) {
	if m.stage == over {
		return
	}
	for _, n := range slices.Clone(m.nodes) {
		why := c.objection(m, n)
		if why == "" {
			continue
		}
		if m.Cause != disrupt.Empty || len(m.nodes) == 1 {
			c.logf("move %d withdrawn: %s %s", m.id, n.key, why)
			c.Stats.Rejected++
			c.end(m)
			return
		}
		m.drop(n)
	}
	m.stage = launched
	for _, l := range m.Launches {
		r := c.orderNode(l.Pool, l.Offerings)
		r.replacementFor = m
		m.replacements = append(m.replacements, r)
		c.mirror.nominate(r.key, l.Pods)
	}
	for _, h := range m.Receivers {
		c.mirror.nominate(h.Node, h.Pods)
	}
	for _, n := range m.nodes {
		for _, p := range n.pods {
			c.mirror.podChanged(p)
		}
	}
	c.Checker.replacementsOrdered(m)
	c.changed()
	c.after(c.Durations.RegistrationTimeout, func() {
		if m.stage == launched {
			c.fail(m, "a replacement never came")
		}
	})
	c.advance(m)
}

// objection is the reason against disrupting the node that the check after the taint finds.
func (c *Cluster) objection(m *move, n *node) string {
	switch {
	case n.gone || n.deleting:
		return "is going by itself"
	case n.doNotDisrupt:
		return "is not to be disrupted"
	case m.Cause == disrupt.Empty && n.hasPods():
		return "is not empty any more"
	case !m.voluntary() && n.pool.TerminationGracePeriod > 0:
		return ""
	}
	for _, p := range n.pods {
		if !p.terminating && p.protected(c.now) {
			return "runs " + p.uid + ", which is not to be disrupted"
		}
		if !p.terminating && p.owner.allowedEvictions() == 0 {
			return "runs " + p.uid + ", which may not be evicted"
		}
	}
	return ""
}

// advance drains the nodes once every replacement is there.
func (c *Cluster) advance(m *move) {
	if m.stage != launched {
		return
	}
	for _, r := range m.replacements {
		if r.gone {
			c.fail(m, "a replacement is gone")
			return
		}
		if !r.ready() { // not yet, or not any more: then it is removed soon
			return
		}
	}
	m.stage = draining
	c.track(m)
	for _, n := range m.nodes {
		c.Stats.ByCause[m.Cause]++
		c.deleteNode(n)
	}
	c.Checker.drainBegan(m)
}

// fail cancels a move; its nodes back off, longer each time.
func (c *Cluster) fail(m *move, why string) {
	c.logf("move %d failed: %s", m.id, why)
	c.Stats.Failed++
	for _, n := range m.nodes {
		c.failures[n.key]++
		c.backoff[n.key] = c.now.Add(min(time.Hour, time.Minute<<min(6, c.failures[n.key]-1)))
	}
	for _, r := range m.replacements {
		if !r.gone && len(r.pods) == 0 {
			c.deleteNode(r)
		}
	}
	c.end(m)
}

// end forgets the move; its nodes, where they are not deleted, are kept.
func (c *Cluster) end(m *move) {
	m.stage = over
	for _, n := range slices.Clone(m.nodes) {
		if n.deleting {
			continue
		}
		m.drop(n)
		for _, p := range n.pods {
			p.nominatedTo = ""
			c.mirror.podChanged(p)
		}
	}
	c.moves = slices.DeleteFunc(c.moves, func(o *move) bool { return o == m })
	c.changed()
}

// progress updates moves when something changed: replacements that initialized or failed,
// nodes that were deleted otherwise.
func (c *Cluster) progressMoves() {
	for _, m := range slices.Clone(c.moves) {
		m.nodes = slices.DeleteFunc(m.nodes, func(n *node) bool { return n.gone })
		switch {
		case len(m.nodes) == 0:
			c.Checker.moveEnded(m)
			c.nodesDeleted(m)
			c.end(m)
		case m.stage == launched:
			c.advance(m)
		}
	}
}
