// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
)

// provisioner launches nodes for pending pods, in batches.
type provisioner struct {
	c   *Cluster
	due bool // a batch is due already
}

// schedule makes a batch due soon after a first pod is pending.
func (pr *provisioner) schedule() {
	if !pr.due && slices.ContainsFunc(pr.c.workloads.pods, pr.needsNode) {
		pr.due = true
		pr.c.after(pr.c.Durations.Batch, func() { pr.provision() })
	}
}

// needsNode reports whether the pod waits for a node and is not nominated to one.
func (pr *provisioner) needsNode(p *pod) bool {
	return p.nominatedTo == "" && !p.terminating && !p.neverEvictable() && (p.node == nil || p.node.podsNominatedElsewhere() || p.node.isDeleting())
}

// provision launches nodes for pods that wait.
func (pr *provisioner) provision() {
	pr.due = false
	snapshot := pr.c.mirror.snapshot()
	if !slices.ContainsFunc(pr.c.workloads.pods, pr.needsNode) {
		return
	}
	pr.c.Stats.Solves++
	plan := pr.c.decider.Solve(snapshot)
	for _, n := range plan.Nominations {
		pr.c.mirror.nominate(n.Node, n.Pods)
	}
	for _, l := range plan.Launches {
		n := pr.c.nodes.order(l.Pool, l.Offerings)
		pr.c.logf("for %s", pr.c.describe(l.Pods))
		pr.countUndone(l.Pods)
		pr.c.undone.launchedFor(l.Pods)
		pr.c.mirror.nominate(n.key, l.Pods)
	}
	if len(plan.Unplaced) > 0 {
		pr.due = true // looked at again when there may be news
		pr.c.after(30*time.Second, func() { pr.provision() })
	}
	pr.c.changes++
}

// countUndone counts launches for pods that a move displaced: kube-scheduler bound other pods
// to their nodes.
func (pr *provisioner) countUndone(refs []cluster.PodRef) {
	for _, ref := range refs {
		if p := pr.c.workloads.find(ref.UID); p != nil && p.evicted {
			pr.c.Stats.Undone++
			return
		}
	}
}
