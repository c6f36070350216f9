// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"math"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// Events from outside the cluster. Each is reported to the Watch: the nodes may return to
// an earlier state when the conditions changed.

// Scale sets the replicas of a workload.
func (c *Cluster) Scale(w *workload, n int) {
	if w.Replicas == n && w.Every == 0 {
		return
	}
	c.Checker.outsideChange()
	c.setReplicas(w, n)
}

// wave scales a workload until quiet: a sine over the day and noise, every few minutes.
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

// jobs starts a CronJob's pods again and again until quiet.
func (c *Cluster) startJobs(w *workload, quiet time.Time) {
	c.deploy(w)
	c.every(w.Every, func() bool {
		if !c.now.Before(quiet) {
			return false
		}
		c.Checker.outsideChange()
		for range w.Replicas {
			c.createPod(w)
		}
		return true
	})
}

// fails makes a node stop reporting: its pods are given up after five minutes, and the
// node is removed after ten.
func (c *Cluster) failNode(m *node) {
	if m == nil || m.initialized.IsZero() || m.gone {
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
			c.terminatePod(p)
		}
	})
	c.after(10*time.Minute, func() { c.Checker.outsideChange(); c.removeNode(m) })
}

// reclaim evicts a spot instance with half a minute's notice.
func (c *Cluster) interruptSpotNode(m *node) {
	if m == nil || m.initialized.IsZero() || m.gone {
		return
	}
	c.Checker.outsideChange()
	c.logf("reclaim %s", m.key)
	m.deleting, m.tainted, m.stuckFinalizer = true, true, false
	for _, p := range slices.Clone(m.pods) {
		c.terminatePod(p)
	}
	c.changed()
	c.after(30*time.Second, func() { c.Checker.outsideChange(); c.removeNode(m) })
}

// some returns a random node that serves, spot or not; nil when there is none.
func (c *Cluster) randomNode(spot bool) *node {
	from := slices.DeleteFunc(slices.Clone(c.machines), func(m *node) bool {
		return !m.schedulable() || spot && m.offering.capacityType != offering.Spot
	})
	if len(from) == 0 {
		return nil
	}
	return from[c.rng.IntN(len(from))]
}

// Price changes the price of an offering.
func (c *Cluster) ScalePrice(d offeringKey, factor float64) {
	c.Checker.outsideChange()
	c.Checker.priceChanges++
	c.catalog.setPriceFactor(d, factor)
	c.logf("price %v x%.2f", d, factor)
	c.changed()
}

// SoldOut takes a deal off the shelves, or puts it back.
func (c *Cluster) SetUnavailable(d offeringKey, out bool) {
	c.Checker.outsideChange()
	c.catalog.setUnavailable(d, out)
	c.logf("sold out %v: %v", d, out)
	c.changed()
}

// Retemplate changes a pool's template: its nodes have drifted.
func (c *Cluster) ChangeTemplate(p *Pool) {
	c.Checker.outsideChange()
	p.Version++
	c.logf("pool %s is now version %d", p.Name, p.Version)
	c.changed()
}

// Roll updates a workload.
func (c *Cluster) StartRollout(w *workload) {
	c.Checker.outsideChange()
	c.startRollout(w)
}
