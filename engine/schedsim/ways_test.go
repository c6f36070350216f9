// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
)

// Rule CONSOLIDATION-20: a move is also rehearsed node by node, unless it saves more than that may cost.
func TestMovesThatSaveLittleAreRehearsedNodeByNode(t *testing.T) {
	costlier := 0
	for seed := range uint64(1000) {
		sim, m := randomMove(t, seed)
		node := sim.priceOfNode(&m)
		sim.collect(&m)
		m.PriceBefore = 1000 * node // it pays in either way
		nodeAfterNode := sim.simulate(&m, way{nodeByNode, scorePolicy{}, firstOffering}, true)
		sim.nodes.rollback()
		likeliest := sim.simulate(&m, likeliestWay(), true)
		sim.nodes.rollback()
		if nodeAfterNode.Extra > likeliest.Extra {
			costlier++
		}
		for saves, want := range map[offering.Price]offering.Price{
			unlikelyDifference + 8: max(nodeAfterNode.Extra, likeliest.Extra),
			likelyDifference:       likeliest.Extra,
		} {
			m.PriceBefore = likeliest.Extra + saves*node
			if got := sim.PerformIfPays(m); got.Extra != want {
				t.Errorf("seed %d: of a move that saves %d nodes, further launches cost %s, want %s", seed, saves, got.Extra, want)
			}
			sim.Undo()
		}
	}
	if costlier < 10 {
		t.Errorf("only %d moves cost more node by node", costlier)
	}
}

// randomMove drains some nodes of a small cluster, without a plan for their pods.
func randomMove(t *testing.T, seed uint64) (*Cluster, Move) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0x3a75))
	var script strings.Builder
	script.WriteString("type D4 cpu=4 mem=16Gi price=0.20\npool p\n")
	drained := 2 + r.IntN(3)
	for i := range drained + 2 + r.IntN(4) {
		fmt.Fprintf(&script, "node n%d type=D4 pool=p\n", i)
		for j := range 1 + r.IntN(3) {
			fmt.Fprintf(&script, "pod n%d-%d cpu=%dm mem=%dMi on=n%d\n", i, j, 100+r.IntN(1100), 100+r.IntN(5000), i)
		}
	}
	parsed, err := enginetest.Parse(script.String())
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	snapshot := parsed.Snapshot()
	m := Move{}
	for i := range drained {
		m.Drains = append(m.Drains, Drain{Node: snapshot.NodeByKey(fmt.Sprintf("n%d", i))})
	}
	return New(snapshot), m
}
