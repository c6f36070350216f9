// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"time"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/guard"
)

// withdrawPaused reports whether an operator has paused voluntary disruption. If so it drops the
// moves of which nothing is written yet, and says so on the NodePools.
func (c *Controller) withdrawPaused(v *view) bool {
	why := c.pause.Why()
	if why == "" {
		return false
	}
	for _, m := range c.moves.inOrder() {
		if m.phase == chosen {
			c.moves.remove(m)
			c.report.reportEffect(m, reportRejected{key: m.Nodes[0], why: "Voluntary disruption is paused", nodes: len(m.Nodes)})
		}
	}
	c.decider.search = search{revision: v.revision, wake: v.now.Add(maxIdle)}
	c.report.paused(v, why)
	return true
}

func (r *reporter) paused(v *view, why string) {
	for name := range v.pools {
		if p := r.mirror.Pool(name); p != nil {
			r.events.Publish(events.Event{About: p, Reason: "DisruptionBlocked", Key: "paused", Every: repeatKept,
				Message: "No node is disrupted voluntarily: " + why})
		}
	}
}

// held publishes on the NodePools of a move's nodes that the guards hold it back.
func (r *reporter) held(m *move, v *view, held *guard.Error) {
	for _, key := range m.Nodes {
		if p := r.mirror.Pool(v.byClaim[key].InSnapshot.Pool); p != nil {
			r.events.Publish(events.Event{About: p, Warning: true, Reason: "DisruptionBlocked", Key: "guard", Every: time.Minute,
				Message: "Nodes are disrupted later: " + held.Error()})
		}
	}
}
