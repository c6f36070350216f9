// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"math"
	"slices"
	"time"
)

// Events from outside the cluster. Each is reported to the Checker: the nodes may return to
// an earlier state when the conditions changed.

// Scale sets the replicas of a workload.
func (c *Cluster) Scale(w *workload, n int) {
	if w.Replicas == n && !w.isJob() {
		return
	}
	c.Checker.outsideChange()
	c.workloads.setReplicas(w, n)
}

// scaleByHour scales a workload until quiet: a sine over the day and noise, every few minutes.
func (c *Cluster) scaleByHour(w *workload, base int, swing, noise float64, quiet time.Time) {
	phase := c.rng.Float64() * 2 * math.Pi
	c.every(time.Duration(3+c.rng.IntN(10))*time.Minute, func() bool {
		if !c.now.Before(quiet) {
			return false
		}
		hours := c.now.Sub(start).Hours()
		n := float64(base) * (1 + swing*math.Sin(phase+hours/24*2*math.Pi) + noise*(c.rng.Float64()-0.5))
		c.Scale(w, max(1, int(math.Round(n))))
		return true
	})
}

// startJobs starts a CronJob's pods again and again until quiet.
func (c *Cluster) startJobs(w *workload, quiet time.Time) {
	c.workloads.deploy(w)
	c.every(w.Job.Every, func() bool {
		if !c.now.Before(quiet) {
			return false
		}
		c.Checker.outsideChange()
		for range w.Replicas {
			c.workloads.create(w)
		}
		return true
	})
}

// failNode makes a node stop reporting: its pods are deleted after five minutes, and the
// node is removed after ten.
func (c *Cluster) failNode(m *node) {
	if m == nil || m.initialized.IsZero() || m.phase == gone {
		return
	}
	c.Checker.outsideChange()
	c.logf("fails %s", m.key)
	m.notReady = true
	for _, p := range m.pods {
		p.ready = false
		p.owner.reconciled = false
	}
	c.changed()
	c.after(5*time.Minute, func() {
		c.Checker.outsideChange()
		for _, p := range slices.Clone(m.pods) {
			c.workloads.terminate(p)
		}
	})
	c.after(10*time.Minute, func() { c.Checker.outsideChange(); c.nodes.remove(m) })
}

// interruptSpotNode evicts a spot instance with half a minute's notice.
func (c *Cluster) interruptSpotNode(m *node) {
	if m == nil || m.initialized.IsZero() || m.phase == gone {
		return
	}
	c.Checker.outsideChange()
	c.logf("reclaim %s", m.key)
	m.phase, m.tainted, m.stuckFinalizer = max(m.phase, deleting), true, false
	for _, p := range slices.Clone(m.pods) {
		c.workloads.terminate(p)
	}
	c.changed()
	c.after(30*time.Second, func() { c.Checker.outsideChange(); c.nodes.remove(m) })
}

// ScalePrice changes the price of an offering.
func (c *Cluster) ScalePrice(d offeringKey, factor float64) {
	c.Checker.outsideChange()
	c.Checker.priceChanges++
	c.catalog.setPriceFactor(d, factor)
	c.logf("price %v x%.2f", d, factor)
	c.changed()
}

// SetUnavailable makes an offering unavailable, or available again.
func (c *Cluster) SetUnavailable(d offeringKey, out bool) {
	c.Checker.outsideChange()
	c.catalog.setUnavailable(d, out)
	c.logf("unavailable %v: %v", d, out)
	c.changed()
}

// ChangeTemplate changes a pool's template: its nodes have drifted.
func (c *Cluster) ChangeTemplate(p *Pool) {
	c.Checker.outsideChange()
	p.Version++
	c.logf("pool %s is now version %d", p.Name, p.Version)
	c.changed()
}

// StartRollout updates a workload.
func (c *Cluster) StartRollout(w *workload) {
	c.Checker.outsideChange()
	c.workloads.startRollout(w)
}
