// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// pod is one pod.
type pod struct {
	uid         string
	owner       *workload
	version     int
	node        *node // nil while pending
	created     time.Time
	bound       time.Time
	ready       bool
	terminating bool // terminating
	gone        bool
	evicted     bool // replaces one that was evicted for a move
	nominatedTo string
}

// world returns the pod as the engine sees it on a node, empty for none.
func (p *pod) snapshotPod(node string) cluster.Pod {
	w := p.owner.podSpec
	w.PodRef = cluster.PodRef{Namespace: "default", Name: p.uid, UID: p.uid}
	w.Created, w.Node, w.Terminating, w.Reschedulable = p.created, node, p.terminating, !p.terminating && !p.neverEvictable()
	return w
}

// barred reports whether the pod's node is being deleted and the pod's eviction is never
// allowed: no node need be launched for it.
func (p *pod) neverEvictable() bool {
	return p.node != nil && p.node.deleting && p.node.deadline.IsZero() &&
		(p.owner.Every == 0 && p.owner.MaxUnavailable == 0 || p.owner.DoNotDisrupt && p.owner.ProtectFor == 0)
}

// protected reports whether do-not-disrupt holds for the pod now.
func (p *pod) protected(now time.Time) bool {
	switch {
	case p.terminating || !p.owner.DoNotDisrupt:
		return false
	case p.owner.ProtectFor == 0 || p.node == nil:
		return true
	}
	return now.Sub(p.bound) < p.owner.ProtectFor
}

// workload makes pods: a Deployment, or with Every a CronJob.
type workload struct {
	Name       string
	Milli, MiB int64
	Replicas   int
	Pool       string // nodeSelector on the pool's label; empty means any
	Tolerates  string // key of a taint
	OnDemand   bool   // nodeSelector on the capacity type
	Spread     bool   // over zones, hard, maxSkew 1
	Domains    int32  // minDomains of the spread: zones without a node count, too; 0 means 1
	OnePerNode bool   // one a node
	// MaxDown is the maxUnavailable of a PodDisruptionBudget; negative means no such budget.
	MaxUnavailable int
	DoNotDisrupt   bool
	ProtectFor     time.Duration // how long; 0 means for ever
	Grace          time.Duration // from the request to stop until it has ended
	Startup        time.Duration // from being bound until ready
	Every, Takes   time.Duration // of a CronJob

	version    int
	podSpec    cluster.Pod // the same in all of its pods
	pods       []*pod
	reconciled bool // as desired when last looked at
	unreplaced int  // pods that were evicted and have no replacement yet
}

// deploy adds a workload.
func (c *Cluster) deploy(w *workload) *workload {
	c.workloads = append(c.workloads, w)
	w.podSpec = cluster.Pod{Labels: map[string]string{"app": w.Name}, Requests: resources(w.Milli, w.MiB, 1)}
	in := func(key, value string) {
		w.podSpec.Required = append(w.podSpec.Required, constraint.Rule{Key: key, Operator: constraint.In, Values: []string{value}})
	}
	if w.Pool != "" {
		in("pool", w.Pool)
	}
	if w.OnDemand {
		in(cluster.LabelCapacityType, "on-demand")
	}
	if w.Tolerates != "" {
		w.podSpec.Tolerations = []cluster.Toleration{{Key: w.Tolerates, Operator: "Exists"}}
	}
	mine := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{w.Name}}}}
	if w.Spread {
		w.podSpec.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, MinDomains: w.Domains, Selector: mine}}
	}
	if w.OnePerNode {
		w.podSpec.AntiAffinity = []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: mine}}
	}
	c.changed()
	return w
}

// scale changes the replicas of a Deployment.
func (c *Cluster) setReplicas(w *workload, n int) {
	w.Replicas, w.reconciled = n, false
	c.changed()
}

// roll begins a rolling update.
func (c *Cluster) startRollout(w *workload) {
	w.version++
	w.reconciled = false
	c.logf("roll %s to %d", w.Name, w.version)
	c.changed()
}

func (w *workload) live() []*pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(p *pod) bool { return p.terminating })
}

// down is how many pods a disruption budget counts as unavailable.
func (w *workload) unavailable() int {
	healthy := 0
	for _, p := range w.pods {
		if p.ready && !p.terminating {
			healthy++
		}
	}
	return w.Replicas - healthy
}

// allowed is how many evictions the workload's disruption budget allows now.
func (w *workload) allowedEvictions() int {
	if w.MaxUnavailable < 0 || w.Every > 0 {
		return len(w.pods)
	}
	return max(0, w.MaxUnavailable-w.unavailable())
}

// reconcile is a Deployment's controller: as many pods as desired, the new version in
// place of the old with maxSurge 25 % and none unavailable.
func (w *workload) reconcile(c *Cluster) {
	if w.reconciled || w.Every > 0 {
		return
	}
	var young, old []*pod
	ready := 0
	for _, p := range w.live() {
		if p.version == w.version {
			young = append(young, p)
		} else {
			old = append(old, p)
		}
		if p.ready {
			ready++
		}
	}
	create := w.Replicas - len(young)
	if len(old) > 0 {
		c.Checker.outsideChange() // a rollout takes its own steps
		create = min(create, w.Replicas+(w.Replicas+3)/4-len(young)-len(old))
	}
	for range create {
		p := c.createPod(w)
		if w.unreplaced > 0 {
			w.unreplaced, p.evicted = w.unreplaced-1, true
		}
	}
	if create > 0 {
		w.unreplaced = 0
	}
	for _, p := range old {
		if !p.ready || ready > w.Replicas {
			if p.ready {
				ready--
			}
			c.terminatePod(p)
		}
	}
	// Pods that wait are deleted first, then the youngest.
	slices.SortStableFunc(young, func(a, b *pod) int {
		switch {
		case a.ready != b.ready && a.ready:
			return -1
		case a.ready != b.ready:
			return 1
		}
		return 0
	})
	for i := len(young) - 1; i >= max(0, w.Replicas); i-- {
		c.terminatePod(young[i])
	}
	w.reconciled = len(old) == 0
}

func (c *Cluster) createPod(w *workload) *pod {
	c.podsCreated++
	p := &pod{uid: fmt.Sprintf("%s-%d", w.Name, c.podsCreated), owner: w, version: w.version, created: c.now}
	w.pods = append(w.pods, p)
	c.pods = append(c.pods, p)
	c.mirror.podChanged(p)
	c.changed()
	return p
}

// stop asks a pod to end, which takes its grace.
func (c *Cluster) terminatePod(p *pod) {
	if p.terminating || p.gone {
		return
	}
	p.owner.reconciled = false
	if p.node == nil {
		c.removePod(p)
		return
	}
	p.terminating, p.ready, p.nominatedTo = true, false, ""
	p.node.lastPod = c.now
	c.mirror.podChanged(p)
	c.changed()
	c.after(p.owner.Grace, func() { c.removePod(p) })
}

// kill ends a pod at once.
func (c *Cluster) removePod(p *pod) {
	if p.gone {
		return
	}
	p.gone, p.ready = true, false
	p.owner.reconciled = false
	same := func(o *pod) bool { return o == p }
	p.owner.pods = slices.DeleteFunc(p.owner.pods, same)
	c.pods = slices.DeleteFunc(c.pods, same)
	if p.node != nil {
		p.node.pods = slices.DeleteFunc(p.node.pods, same)
		p.node.lastPod = c.now
	}
	c.mirror.podChanged(p)
	c.changed()
}

// bind binds a pod to a node, where it starts and, if it is a job, ends.
func (c *Cluster) bindPod(p *pod, m *node) {
	p.node, p.bound, p.nominatedTo = m, c.now, ""
	m.pods = append(m.pods, p)
	m.lastPod = c.now
	if p.evicted {
		c.Stats.LongestWait = max(c.Stats.LongestWait, c.now.Sub(p.created))
	}
	c.mirror.podChanged(p)
	c.changed()
	c.after(p.owner.Startup, func() {
		if p.gone || p.terminating {
			return
		}
		p.ready = true
		p.owner.reconciled = false
		c.changed()
	})
	if p.owner.Takes > 0 {
		c.after(p.owner.Takes, func() { c.completePod(p) })
	}
}

// finish ends a job's pod, which has succeeded.
func (c *Cluster) completePod(p *pod) {
	if !p.gone && !p.terminating {
		c.Checker.outsideChange()
		c.removePod(p)
	}
}
