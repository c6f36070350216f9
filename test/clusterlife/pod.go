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
	uid     string
	owner   *workload
	version int
	node    *machine // nil while pending
	created time.Time
	bound   time.Time
	ready   bool
	dying   bool // terminating
	gone    bool
	evicted bool // replaces one that was evicted for a move
	promise string
}

// world returns the pod as the engine sees it on a node, empty for none.
func (p *pod) world(node string) cluster.Pod {
	w := p.owner.spec
	w.PodRef = cluster.PodRef{Namespace: "default", Name: p.uid, UID: p.uid}
	w.Created, w.Node, w.Terminating, w.Movable = p.created, node, p.dying, !p.dying && !p.barred()
	return w
}

// barred reports whether the pod's node is being deleted and the pod's eviction is never
// allowed: no node need be launched for it.
func (p *pod) barred() bool {
	return p.node != nil && p.node.deleting && p.node.deadline.IsZero() &&
		(p.owner.Every == 0 && p.owner.MaxDown == 0 || p.owner.DoNotDisrupt && p.owner.ProtectFor == 0)
}

// protected reports whether do-not-disrupt holds for the pod now.
func (p *pod) protected(now time.Time) bool {
	switch {
	case p.dying || !p.owner.DoNotDisrupt:
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
	Apart      bool   // one a node
	// MaxDown is the maxUnavailable of a PodDisruptionBudget; negative means no such budget.
	MaxDown      int
	DoNotDisrupt bool
	ProtectFor   time.Duration // how long; 0 means for ever
	Grace        time.Duration // from the request to stop until it has ended
	Startup      time.Duration // from being bound until ready
	Every, Takes time.Duration // of a CronJob

	version int
	spec    cluster.Pod // the same in all of its pods
	pods    []*pod
	idle    bool // as desired when last looked at
	moving  int  // pods that were evicted and have no replacement yet
}

// deploy adds a workload.
func (c *Cluster) deploy(w *workload) *workload {
	c.workloads = append(c.workloads, w)
	w.spec = cluster.Pod{Labels: map[string]string{"app": w.Name}, Requests: amounts(w.Milli, w.MiB, 1)}
	in := func(key, value string) {
		w.spec.Required = append(w.spec.Required, constraint.Rule{Key: key, Operator: constraint.In, Values: []string{value}})
	}
	if w.Pool != "" {
		in("pool", w.Pool)
	}
	if w.OnDemand {
		in(cluster.LabelCapacityType, "on-demand")
	}
	if w.Tolerates != "" {
		w.spec.Tolerations = []cluster.Toleration{{Key: w.Tolerates, Operator: "Exists"}}
	}
	mine := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{w.Name}}}}
	if w.Spread {
		w.spec.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, MinDomains: w.Domains, Select: mine}}
	}
	if w.Apart {
		w.spec.AntiAffinity = []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Select: mine}}
	}
	c.changed()
	return w
}

// scale changes the replicas of a Deployment.
func (c *Cluster) scale(w *workload, n int) {
	w.Replicas, w.idle = n, false
	c.changed()
}

// roll begins a rolling update.
func (c *Cluster) roll(w *workload) {
	w.version++
	w.idle = false
	c.note("roll %s to %d", w.Name, w.version)
	c.changed()
}

func (w *workload) live() []*pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(p *pod) bool { return p.dying })
}

// down is how many pods a disruption budget counts as unavailable.
func (w *workload) down() int {
	healthy := 0
	for _, p := range w.pods {
		if p.ready && !p.dying {
			healthy++
		}
	}
	return w.Replicas - healthy
}

// allowed is how many evictions the workload's disruption budget allows now.
func (w *workload) allowed() int {
	if w.MaxDown < 0 || w.Every > 0 {
		return len(w.pods)
	}
	return max(0, w.MaxDown-w.down())
}

// reconcile is a Deployment's controller: as many pods as desired, the new version in
// place of the old with maxSurge 25 % and none unavailable.
func (w *workload) reconcile(c *Cluster) {
	if w.idle || w.Every > 0 {
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
		c.Watch.happened() // a rollout takes its own steps
		create = min(create, w.Replicas+(w.Replicas+3)/4-len(young)-len(old))
	}
	for range create {
		p := c.create(w)
		if w.moving > 0 {
			w.moving, p.evicted = w.moving-1, true
		}
	}
	if create > 0 {
		w.moving = 0
	}
	for _, p := range old {
		if !p.ready || ready > w.Replicas {
			if p.ready {
				ready--
			}
			c.stop(p)
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
		c.stop(young[i])
	}
	w.idle = len(old) == 0
}

func (c *Cluster) create(w *workload) *pod {
	c.born++
	p := &pod{uid: fmt.Sprintf("%s-%d", w.Name, c.born), owner: w, version: w.version, created: c.now}
	w.pods = append(w.pods, p)
	c.pods = append(c.pods, p)
	c.view.touch(p)
	c.changed()
	return p
}

// stop asks a pod to end, which takes its grace.
func (c *Cluster) stop(p *pod) {
	if p.dying || p.gone {
		return
	}
	p.owner.idle = false
	if p.node == nil {
		c.kill(p)
		return
	}
	p.dying, p.ready, p.promise = true, false, ""
	p.node.lastPod = c.now
	c.view.touch(p)
	c.changed()
	c.after(p.owner.Grace, func() { c.kill(p) })
}

// kill ends a pod at once.
func (c *Cluster) kill(p *pod) {
	if p.gone {
		return
	}
	p.gone, p.ready = true, false
	p.owner.idle = false
	same := func(o *pod) bool { return o == p }
	p.owner.pods = slices.DeleteFunc(p.owner.pods, same)
	c.pods = slices.DeleteFunc(c.pods, same)
	if p.node != nil {
		p.node.pods = slices.DeleteFunc(p.node.pods, same)
		p.node.lastPod = c.now
	}
	c.view.touch(p)
	c.changed()
}

// bind binds a pod to a node, where it starts and, if it is a job, ends.
func (c *Cluster) bind(p *pod, m *machine) {
	p.node, p.bound, p.promise = m, c.now, ""
	m.pods = append(m.pods, p)
	m.lastPod = c.now
	if p.evicted {
		c.Stats.Longest = max(c.Stats.Longest, c.now.Sub(p.created))
	}
	c.view.touch(p)
	c.changed()
	c.after(p.owner.Startup, func() {
		if p.gone || p.dying {
			return
		}
		p.ready = true
		p.owner.idle = false
		c.changed()
	})
	if p.owner.Takes > 0 {
		c.after(p.owner.Takes, func() { c.finish(p) })
	}
}

// finish ends a job's pod, which has succeeded.
func (c *Cluster) finish(p *pod) {
	if !p.gone && !p.dying {
		c.Watch.happened()
		c.kill(p)
	}
}
