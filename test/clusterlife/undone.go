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
	// replacementsUntil is how long after its pods have ended replacements may still be created.
	replacementsUntil = 10 * time.Second
)

// undoneHistory notices consolidations that the scheduler undid, and pauses their pools.
type undoneHistory struct {
	c      *Cluster
	recent []*recentConsolidation
	pauses map[*Pool]pause
}

// recentConsolidation is a consolidation of which it is not known yet whether it will last.
type recentConsolidation struct {
	nodes  []*node
	pools  map[*Pool]bool
	owners map[*workload]int // how many pods ran when the deletion of the nodes began
	gone   time.Time         // all nodes are deleted; zero while they are not
}

// pause is for how long a pool is not consolidated.
type pause struct {
	length time.Duration
	until  time.Time
}

// track remembers the owners of the pods that the move displaces.
func (h *undoneHistory) track(m *move) {
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
	h.recent, m.record = append(h.recent, u), u
}

// nodesDeleted is called when all nodes of the move are deleted.
func (h *undoneHistory) nodesDeleted(m *move) {
	if m.record != nil {
		m.record.gone = h.c.now
	}
}

// launchedFor is called with the pods that a node is launched for.
func (h *undoneHistory) launchedFor(refs []cluster.PodRef) {
	h.dropSettled()
	for _, u := range h.recent {
		if !slices.ContainsFunc(refs, func(ref cluster.PodRef) bool { return u.mayHaveMoved(h.c.workloads.find(ref.UID)) }) {
			continue
		}
		for _, p := range h.c.Pools {
			if u.pools[p] {
				h.pause(p)
			}
		}
	}
}

// dropSettled drops consolidations that lasted, and resets pools where all did for long.
func (h *undoneHistory) dropSettled() {
	h.recent = slices.DeleteFunc(h.recent, func(u *recentConsolidation) bool {
		return len(u.pools) == 0 || !u.gone.IsZero() && h.c.now.Sub(u.gone) > lastsAfter
	})
	maps.DeleteFunc(h.pauses, func(p *Pool, l pause) bool {
		waits := slices.ContainsFunc(h.recent, func(u *recentConsolidation) bool { return u.pools[p] })
		return !waits && h.c.now.Sub(l.until) > max(2*l.length, forgetAfter)
	})
}

// pause pauses a pool, unless it is paused. Earlier consolidations do not count for it any more.
func (h *undoneHistory) pause(p *Pool) {
	for _, u := range h.recent {
		delete(u.pools, p)
	}
	l := h.pauses[p]
	if h.c.now.Before(l.until) {
		return
	}
	l.length = min(max(2*l.length, firstPause), longestPause)
	l.until = h.c.now.Add(l.length)
	h.pauses[p] = l
	h.c.Stats.Pauses++
	h.c.logf("pool %s is paused for %s", p.Name, l.length)
}

// mayHaveMoved reports whether the pod may be one that the consolidation moved. A CronJob's
// runs have owners of their own.
func (u *recentConsolidation) mayHaveMoved(p *pod) bool {
	if p != nil && p.owner.isJob() && !p.evicted {
		return false
	}
	if p != nil && !u.gone.IsZero() && p.created.After(u.gone.Add(replacementsUntil)) {
		return false
	}
	return p != nil && len(p.owner.live()) <= u.owners[p.owner] && (p.node == nil || slices.Contains(u.nodes, p.node))
}
