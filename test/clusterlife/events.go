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
	c.Watch.happened()
	c.scale(w, n)
}

// wave scales a workload until quiet: a sine over the day and noise, every few minutes.
func (c *Cluster) wave(w *workload, base int, swing, noise float64, quiet time.Time) {
	phase := c.rng.Float64() * 2 * math.Pi
	c.every(time.Duration(3+c.rng.IntN(10))*time.Minute, func() bool {
		if !c.now.Before(quiet) {
			return false
		}
		hours := c.now.Sub(dawn).Hours()
		n := float64(base) * (1 + swing*math.Sin(phase+hours/24*2*math.Pi) + noise*(c.rng.Float64()-0.5))
		c.Scale(w, max(1, int(math.Round(n))))
		return true
	})
}

// jobs starts a CronJob's pods again and again until quiet.
func (c *Cluster) jobs(w *workload, quiet time.Time) {
	c.deploy(w)
	c.every(w.Every, func() bool {
		if !c.now.Before(quiet) {
			return false
		}
		c.Watch.happened()
		for range w.Replicas {
			c.create(w)
		}
		return true
	})
}

// fails makes a node stop reporting: its pods are given up after five minutes, and the
// node is removed after ten.
func (c *Cluster) fails(m *machine) {
	if m == nil || m.initialized.IsZero() || m.gone {
		return
	}
	c.Watch.happened()
	c.note("fails %s", m.key)
	m.notReady = true
	for _, p := range m.pods {
		p.ready = false
		p.owner.idle = false
	}
	c.changed()
	c.after(5*time.Minute, func() {
		c.Watch.happened()
		for _, p := range slices.Clone(m.pods) {
			c.stop(p)
		}
	})
	c.after(10*time.Minute, func() { c.Watch.happened(); c.remove(m) })
}

// reclaim evicts a spot instance with half a minute's notice.
func (c *Cluster) reclaim(m *machine) {
	if m == nil || m.initialized.IsZero() || m.gone {
		return
	}
	c.Watch.happened()
	c.note("reclaim %s", m.key)
	m.deleting, m.tainted, m.hangs = true, true, false
	for _, p := range slices.Clone(m.pods) {
		c.stop(p)
	}
	c.changed()
	c.after(30*time.Second, func() { c.Watch.happened(); c.remove(m) })
}

// some returns a random node that serves, spot or not; nil when there is none.
func (c *Cluster) some(spot bool) *machine {
	from := slices.DeleteFunc(slices.Clone(c.machines), func(m *machine) bool {
		return !m.open() || spot && m.deal.capacity != offering.Spot
	})
	if len(from) == 0 {
		return nil
	}
	return from[c.rng.IntN(len(from))]
}

// Price changes the price of an offering.
func (c *Cluster) Price(d deal, factor float64) {
	c.Watch.happened()
	c.Watch.prices++
	c.market.reprice(d, factor)
	c.note("price %v x%.2f", d, factor)
	c.changed()
}

// SoldOut takes a deal off the shelves, or puts it back.
func (c *Cluster) SoldOut(d deal, out bool) {
	c.Watch.happened()
	c.market.restock(d, out)
	c.note("sold out %v: %v", d, out)
	c.changed()
}

// Retemplate changes a pool's template: its nodes have drifted.
func (c *Cluster) Retemplate(p *Pool) {
	c.Watch.happened()
	p.Version++
	c.note("pool %s is now version %d", p.Name, p.Version)
	c.changed()
}

// Roll updates a workload.
func (c *Cluster) Roll(w *workload) {
	c.Watch.happened()
	c.roll(w)
}
