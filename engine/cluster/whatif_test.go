// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// supposition is a WhatIf and the script that describes the same state from scratch.
type supposition struct {
	*rand.Rand
	trial  *cluster.WhatIf
	script *enginetest.Script
	origin []cluster.Pod // the pods before the WhatIf, in the order of the script's
	added  map[string]*cluster.NodeInfo
	closed map[string]bool // nodes that took no pods before, or that the WhatIf added
	log    []string
}

func (x *supposition) node() *cluster.Node { return &x.script.Nodes[x.IntN(len(x.script.Nodes))] }

func (x *supposition) info(n *cluster.Node) *cluster.NodeInfo {
	if node := x.added[n.Key]; node != nil {
		return node
	}
	return x.trial.Snapshot().NodeByKey(n.Key)
}

// step supposes one random change, in the WhatIf and in the script.
func (x *supposition) step() {
	if len(x.script.Nodes) == 0 {
		return
	}
	n := x.node()
	switch x.IntN(7) {
	case 0:
		other := x.node()
		x.log = append(x.log, "remove "+n.Key+" and "+other.Key)
		x.trial.RemoveNodes(x.info(n), x.info(other))
		for _, n := range []*cluster.Node{n, other} {
			n.MarkedForDeletion, n.TakesNoPods = true, true
			x.restorePods(n.Name)
		}
	case 1:
		x.log = append(x.log, "remove "+n.Key)
		x.trial.RemoveNodes(x.info(n))
		n.MarkedForDeletion, n.TakesNoPods = true, true
		x.restorePods(n.Name)
	case 2, 3:
		x.toggleTakesPods(n)
	case 4:
		x.add(n)
	default:
		if !n.MarkedForDeletion {
			x.place(n)
		}
	}
}

// toggleTakesPods makes the node take no pods, or take them again.
func (x *supposition) toggleTakesPods(n *cluster.Node) {
	switch {
	case n.MarkedForDeletion:
		x.trial.TakePodsAgain(x.info(n))
	case n.TakesNoPods:
		x.log = append(x.log, "uncordon "+n.Key)
		x.trial.TakePodsAgain(x.info(n))
		n.TakesNoPods = x.closed[n.Key]
	default:
		x.log = append(x.log, "cordon "+n.Key)
		x.trial.StopTakingPods(x.info(n))
		n.TakesNoPods = true
	}
}

// restorePods restores in the script the node's pods from before the WhatIf: the WhatIf places
// the pods of a removed node even if it was marked for deletion already.
func (x *supposition) restorePods(node string) {
	for i := range x.script.Pods {
		if p, was := &x.script.Pods[i], x.origin[i]; enginetest.OnNoNode(*p) && node != "" && was.Node == node {
			p.Node, p.ReschedulableNow = was.Node, was.ReschedulableNow
		}
	}
}

// add supposes one more node, a copy of like.
func (x *supposition) add(like *cluster.Node) {
	n := *like
	n.Key = fmt.Sprint("added", len(x.script.Nodes))
	n.Name = n.Key
	n.Labels = maps.Clone(like.Labels)
	n.Labels[cluster.LabelHostname] = n.Key
	n.Labels["new"] = "yes"
	n.QuotaUses = slices.Clone(like.QuotaUses)
	for _, quota := range slices.Sorted(maps.Keys(x.script.Quotas)) {
		if x.IntN(4) == 0 {
			n.QuotaUses = append(n.QuotaUses, offering.QuotaUse{Quota: quota, Amount: 1})
		}
	}
	x.log = append(x.log, "add "+n.Key)
	x.added[n.Key], x.closed[n.Key] = x.trial.AddNode(n), true
	n.TakesNoPods, n.MarkedForDeletion = true, false
	x.script.Nodes = append(x.script.Nodes, n)
}

// place places some of the pods without a node on the node.
func (x *supposition) place(n *cluster.Node) {
	if n.Name == "" {
		n.Name = n.Key // the node registers while the pods are being moved
	}
	leaving := map[string]bool{}
	for _, o := range x.script.Nodes {
		leaving[o.Name] = leaving[o.Name] || o.MarkedForDeletion
	}
	var refs []cluster.PodRef
	for i := range x.script.Pods {
		p := &x.script.Pods[i]
		if x.IntN(3) > 0 || p.DaemonSet != "" || !(leaving[p.Node] || enginetest.OnNoNode(*p)) || p.Virtual {
			continue
		}
		p.Node, p.ReschedulableNow, p.Terminating = n.Name, true, false
		refs = append(refs, p.PodRef)
	}
	x.log = append(x.log, fmt.Sprint("place ", refs, " on ", n.Key))
	x.trial.Place(cluster.Placement{Pods: append(refs, cluster.PodRef{UID: "unknown"}), Node: x.info(n)})
}

// TestWhatIf: after any changes and rollbacks, the Snapshot of a WhatIf equals that of
// a Builder that gets the same state from scratch. After End, the original Snapshot is
// unchanged.
func TestWhatIf(t *testing.T) {
	for seed := range uint64(250) {
		script := enginetest.Populated(seed, 30)
		b := script.Builder()
		snapshot := b.Snapshot()
		before := ""
		schedule.Solve(snapshot) // creates the indexes
		before = b.Dump(snapshot)
		indexes := b.Indexes()
		x := &supposition{Rand: rand.New(rand.NewPCG(seed, 3)), trial: snapshot.WhatIf(), script: enginetest.WithoutPending(script), origin: script.Pods, added: map[string]*cluster.NodeInfo{}, closed: map[string]bool{}}
		for _, n := range x.script.Nodes {
			x.closed[n.Key] = n.TakesNoPods
		}
		for range 3 {
			x.steps(t, seed)
			mark, told, nodes := x.trial.Savepoint(), *x.script, len(x.log)
			x.script.Nodes, x.script.Pods = slices.Clone(told.Nodes), slices.Clone(told.Pods)
			x.steps(t, seed)
			x.trial.RollbackTo(mark)
			*x.script, x.log = told, append(x.log[:nodes:nodes], "and back")
			x.compare(t, seed)
		}
		x.trial.End()
		if slices.Equal(indexes, b.Indexes()) {
			if diff := cmp.Diff(before, b.Dump(snapshot)); diff != "" {
				t.Fatalf("seed %d: the Snapshot has changed:\n%s\nafter %v", seed, diff, x.log)
			}
		}
		if diff := cmp.Diff(enginetest.Print(schedule.Solve(script.Snapshot())), enginetest.Print(schedule.Solve(snapshot))); diff != "" {
			t.Fatalf("seed %d: the Snapshot gives another plan:\n%s\nafter %v", seed, diff, x.log)
		}
		schedule.Solve(b.Snapshot())
		if diff := cmp.Diff(fmt.Sprintf("%+v", schedule.Solve(script.Snapshot())), fmt.Sprintf("%+v", schedule.Solve(b.Snapshot()))); diff != "" {
			t.Fatalf("seed %d: the Builder has changed:\n%s", seed, diff)
		}
	}
}

func (x *supposition) steps(t *testing.T, seed uint64) {
	t.Helper()
	for range 1 + x.IntN(5) {
		x.step()
	}
	x.compare(t, seed)
}

func (x *supposition) compare(t *testing.T, seed uint64) {
	t.Helper()
	want, got := schedule.Solve(enginetest.WithNodesRemoved(x.script).Snapshot()), schedule.Solve(x.trial.Snapshot())
	if diff := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)); diff != "" {
		t.Fatalf("seed %d: from scratch (-) and supposed (+):\n%s\nafter %v\n%s", seed, cmp.Diff(enginetest.Print(want), enginetest.Print(got)), x.log, enginetest.Format(x.script))
	}
}
