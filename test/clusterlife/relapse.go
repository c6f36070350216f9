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
	lastsAfter               = 10 * time.Minute
	forgetAfter              = time.Hour
	firstPause, longestPause = 30 * time.Second, 6 * time.Hour
	// succeeds is how long after its pods have ended replacements may still be created.
	replacementsUntil = 10 * time.Second
)

// unproved is a consolidation of which it is not known yet whether it will last.
type recentConsolidation struct {
	nodes  []*node
	pools  map[*Pool]bool
	owners map[*workload]int // how many pods ran when the deletion of the nodes began
	gone   time.Time         // all nodes are deleted; zero while they are not
}

// lull is for how long a pool is not consolidated.
type pause struct {
	length time.Duration
	until  time.Time
}

// watchFor remembers the owners of the pods that the move displaces.
func (c *Cluster) track(m *move) {
	if m.Cause != disrupt.Underutilized {
		return
	}
	u := &recentConsolidation{nodes: slices.Clone(m.nodes), pools: map[*Pool]bool{}, owners: map[*workload]int{}}
	for _, n := range m.nodes {
		u.pools[n.pool] = true
		for _, p := range n.pods {
			if !p.terminating {
				u.owners[p.owner] = len(p.owner.live())
			}
		}
	}
	c.recent, m.record = append(c.recent, u), u
}

// went is called when all nodes of the move are deleted.
func (c *Cluster) nodesDeleted(m *move) {
	if m.record != nil {
		m.record.gone = c.now
	}
}

// relapsed is called with the pods that a node is launched for.
func (c *Cluster) launchedFor(refs []cluster.PodRef) {
	c.dropSettled()
	for _, u := range c.recent {
		if !slices.ContainsFunc(refs, func(ref cluster.PodRef) bool { return u.mayHaveMoved(c.findPod(ref.UID)) }) {
			continue
		}
		for _, p := range c.Pools {
			if u.pools[p] {
				c.pause(p)
			}
		}
	}
}

// prove forgets consolidations that lasted, and resets pools where all did for long.
func (c *Cluster) dropSettled() {
	c.recent = slices.DeleteFunc(c.recent, func(u *recentConsolidation) bool {
		return len(u.pools) == 0 || !u.gone.IsZero() && c.now.Sub(u.gone) > lastsAfter
	})
	maps.DeleteFunc(c.pauses, func(p *Pool, l pause) bool {
		waits := slices.ContainsFunc(c.recent, func(u *recentConsolidation) bool { return u.pools[p] })
		return !waits && c.now.Sub(l.until) > max(2*l.length, forgetAfter)
	})
}

// displaced reports whether the pod may be one that the consolidation moved. A CronJob's
// runs have owners of their own.
func (u *recentConsolidation) mayHaveMoved(p *pod) bool {
	if p != nil && p.owner.Every > 0 && !p.evicted {
		return false
	}
	if p != nil && !u.gone.IsZero() && p.created.After(u.gone.Add(replacementsUntil)) {
		return false
	}
	return p != nil && len(p.owner.live()) <= u.owners[p.owner] && (p.node == nil || slices.Contains(u.nodes, p.node))
}

// lull pauses a pool, unless it is paused. Earlier consolidations do not count for it any more.
func (c *Cluster) pause(p *Pool) {
	for _, u := range c.recent {
		delete(u.pools, p)
	}
	l := c.pauses[p]
	if c.now.Before(l.until) {
		return
	}
	l.length = min(max(2*l.length, firstPause), longestPause)
	l.until = c.now.Add(l.length)
	c.pauses[p] = l
	c.Stats.Pauses++
	c.logf("pool %s rests for %s", p.Name, l.length)
}
