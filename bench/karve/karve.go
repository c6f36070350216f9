// SPDX-License-Identifier: Apache-2.0

// Package karve runs our own engine on a scenario the way the product does: API
// objects through the product's converters into a warm snapshot, then a decision.
//
// The catalog, pools, DaemonSets, nodes and bound pods, which a controller keeps in
// memory, are converted before; the pending pods are not.
package karve

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// Cluster is a snapshot that is kept up to date.
type Cluster struct {
	Builder *cluster.Builder
	convert kube.Converter
	pending []*corev1.Pod
	names   map[string]string // of nodes, by key
}

// New builds the snapshot of s without its pending pods.
func New(s *scenario.Scenario) *Cluster {
	b := cluster.NewBuilder()
	b.SetSettings(s.Settings)
	b.SetNamespace("default", namespaceLabels())
	b.SetCatalog(scenario.Class, s.Types, nil)
	types := kube.NewInstanceTypes(s.Types)
	for _, p := range s.Pools {
		b.SetPool(kube.Pool(p))
	}
	for _, d := range s.DaemonSets {
		b.SetDaemon(kube.Daemon(d))
	}
	c := &Cluster{Builder: b, pending: s.Pending, names: map[string]string{}}
	for i, n := range s.Nodes {
		node := kube.Node(n, s.Claims[i], types, nil)
		c.names[node.Key] = node.Name
		b.SetNode(node)
	}
	for _, p := range s.Bound {
		c.Set(p)
	}
	b.Snapshot()
	return c
}

func namespaceLabels() map[string]string {
	return map[string]string{"kubernetes.io/metadata.name": "default"}
}

// Pod converts a pod as the product does.
func Pod(p *corev1.Pod) cluster.Pod { return kube.Pod(p, scenario.Now()) }

// Set adds or updates a pod.
func (c *Cluster) Set(p *corev1.Pod) { c.Builder.SetPod(c.convert.Pod(p, scenario.Now())) }

// Decide adds the pending pods and plans for them. It also returns the time that
// planning alone took.
func (c *Cluster) Decide() (schedule.Plan, time.Duration) {
	for _, p := range c.pending {
		c.Set(p)
	}
	w := c.Builder.Snapshot()
	start := time.Now()
	plan := schedule.Solve(w)
	return plan, time.Since(start)
}

// Forget removes the pending pods again, so that the next Decide starts from the
// same snapshot.
func (c *Cluster) Forget() {
	for _, p := range c.pending {
		c.Builder.RemovePod(string(p.UID))
	}
	c.Builder.Snapshot()
}

// Run is the result of repeated decisions on one scenario.
type Run struct {
	Plan    schedule.Plan
	Samples []measure.Sample
	Solve   []measure.Sample // planning alone; what it allocates is not counted
}

// Repeat decides as often as p says.
func (c *Cluster) Repeat(p measure.Patience) Run {
	var r Run
	start := time.Now()
	for p.More(len(r.Samples), start) {
		var solve time.Duration
		r.Samples = append(r.Samples, measure.Once(func() { r.Plan, solve = c.Decide() }))
		r.Solve = append(r.Solve, measure.Sample{Took: solve})
		c.Forget()
	}
	return r
}
