// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// workloads are the workloads of the cluster and their pods.
type workloads struct {
	c       *Cluster
	list    []*workload
	pods    []*pod // alive, in the order of their creation
	created int    // pods ever created
}

// deploy adds a workload.
func (ws *workloads) deploy(w *workload) *workload {
	ws.list = append(ws.list, w)
	w.podSpec = cluster.Pod{Labels: map[string]string{"app": w.Name}, Requests: resources(w.Milli, w.MiB, 1)}
	in := func(key, value string) {
		w.podSpec.Required = append(w.podSpec.Required, constraint.Rule{Key: key, Operator: constraint.In, Values: []string{value}})
	}
	if w.Placement.Pool != "" {
		in("pool", w.Placement.Pool)
	}
	if w.Placement.OnDemand {
		in(cluster.LabelCapacityType, "on-demand")
	}
	if w.Placement.Tolerates != "" {
		w.podSpec.Tolerations = []cluster.Toleration{{Key: w.Placement.Tolerates, Operator: "Exists"}}
	}
	mine := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{w.Name}}}}
	if w.Placement.Spread {
		w.podSpec.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, MinDomains: w.Placement.MinDomains, Selector: mine}}
	}
	if w.Placement.OnePerNode {
		w.podSpec.AntiAffinity = []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: mine}}
	}
	ws.c.changed()
	return w
}

// setReplicas changes the replicas of a Deployment.
func (ws *workloads) setReplicas(w *workload, n int) {
	w.Replicas, w.reconciled = n, false
	ws.c.changed()
}

// startRollout begins a rolling update.
func (ws *workloads) startRollout(w *workload) {
	w.version++
	w.reconciled = false
	ws.c.logf("roll %s to %d", w.Name, w.version)
	ws.c.changed()
}

// reconcile is a Deployment's controller: as many pods as desired, the new version in
// place of the old with maxSurge 25 % and none unavailable.
func (ws *workloads) reconcile(w *workload) {
	if w.reconciled || w.isJob() {
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
		ws.c.Checker.outsideChange() // a rollout takes its own steps
		create = min(create, w.Replicas+(w.Replicas+3)/4-len(young)-len(old))
	}
	for range create {
		p := ws.create(w)
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
			ws.terminate(p)
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
		ws.terminate(young[i])
	}
	w.reconciled = len(old) == 0
}

func (ws *workloads) create(w *workload) *pod {
	ws.created++
	p := &pod{uid: fmt.Sprintf("%s-%d", w.Name, ws.created), owner: w, version: w.version, created: ws.c.now}
	w.pods = append(w.pods, p)
	ws.pods = append(ws.pods, p)
	ws.c.mirror.podChanged(p)
	ws.c.changed()
	return p
}

// bind binds a pod to a node, where it starts and, if it is a job, ends.
func (ws *workloads) bind(p *pod, n *node) {
	p.node, p.bound, p.nominatedTo = n, ws.c.now, ""
	n.pods = append(n.pods, p)
	n.lastPod = ws.c.now
	if p.evicted {
		ws.c.Stats.LongestWait = max(ws.c.Stats.LongestWait, ws.c.now.Sub(p.created))
	}
	ws.c.mirror.podChanged(p)
	ws.c.changed()
	ws.c.after(p.owner.Startup, func() {
		if p.gone || p.terminating {
			return
		}
		p.ready = true
		p.owner.reconciled = false
		ws.c.changed()
	})
	if p.owner.Job.Takes > 0 {
		ws.c.after(p.owner.Job.Takes, func() { ws.complete(p) })
	}
}

// complete ends a job's pod, which has succeeded.
func (ws *workloads) complete(p *pod) {
	if !p.gone && !p.terminating {
		ws.c.Checker.outsideChange()
		ws.remove(p)
	}
}

// terminate asks a pod to end, which takes its grace.
func (ws *workloads) terminate(p *pod) {
	if p.terminating || p.gone {
		return
	}
	p.owner.reconciled = false
	if p.node == nil {
		ws.remove(p)
		return
	}
	p.terminating, p.ready, p.nominatedTo = true, false, ""
	p.node.lastPod = ws.c.now
	ws.c.mirror.podChanged(p)
	ws.c.changed()
	ws.c.after(p.owner.Grace, func() { ws.remove(p) })
}

// remove ends a pod at once.
func (ws *workloads) remove(p *pod) {
	if p.gone {
		return
	}
	p.gone, p.ready = true, false
	p.owner.reconciled = false
	same := func(o *pod) bool { return o == p }
	p.owner.pods = slices.DeleteFunc(p.owner.pods, same)
	ws.pods = slices.DeleteFunc(ws.pods, same)
	if p.node != nil {
		p.node.pods = slices.DeleteFunc(p.node.pods, same)
		p.node.lastPod = ws.c.now
	}
	ws.c.mirror.podChanged(p)
	ws.c.changed()
}

func (ws *workloads) find(uid string) *pod {
	for _, p := range ws.pods {
		if p.uid == uid {
			return p
		}
	}
	return nil
}
