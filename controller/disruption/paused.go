// SPDX-License-Identifier: Apache-2.0

package disruption

import "github.com/karve-dev/karve/controller/events"

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
