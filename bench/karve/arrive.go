// SPDX-License-Identifier: Apache-2.0

package karve

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/engine/schedule"
)

// Arrivals is the result of pods that arrive one at a time.
type Arrivals struct {
	measure.Series // one decision each
	// Bound pods found room on a node; for the others a node would have been launched,
	// or no plan was possible.
	Bound, Launched, Unplaced int
}

// Arrive lets the pods come one after the other: each is taken in and decided on,
// then, outside of the measurement, bound where there is room or taken away again.
// Garbage is collected when Go sees fit, as in a controller.
func (c *Cluster) Arrive(pods []*corev1.Pod) Arrivals {
	var a Arrivals
	for _, p := range pods {
		var plan schedule.Plan
		a.Once(func() {
			c.Set(p)
			plan = schedule.Solve(c.Builder.Snapshot())
		})
		c.record(p, plan, &a)
	}
	return a
}

// record binds the pod if the plan puts it on an existing node, and removes it otherwise.
func (c *Cluster) record(p *corev1.Pod, plan schedule.Plan, a *Arrivals) {
	switch {
	case len(plan.Nominations) > 0:
		a.Bound++
		bound := Pod(p)
		bound.Node = c.names[plan.Nominations[0].Node]
		c.Builder.SetPod(bound)
		return
	case len(plan.Launches) > 0:
		a.Launched++
	default:
		a.Unplaced++
	}
	c.Builder.RemovePod(string(p.UID))
}
