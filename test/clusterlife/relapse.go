// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"maps"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
)

// Rule CONSOLIDATION-23, written independently for this executor: consolidations that the
// scheduler undoes become rare.
const (
	proves                 = 10 * time.Minute
	forgives               = time.Hour
	firstLull, longestLull = 30 * time.Second, 6 * time.Hour
	// succeeds is how long after its pods have ended replacements may still be created.
	succeeds = 10 * time.Second
)

// unproved is a consolidation of which it is not known yet whether it will last.
type unproved struct {
	nodes  []*machine
	pools  map[*Pool]bool
	owners map[*workload]int // how many pods ran when the deletion of the nodes began
	since  time.Time         // all nodes are deleted; zero while they are not
}

// lull is for how long a pool is not consolidated.
type lull struct {
	length time.Duration
	until  time.Time
}

// watchFor remembers the owners of the pods that the move displaces.
func (c *Cluster) watchFor(m *move) {
	if m.Cause != disrupt.Underutilized {
		return
	}
	u := &unproved{nodes: slices.Clone(m.nodes), pools: map[*Pool]bool{}, owners: map[*workload]int{}}
	for _, n := range m.nodes {
		u.pools[n.pool] = true
		for _, p := range n.pods {
			if !p.dying {
				u.owners[p.owner] = len(p.owner.live())
			}
		}
	}
	c.unproved, m.unproved = append(c.unproved, u), u
}

// went is called when all nodes of the move are deleted.
func (c *Cluster) went(m *move) {
	if m.unproved != nil {
		m.unproved.since = c.now
	}
}

// relapsed is called with the pods that a node is launched for.
func (c *Cluster) relapsed(refs []cluster.PodRef) {
	c.prove()
	for _, u := range c.unproved {
		if !slices.ContainsFunc(refs, func(ref cluster.PodRef) bool { return u.displaced(c.find(ref.UID)) }) {
			continue
		}
		for _, p := range c.Pools {
			if u.pools[p] {
				c.lull(p)
			}
		}
	}
}

// prove forgets consolidations that lasted, and resets pools where all did for long.
func (c *Cluster) prove() {
	c.unproved = slices.DeleteFunc(c.unproved, func(u *unproved) bool {
		return len(u.pools) == 0 || !u.since.IsZero() && c.now.Sub(u.since) > proves
	})
	maps.DeleteFunc(c.lulls, func(p *Pool, l lull) bool {
		waits := slices.ContainsFunc(c.unproved, func(u *unproved) bool { return u.pools[p] })
		return !waits && c.now.Sub(l.until) > max(2*l.length, forgives)
	})
}

// displaced reports whether the pod may be one that the consolidation moved. A CronJob's
// runs have owners of their own.
func (u *unproved) displaced(p *pod) bool {
	if p != nil && p.owner.Every > 0 && !p.evicted {
		return false
	}
	if p != nil && !u.since.IsZero() && p.created.After(u.since.Add(succeeds)) {
		return false
	}
	return p != nil && len(p.owner.live()) <= u.owners[p.owner] && (p.node == nil || slices.Contains(u.nodes, p.node))
}

// lull pauses a pool, unless it is paused. Earlier consolidations do not count for it any more.
func (c *Cluster) lull(p *Pool) {
	for _, u := range c.unproved {
		delete(u.pools, p)
	}
	l := c.lulls[p]
	if c.now.Before(l.until) {
		return
	}
	l.length = min(max(2*l.length, firstLull), longestLull)
	l.until = c.now.Add(l.length)
	c.lulls[p] = l
	c.Stats.Lulls++
	c.note("pool %s rests for %s", p.Name, l.length)
}
