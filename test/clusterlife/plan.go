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
func (Engine) Provide(w *cluster.Snapshot) schedule.Plan { return schedule.Solve(w) }

// Search looks for nodes to disrupt.
func (Engine) Search(w *cluster.Snapshot, c disrupt.Cluster) disrupt.Plan {
	return disrupt.Search(w, c, disrupt.Cursor{})
}

// Recheck looks at a move again.
func (Engine) Recheck(w *cluster.Snapshot, c disrupt.Cluster, m disrupt.Move) (disrupt.Move, disrupt.Kept) {
	return disrupt.Recheck(w, c, m)
}

// plan schedules a decision soon after something changed.
func (c *Cluster) plan() {
	if !c.providing && slices.ContainsFunc(c.pods, c.needy) {
		c.providing = true
		c.after(c.Pace.Batch, func() { c.provide() })
	}
	if c.stir != c.seen {
		c.searchAt(c.searched.Add(c.Pace.Search))
	}
}

// needy reports whether the pod waits for a node and is not nominated to one.
func (c *Cluster) needy(p *pod) bool {
	return p.promise == "" && !p.dying && !p.barred() && (p.node == nil || p.node.departing() || p.node.deleting)
}

// provide launches nodes for pods that wait.
func (c *Cluster) provide() {
	c.providing = false
	w := c.view.world()
	if !slices.ContainsFunc(c.pods, c.needy) {
		return
	}
	c.Stats.Solves++
	plan := c.mind.Provide(w)
	for _, n := range plan.Nominations {
		c.view.promise(n.Node, n.Pods)
	}
	for _, l := range plan.Launches {
		m := c.order(l.Pool, l.Offerings)
		c.note("for %s", c.describe(l.Pods))
		c.undone(l.Pods)
		c.relapsed(l.Pods)
		c.view.promise(m.key, l.Pods)
	}
	if len(plan.Unplaced) > 0 {
		c.providing = true // looked at again when there may be news
		c.after(30*time.Second, func() { c.provide() })
	}
	c.stir++
}

// searchAt looks for moves then, or at once when that has passed. A search that is due
// already sees later changes, too.
func (c *Cluster) searchAt(t time.Time) {
	if c.searching {
		return
	}
	c.searching = true
	c.after(max(time.Second, t.Sub(c.now)), func() { c.search() })
}

func (c *Cluster) search() {
	c.searching, c.searched = false, c.now
	w := c.view.world()
	facts := c.facts(nil)
	c.seen = c.stir
	c.Stats.Searches++
	plan := c.mind.Search(w, facts)
	c.Watch.explained(plan)
	for _, m := range plan.Moves {
		c.choose(m)
	}
	c.wake(plan.Kept)
}

// wake searches again when the first reason to keep a node lapses by itself.
func (c *Cluster) wake(left []disrupt.Kept) {
	var first time.Time
	for _, l := range left {
		if !l.Until.IsZero() && l.Until.After(c.now) && (first.IsZero() || l.Until.Before(first)) {
			first = l.Until
		}
	}
	if first.IsZero() || c.woken.After(c.now) && !c.woken.After(first) {
		return
	}
	c.woken = first
	c.after(first.Sub(c.now), func() { c.stir++ })
}

// undone counts launches for pods that a move displaced: kube-scheduler bound other pods
// to their nodes.
func (c *Cluster) undone(refs []cluster.PodRef) {
	for _, ref := range refs {
		if p := c.find(ref.UID); p != nil && p.evicted {
			c.Stats.Undone++
			return
		}
	}
}

// describe lists the requests of pods, for the diary.
func (c *Cluster) describe(refs []cluster.PodRef) string {
	var out []string
	for _, ref := range refs {
		if p := c.find(ref.UID); p != nil {
			w := p.owner
			out = append(out, fmt.Sprintf("%s(%dm %dMi pool=%q on-demand=%v spread=%v apart=%v)", p.uid, w.Milli, w.MiB, w.Pool, w.OnDemand, w.Spread, w.Apart))
		}
	}
	return strings.Join(out, " ")
}
