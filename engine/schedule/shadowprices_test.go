// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestRatesBound: for any set of nodes, no plan that launches nodes for all of their pods
// costs less than the pods are worth.
func TestRatesBound(t *testing.T) {
	tight, bought := 0.0, 0
	for seed := range uint64(400) {
		w := enginetest.Populated(seed, 1+int(seed%40)).Snapshot()
		trial := w.WhatIf()
		var hosts []*cluster.NodeInfo
		for _, node := range w.Nodes {
			hosts = append(hosts, node)
			trial.Cordon(node) // no node has free capacity to use
		}
		rates := schedule.NewShadowPrices(w, hosts)
		r := rand.New(rand.NewPCG(seed, 9))
		for range 4 {
			mark := trial.Mark()
			var set []*cluster.NodeInfo
			for _, node := range hosts {
				if r.IntN(3) == 0 {
					set = append(set, node)
					trial.RemoveNodes(node)
				}
			}
			d := schedule.NewDraft(trial.Snapshot(), 1<<62)
			if d.Unplaced() == 0 && d.Price() > 0 {
				price, worth := d.Plan().Price(), rates.Of(set...)
				if price < worth {
					t.Errorf("seed %d: pods of %d nodes are worth %s but are bought for at %s", seed, len(set), worth, price)
				}
				tight, bought = tight+worth.USD()/price.USD(), bought+1
			}
			trial.RollbackTo(mark)
		}
		trial.End()
	}
	if bought < 150 || tight/float64(bought) < 0.3 {
		t.Errorf("over %d plans rates are %.2f of the price: that bounds nothing", bought, tight/float64(bought))
	}
	t.Logf("%d plans, rates are %.2f of the price", bought, tight/float64(bought))
}

// BenchmarkRates finds the shadow prices of a town and the worth of each node's pods.
func BenchmarkRates(b *testing.B) {
	t := newTown(2000, 40000, 120, 50)
	w := t.b.Snapshot()
	var waste, price float64
	for b.Loop() {
		rates := schedule.NewShadowPrices(w, w.Nodes)
		waste, price = 0, 0
		for _, node := range w.Nodes {
			price += node.Price.USD()
			waste += (node.Price - rates.Of(node)).USD()
		}
	}
	b.ReportMetric(100*waste/price, "%waste")
}
