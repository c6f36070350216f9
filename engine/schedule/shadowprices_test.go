// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestShadowPricesBound: for any set of nodes, no plan that launches nodes for all of their pods
// costs less than the pods are worth.
func TestShadowPricesBound(t *testing.T) {
	tight, launched := 0.0, 0
	for seed := range uint64(400) {
		snapshot := enginetest.Populated(seed, 1+int(seed%40)).Snapshot()
		trial := snapshot.WhatIf()
		var nodes []*cluster.NodeInfo
		for _, node := range snapshot.Nodes {
			nodes = append(nodes, node)
			trial.StopTakingPods(node) // no node has free capacity to use
		}
		rates := schedule.NewShadowPrices(snapshot, nodes)
		r := rand.New(rand.NewPCG(seed, 9))
		for range 4 {
			mark := trial.Savepoint()
			var set []*cluster.NodeInfo
			for _, node := range nodes {
				if r.IntN(3) == 0 {
					set = append(set, node)
					trial.RemoveNodes(node)
				}
			}
			d := schedule.NewDraft(trial.Snapshot(), 1<<62)
			if d.Unplaced() == 0 && d.Price() > 0 {
				price, worth := d.Plan().Price(), rates.Worth(set...)
				if price < worth {
					t.Errorf("seed %d: pods of %d nodes are worth %s but get nodes at %s", seed, len(set), worth, price)
				}
				tight, launched = tight+worth.USD()/price.USD(), launched+1
			}
			trial.RollbackTo(mark)
		}
		trial.End()
	}
	if launched < 150 || tight/float64(launched) < 0.3 {
		t.Errorf("over %d plans shadow prices are %.2f of the price: that bounds nothing", launched, tight/float64(launched))
	}
	t.Logf("%d plans, shadow prices are %.2f of the price", launched, tight/float64(launched))
}

// BenchmarkNewShadowPrices finds the shadow prices of a cluster and the worth of each node's
// pods.
func BenchmarkNewShadowPrices(b *testing.B) {
	t := newBenchCluster(2000, 40000, 120, 50)
	snapshot := t.b.Snapshot()
	var waste, price float64
	for b.Loop() {
		rates := schedule.NewShadowPrices(snapshot, snapshot.Nodes)
		waste, price = 0, 0
		for _, node := range snapshot.Nodes {
			price += node.Price.USD()
			waste += (node.Price - rates.Worth(node)).USD()
		}
	}
	b.ReportMetric(100*waste/price, "%waste")
}
