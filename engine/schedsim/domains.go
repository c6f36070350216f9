// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// spread is a required spread over zones or the like, as kube-scheduler checks it: the pod's
// zone may have at most skew more pods than the zone with the fewest.
type spread struct {
	*domainCount
	maxSkew       int
	minDomains    int  // with fewer zones than that the fewest count as zero
	countsOwnPods bool // the pod counts itself
}

// admits reports whether one more pod may be bound in the domain with that value.
func (s *spread) admits(v int) bool {
	s.grow(v)
	self := 0
	if s.countsOwnPods {
		self = 1
	}
	return s.pods[v]+self-s.fewest(v) <= s.maxSkew
}

// fewest is the lowest count of any zone; zero while there are too few zones. A zone that a new
// node is about to open counts, too.
func (s *spread) fewest(v int) int {
	zones, fewest := 0, s.pods[v]
	if s.groups[v] == 0 {
		zones++
	}
	for o, n := range s.groups {
		if n > 0 {
			zones++
			fewest = min(fewest, s.pods[o])
		}
	}
	if zones < s.minDomains {
		return 0
	}
	return max(0, fewest)
}

// domainCount counts pods of a PodSelector by the value of a label, on the nodes that the spread
// counts.
type domainCount struct {
	key      *constraint.Key
	selector *cluster.PodSelector
	shape    *cluster.PodShape // whose node affinity a node must meet; nil when any node counts
	taints   *cluster.PodShape // whose tolerations must fit the taints; nil when any node counts

	number int   // in domains.counts
	pods   []int // by value
	groups []int // by value: those with nodes; a drained node still counts
}

// notLookedUp stands for a value that was not looked up yet.
const notLookedUp = -2

// value is the label's value on nodes of the group; negative when they do not count.
func (t *domainCount) value(g *nodeGroup) int {
	for len(g.values) <= t.number {
		g.values = append(g.values, notLookedUp)
	}
	if g.values[t.number] == notLookedUp {
		g.values[t.number] = t.lookUp(g)
	}
	return g.values[t.number]
}

func (t *domainCount) lookUp(g *nodeGroup) int {
	v, ok := g.value(t.key)
	switch {
	case !ok:
		return -1
	case g.info == nil && t.shape != nil && !g.admits(t.shape): // new nodes count for shapes that fit
		return -1
	case g.info != nil && (t.shape != nil && !g.info.MatchesOwn(t.shape) || t.taints != nil && !g.info.Tolerated(t.taints)):
		return -1
	}
	t.grow(v)
	return v
}

// grow extends the counts to the value.
func (t *domainCount) grow(v int) {
	for len(t.pods) <= v {
		t.pods, t.groups = append(t.pods, 0), append(t.groups, 0)
	}
}

// countGroup adds by groups (1 or -1) to the domain of the group.
func (t *domainCount) countGroup(g *nodeGroup, by int) {
	if v := t.value(g); v >= 0 {
		t.groups[v] += by
	}
}

// domains is the domain counts that spreads of the compiled classes use.
type domains struct {
	counts     []*domainCount
	bySelector map[int][]*domainCount // by the ID of the PodSelector
}

func newDomains() domains { return domains{bySelector: map[int][]*domainCount{}} }

// find is the count with the same definition; nil when there is none.
func (d *domains) find(like *domainCount) *domainCount {
	for _, t := range d.bySelector[like.selector.ID()] {
		if t.key == like.key && t.shape == like.shape && t.taints == like.taints {
			return t
		}
	}
	return nil
}

// add adds a count that has no pods yet.
func (d *domains) add(t *domainCount, groups []*nodeGroup) {
	t.number = len(d.counts)
	d.counts = append(d.counts, t)
	d.bySelector[t.selector.ID()] = append(d.bySelector[t.selector.ID()], t)
	for _, g := range groups {
		if g.nodes > 0 {
			t.countGroup(g, 1)
		}
	}
}

// countGroup records in every count that the group has its first node, or has none any more.
func (d *domains) countGroup(g *nodeGroup, by int) {
	for _, t := range d.counts {
		t.countGroup(g, by)
	}
}

// countsOf are the counts that pods of the class change.
func (d *domains) countsOf(c *podClass) []*domainCount {
	if c.countsSeen < len(d.counts) {
		c.countedIn, c.countsSeen = c.countedIn[:0], len(d.counts)
		for id := range c.Selectors().All() {
			c.countedIn = append(c.countedIn, d.bySelector[id]...)
		}
	}
	return c.countedIn
}
