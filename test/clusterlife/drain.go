// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"cmp"
	"slices"
	"time"
)

// retryEviction is how soon an eviction that a disruption budget refused is requested again.
const retryEviction = 5 * time.Second

// delete deletes a node: its pods are evicted, then the instance ends.
func (c *Cluster) deleteNode(n *node) {
	if n.deleting || n.gone {
		return
	}
	n.deleting, n.tainted = true, true
	if n.pool.TerminationGracePeriod > 0 {
		n.deadline = c.now.Add(n.pool.TerminationGracePeriod)
	}
	for _, p := range n.pods {
		c.mirror.podChanged(p)
	}
	c.changed()
	c.drain(n)
}

// drain evicts the pods that may be evicted now, and runs again for the rest.
func (c *Cluster) drain(n *node) {
	if n.gone || n.terminating {
		return
	}
	for _, p := range n.largestFirst() {
		switch {
		case p.terminating:
		case !n.deadline.IsZero() && !c.now.Before(n.deadline.Add(-p.owner.Grace)):
			c.evict(p, n, true)
		case !p.protected(c.now) && p.owner.allowedEvictions() > 0:
			c.evict(p, n, false)
		}
	}
	if len(n.pods) > 0 {
		c.after(retryEviction, func() { c.drain(n) })
		return
	}
	if n.stuckFinalizer {
		return
	}
	n.terminating = true
	c.changed()
	c.after(c.Durations.InstanceDeletion, func() { c.removeNode(n) })
}

// evict ends a pod for a node's sake. Its workload makes another.
func (c *Cluster) evict(p *pod, n *node, forced bool) {
	c.Checker.podEvicted(p, n, forced)
	if n.move != nil {
		c.Stats.Evictions++
	}
	w := p.owner
	c.terminatePod(p)
	if w.Every > 0 {
		c.createPod(w).evicted = true
		return
	}
	w.unreplaced++
	w.reconcile(c) // at once: replacement pods queue in the order of evictions
}

// largestFirst returns the node's pods in the order in which controller/termination evicts
// them.
func (n *node) largestFirst() []*pod {
	size := func(p *pod) float64 {
		return float64(p.owner.Milli)/float64(n.milli) + float64(p.owner.MiB)/float64(n.mib)
	}
	out := slices.Clone(n.pods)
	slices.SortStableFunc(out, func(a, b *pod) int { return cmp.Compare(size(b), size(a)) })
	return out
}
