// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/schedule"
)

// Engine is the Mind that runs the real engine.
type Engine struct{}

// Provide decides which nodes to launch for pods that wait.
func (Engine) Solve(w *cluster.Snapshot) schedule.Plan { return schedule.Solve(w) }

// Search looks for nodes to disrupt.
func (Engine) Search(w *cluster.Snapshot, c disrupt.Cluster) disrupt.Plan {
	return disrupt.Search(w, c, disrupt.Cursor{})
}

// Recheck looks at a move again.
func (Engine) Recheck(w *cluster.Snapshot, c disrupt.Cluster, m disrupt.Move) (disrupt.Move, disrupt.Kept) {
	return disrupt.Recheck(w, c, m)
}

// plan schedules a decision soon after something changed.
func (c *Cluster) scheduleDecisions() {
	if !c.batchDue && slices.ContainsFunc(c.pods, c.needsNode) {
		c.batchDue = true
		c.after(c.Durations.Batch, func() { c.provision() })
	}
	if c.changes != c.changesSearched {
		c.searchAt(c.lastSearch.Add(c.Durations.SearchInterval))
	}
}

// needy reports whether the pod waits for a node and is not nominated to one.
func (c *Cluster) needsNode(p *pod) bool {
	return p.nominatedTo == "" && !p.terminating && !p.neverEvictable() && (p.node == nil || p.node.podsNominatedElsewhere() || p.node.deleting)
}

// provide launches nodes for pods that wait.
func (c *Cluster) provision() {
	c.batchDue = false
	w := c.mirror.snapshot()
	if !slices.ContainsFunc(c.pods, c.needsNode) {
		return
	}
	c.Stats.Solves++
	plan := c.decider.Solve(w)
	for _, n := range plan.Nominations {
		c.mirror.nominate(n.Node, n.Pods)
	}
	for _, l := range plan.Launches {
		m := c.orderNode(l.Pool, l.Offerings)
		c.logf("for %s", c.describe(l.Pods))
		c.countUndone(l.Pods)
		c.launchedFor(l.Pods)
		c.mirror.nominate(m.key, l.Pods)
	}
	if len(plan.Unplaced) > 0 {
		c.batchDue = true // looked at again when there may be news
		c.after(30*time.Second, func() { c.provision() })
	}
	c.changes++
}

// searchAt looks for moves then, or at once when that has passed. A search that is due
// already sees later changes, too.
func (c *Cluster) searchAt(t time.Time) {
	if c.searchDue {
		return
	}
	c.searchDue = true
	c.after(max(time.Second, t.Sub(c.now)), func() { c.search() })
}

func (c *Cluster) search() {
	c.searchDue, c.lastSearch = false, c.now
	w := c.mirror.snapshot()
	facts := c.disruptionInput(nil)
	c.changesSearched = c.changes
	c.Stats.Searches++
	plan := c.decider.Search(w, facts)
	c.Checker.checkReasons(plan)
	for _, m := range plan.Moves {
		c.choose(m)
	}
	c.searchWhenReasonsLapse(plan.Kept)
}

// wake searches again when the first reason to keep a node lapses by itself.
func (c *Cluster) searchWhenReasonsLapse(left []disrupt.Kept) {
	var first time.Time
	for _, l := range left {
		if !l.Until.IsZero() && l.Until.After(c.now) && (first.IsZero() || l.Until.Before(first)) {
			first = l.Until
		}
	}
	if first.IsZero() || c.wakeAt.After(c.now) && !c.wakeAt.After(first) {
		return
	}
	c.wakeAt = first
	c.after(first.Sub(c.now), func() { c.changes++ })
}

// undone counts launches for pods that a move displaced: kube-scheduler bound other pods
// to their nodes.
func (c *Cluster) countUndone(refs []cluster.PodRef) {
	for _, ref := range refs {
		if p := c.findPod(ref.UID); p != nil && p.evicted {
			c.Stats.Undone++
			return
		}
	}
}

// describe lists the requests of pods, for the diary.
func (c *Cluster) describe(refs []cluster.PodRef) string {
	var out []string
	for _, ref := range refs {
		if p := c.findPod(ref.UID); p != nil {
			w := p.owner
			out = append(out, fmt.Sprintf("%s(%dm %dMi pool=%q on-demand=%v spread=%v apart=%v)", p.uid, w.Milli, w.MiB, w.Pool, w.OnDemand, w.Spread, w.OnePerNode))
		}
	}
	return strings.Join(out, " ")
}
