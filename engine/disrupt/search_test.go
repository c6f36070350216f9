// SPDX-License-Identifier: Apache-2.0

package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
)

// poolCatalog has the instance types and pools of the scripts below.
const poolCatalog = `
type D2 cpu=2 mem=8Gi price=0.10
type D4 cpu=4 mem=16Gi price=0.20
type D8 cpu=8 mem=32Gi price=0.40
pool p
`

// d is a script line for a node of one of these types.
func d(name string, cores int, words ...string) string {
	return fmt.Sprintf("node %s cpu=%d mem=%dGi pool=p zone=1 price=%.2f label:node.kubernetes.io/instance-type=D%d label:karpenter.sh/capacity-type=on-demand %s\n",
		name, cores, 4*cores, float64(cores)/20, cores, strings.Join(words, " "))
}

// fullOf is pods of one core each.
func fullOf(node string, pods int) string {
	var b strings.Builder
	for i := range pods {
		fmt.Fprintf(&b, "pod %s%d cpu=1 mem=1Gi on=%s\n", node, i, node)
	}
	return b.String()
}

// told writes the moves and the kept nodes, one a line.
func told(p disrupt.Plan) string {
	var b strings.Builder
	for _, m := range p.Moves {
		fmt.Fprintf(&b, "%s %s", m.Cause, strings.Join(m.Nodes, "+"))
		for _, h := range m.Receivers {
			fmt.Fprintf(&b, " ->%s:%d", h.Node, len(h.Pods))
		}
		for _, l := range m.Launches {
			var types []string
			for _, c := range l.Offerings {
				types = append(types, c.Type+"/"+c.CapacityType[:1])
			}
			fmt.Fprintf(&b, " buys %s:%d", strings.Join(types, "|"), len(l.Pods))
		}
		fmt.Fprintf(&b, " %s\n", m.Saves())
	}
	for _, l := range p.Kept {
		fmt.Fprintf(&b, "%s stays: %s\n", l.Key, l.Because)
	}
	return b.String()
}

func TestSearch(t *testing.T) {
	now := disrupttest.Now()
	due := func(f *disrupttest.Fleet, c *disrupt.Cluster, key string, ago time.Duration) {
		i := slices.IndexFunc(c.Nodes, func(n disrupt.Node) bool { return n.Key == key })
		c.Nodes[i].Due = []disrupt.Due{{Cause: disrupt.Drifted, Detail: "ImageDrift", Since: now.Add(-ago)}}
	}
	keep := func(keys ...string) func(*disrupttest.Fleet, *disrupt.Cluster) {
		return func(_ *disrupttest.Fleet, c *disrupt.Cluster) {
			for i := range c.Nodes {
				if slices.Contains(keys, c.Nodes[i].Key) {
					c.Nodes[i].Blocks = []disrupt.Block{{Because: disrupt.DoNotDisrupt}}
				}
			}
		}
	}
	one := []disrupt.Budget{{Nodes: 1, Active: true}}
	for _, tc := range []struct {
		name, script string
		change       func(*disrupttest.Fleet, *disrupt.Cluster)
		want         string
	}{
		// Rule CONSOLIDATION-6: the order is empty nodes, then nodes that are due, then nodes
		// whose pods fit elsewhere, then nodes whose pods cost less elsewhere; no node is in
		// two moves, or both removed and a receiver of pods.
		{"stages", d("a", 4) + d("b", 4) + "pod b1 cpu=3800m mem=1Gi on=b\n" + d("c", 4) + "pod c1 cpu=500m mem=1Gi on=c\n" + d("d", 8) + "pod d1 cpu=1500m mem=1Gi on=d\npod d2 cpu=1500m mem=1Gi on=d\n",
			func(f *disrupttest.Fleet, c *disrupt.Cluster) { due(f, c, "b", time.Hour) },
			"Empty a 0.2000\nDrifted b ->d:1 0.2000\nUnderutilized c ->d:1 0.2000\nd stays: ReceivesPods\n"},
		// Rule CONSOLIDATION-9: a budget that does not suffice is spent on the most expensive
		// nodes.
		{"dearest empty first", d("a", 2) + d("b", 8) + d("c", 4), func(_ *disrupttest.Fleet, c *disrupt.Cluster) { c.Pools[0].Budgets = one },
			"Empty b 0.4000\na stays: BudgetExhausted\nc stays: BudgetExhausted\n"},
		// Rule DRIFT-11: nodes that are due are replaced whatever that costs, those that are due
		// longest first.
		{"due", d("a", 2) + "pod a1 cpu=1500m mem=1Gi on=a\n" + d("b", 2) + "pod b1 cpu=1500m mem=1Gi on=b\n", func(f *disrupttest.Fleet, c *disrupt.Cluster) {
			due(f, c, "a", time.Minute)
			due(f, c, "b", time.Hour)
			c.Pools[0].Budgets = one
		}, "Drifted b buys D2/o|D4/o|D8/o:1 0.0000\na stays: BudgetExhausted\n"},
		// Rule DRIFT-11: pods of a node that is due do not move to another node that is due.
		{"due goes to what stays", d("a", 4) + "pod a1 cpu=1 mem=1Gi on=a\n" + d("b", 8) + "pod b1 cpu=1 mem=1Gi on=b\n" + d("z", 8, "price=0.41") + "pod z1 cpu=6500m mem=1Gi on=z\n", func(f *disrupttest.Fleet, c *disrupt.Cluster) {
			due(f, c, "a", time.Hour)
			due(f, c, "b", time.Minute)
		}, "Drifted a ->z:1 0.2000\nDrifted b buys D2/o|D4/o|D8/o:1 0.3000\nz stays: ReceivesPods\n"},
		// Rule DRIFT-11: they may move to a node that is not quiet, to which consolidation
		// moves no pods.
		{"due goes to who is busy", d("a", 4) + "pod a1 cpu=1 mem=1Gi on=a\n" + d("b", 4) + "pod b1 cpu=3500m mem=1Gi on=b\n" + d("c", 8) + "pod c1 cpu=4500m mem=1Gi on=c\n", func(f *disrupttest.Fleet, c *disrupt.Cluster) {
			due(f, c, "a", time.Hour)
			c.Nodes[2].QuietSince = now
			c.Pools[0].ConsolidateAfter = time.Minute
		}, "Drifted a ->c:1 0.2000\nb stays: NotCheaper\nc stays: NotYetConsolidatable\n"},
		// Rule CONSOLIDATION-10: the node that saves most for what it disrupts is removed.
		{"delete", d("a", 4) + "pod a1 cpu=1 mem=1Gi on=a\npod a2 cpu=1 mem=1Gi on=a\n" + d("b", 4) + "pod b1 cpu=1 mem=1Gi on=b\n",
			nil, "Underutilized b ->a:1 0.2000\na stays: ReceivesPods\n"},
		// Rule CONSOLIDATION-10: uninitialized nodes and nodes that are not quiet receive no pods.
		{"no homes", d("a", 4) + "pod a1 cpu=3500m mem=1Gi on=a\n" + d("b", 8, "uninitialized") + d("c", 8) + "pod c1 cpu=7 mem=1Gi on=c\n", func(_ *disrupttest.Fleet, c *disrupt.Cluster) {
			c.Nodes[2].QuietSince = now
			c.Pools[0].ConsolidateAfter = time.Minute
		}, "a stays: NotCheaper\nb stays: NotInitialized\nc stays: NotYetConsolidatable\n"},
		// Rule CONSOLIDATION-12: one node is replaced by one; every offering of the launch must
		// pay.
		{"replace", d("a", 8) + "pod a1 cpu=1500m mem=1Gi on=a\n", nil, "Underutilized a buys D2/o|D4/o:1 0.3000\n"},
		// Rule CONSOLIDATION-15: a full node is replaced if other nodes take so many of its
		// pods that a smaller node suffices for the rest.
		{"full, and yet too many", d("x", 8) + fullOf("x", 8) + d("y", 8) + "pod y1 cpu=2 mem=1Gi on=y\n",
			keep("y"), "Underutilized x ->y:6 buys D2/o|D4/o:2 0.3000\ny stays: DoNotDisrupt\n"},
		{"full, and hardly too many", d("x", 8) + fullOf("x", 8) + d("y", 8) + "pod y1 cpu=7 mem=1Gi on=y\n",
			keep("y"), "x stays: NotCheaper\ny stays: DoNotDisrupt\n"},
		// Rule CONSOLIDATION-20: one pod is bound where the other should be, which then does
		// not fit.
		{"scattered", d("x", 4, "price=0.10") + "pod x1 cpu=2 mem=1Gi on=x\npod x2 cpu=1 mem=12Gi on=x\n" + d("y", 4) + "pod y1 cpu=3 mem=3Gi on=y\n" + d("z", 8) + "pod z1 cpu=6 mem=18Gi on=z\n",
			keep("y", "z"), "x stays: RehearsalFailed\ny stays: DoNotDisrupt\nz stays: DoNotDisrupt\n"},
		{"scattered, but worth it", d("x", 4, "price=0.11") + "pod x1 cpu=2 mem=1Gi on=x\npod x2 cpu=1 mem=12Gi on=x\n" + d("y", 4) + "pod y1 cpu=3 mem=3Gi on=y\n" + d("z", 8) + "pod z1 cpu=6 mem=18Gi on=z\n",
			keep("y", "z"), "Underutilized x ->y:1 ->z:1 0.1100\ny stays: DoNotDisrupt\nz stays: DoNotDisrupt\n"},
		{"scattered for Karpenter", d("x", 4, "price=0.10") + "pod x1 cpu=2 mem=1Gi on=x\npod x2 cpu=1 mem=12Gi on=x\n" + d("y", 4) + "pod y1 cpu=3 mem=3Gi on=y\n" + d("z", 8) + "pod z1 cpu=6 mem=18Gi on=z\n",
			func(f *disrupttest.Fleet, c *disrupt.Cluster) {
				keep("y", "z")(f, c)
				c.Settings.Upstream = true
			}, "Underutilized x ->y:1 ->z:1 0.1000\ny stays: DoNotDisrupt\nz stays: DoNotDisrupt\n"},
		// Rule CONSOLIDATION-21: where pods have anti-affinity, no pod moves to a node where
		// kube-scheduler would not put it.
		{"scattered, but apart", d("x", 4, "price=0.10") + "pod x1 cpu=2 mem=1Gi on=x\npod x2 cpu=1 mem=12Gi label:app=w anti-affinity=host:app=w on=x\n" + d("y", 4) + "pod y1 cpu=3 mem=3Gi on=y\n" + d("z", 8) + "pod z1 cpu=6 mem=18Gi label:app=w on=z\n",
			keep("y", "z"), "Underutilized x ->y:1 ->z:1 0.1000\ny stays: DoNotDisrupt\nz stays: DoNotDisrupt\n"},
		// Rule CONSOLIDATION-12: two nodes are replaced together, when neither alone saves enough.
		{"two by one", "type T16 cpu=16 mem=64Gi price=0.60\n" + d("a", 8) + d("b", 8) + "pods a x3 cpu=2500m mem=1Gi on=a\npods b x3 cpu=2500m mem=1Gi on=b\n",
			nil, "Underutilized a+b buys T16/o:6 0.2000\n"},
		// Rule CONSOLIDATION-11: a node that is replaced however full it is receives no pods: no
		// pod moves twice.
		{"wrong machines", "type S2 cpu=2 mem=8Gi spot=0.02\ntype S4 cpu=4 mem=16Gi spot=0.04\ntype S8 cpu=8 mem=32Gi spot=0.08\n" + d("w", 8) + "pods w x6 cpu=1 mem=1Gi on=w\n" +
			strings.ReplaceAll(d("k", 4, "price=0.04")+d("x", 2, "price=0.02"), "on-demand", "spot") + "pods k x2 cpu=1 mem=1Gi on=k\npod x1 cpu=1 mem=1Gi on=x\n",
			nil, "Underutilized x ->k:1 0.0200\nUnderutilized w ->k:1 buys S4/s|S8/s:4 buys S2/s|S4/s|S8/s:1 0.3400\nk stays: ReceivesPods\n"},
		// Rule CONSOLIDATION-11: a node without any replacement receives pods after all.
		{"machines that are not sold any more", d("a", 4, "label:fpga=yes") + d("b", 8, "label:fpga=yes") + "pod a1 cpu=1 mem=1Gi require:fpga=In:yes on=a\npod b1 cpu=1 mem=1Gi require:fpga=In:yes on=b\n",
			nil, "Underutilized b ->a:1 0.4000\na stays: PodsDoNotFit\n"},
		// Rule CONSOLIDATION-13: spot is replaced by spot only with SpotToSpot, and with enough
		// instance types.
		{"spot", strings.ReplaceAll(d("a", 8), "on-demand", "spot") + "type S2 cpu=2 mem=8Gi spot=0.02\ntype S4 cpu=4 mem=16Gi spot=0.04\ntype S8 cpu=8 mem=16Gi spot=0.08\npod a1 cpu=1 mem=1Gi on=a\n",
			func(_ *disrupttest.Fleet, c *disrupt.Cluster) { c.Settings.SpotToSpot = false }, "a stays: SpotToSpot\n"},
		{"spot to spot", strings.ReplaceAll(d("a", 8), "on-demand", "spot") + "type S2 cpu=2 mem=8Gi spot=0.02\ntype S4 cpu=4 mem=16Gi spot=0.04\ntype S8 cpu=8 mem=16Gi spot=0.08\npod a1 cpu=1 mem=1Gi on=a\n",
			nil, "Underutilized a buys S2/s|S4/s|S8/s:1 0.3800\n"},
		{"spot to spot for Karpenter", strings.ReplaceAll(d("a", 8), "on-demand", "spot") + "type S2 cpu=2 mem=8Gi spot=0.02\ntype S4 cpu=4 mem=16Gi spot=0.04\ntype S8 cpu=8 mem=16Gi spot=0.08\npod a1 cpu=1 mem=1Gi on=a\n",
			func(_ *disrupttest.Fleet, c *disrupt.Cluster) { c.Settings.Upstream = true }, "a stays: SpotToSpot\n"},
		// Rule CONSOLIDATION-19: a node without a known price is removed when possible, and is
		// never replaced.
		{"unpriced", d("a", 8, "price=0") + "pod a1 cpu=1 mem=1Gi on=a\n", nil, "a stays: PriceUnknown\n"},
		// Rule CONSOLIDATION-19: a move that saves less than required is not made, and the
		// reason says how much it saves.
		{"thrift", d("a", 4, "price=0.205") + "pod a1 cpu=3 mem=1Gi on=a\n", func(_ *disrupttest.Fleet, c *disrupt.Cluster) {
			c.Pools[0].MinSavings = &disrupt.MinSavings{PerHour: 1e7}
		}, "a stays: NotCheaper\n"},
		// Rule CONSOLIDATION-14: a replacement must fit its pool's limits beside the node that
		// it replaces.
		{"limits", "pool q limit:cpu=9\n" + strings.ReplaceAll(d("a", 8), "pool=p", "pool=q") + "pod a1 cpu=1500m mem=1Gi require:karpenter.sh/nodepool=In:q on=a\n", nil, "a stays: PodsDoNotFit\n"},
		// Rule MOVE-4: no node is launched in a pool where moves failed.
		{"supplier rests", "pool q\n" + strings.ReplaceAll(d("a", 8), "pool=p", "pool=q") + "pod a1 cpu=1500m mem=1Gi require:karpenter.sh/nodepool=In:p on=a\n" + strings.ReplaceAll(d("b", 8), "pool=p", "pool=q") + "pod b1 cpu=1500m mem=1Gi require:karpenter.sh/nodepool=In:p on=b\n", func(f *disrupttest.Fleet, c *disrupt.Cluster) {
			due(f, c, "a", time.Hour)
			c.Pools[0].Resting = now.Add(time.Minute)
		}, "a stays: BackingOff\nb stays: BackingOff\n"},
		// Rule STATIC-4: a static pool's node that is due is replaced one for one, and
		// otherwise kept.
		{"static", "pool s static\n" + strings.ReplaceAll(d("a", 2)+d("b", 2), "pool=p", "pool=s") + "pod a1 cpu=1 mem=1Gi on=a\npod b1 cpu=1 mem=1Gi on=b\n", func(f *disrupttest.Fleet, c *disrupt.Cluster) {
			due(f, c, "a", time.Hour)
		}, "Drifted a buys D2/o|D4/o|D8/o:0 0.0000\nb stays: Static\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := enginetest.Parse(poolCatalog + tc.script)
			if err != nil {
				t.Fatal(err)
			}
			f := disrupttest.Of(s)
			pools := poolsOf(s)
			for i := range pools {
				pools[i].MinAge = -1
			}
			c := f.Cluster(now, pools, disrupt.Settings{MinSavings: disrupt.MinSavings{Share: 0.05}, SpotToSpot: true})
			if tc.change != nil {
				tc.change(f, &c)
			}
			if diff := cmp.Diff(tc.want, told(disrupt.Search(f.Builder.Snapshot(), c, disrupt.Cursor{}))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Rule CONSOLIDATION-22: the reason for a node that is kept because of a user's setting says
// what its removal would save.
func TestWishesCost(t *testing.T) {
	s, err := enginetest.Parse(poolCatalog + d("a", 4) + "pod a1 cpu=1 mem=1Gi on=a\n" + d("b", 8) + "pod b1 cpu=1 mem=1Gi on=b\npod b2 cpu=1 mem=1Gi on=b\n")
	if err != nil {
		t.Fatal(err)
	}
	f := disrupttest.Of(s)
	c := f.Cluster(disrupttest.Now(), poolsOf(s), disrupt.Settings{})
	for i := range c.Nodes {
		c.Nodes[i].Blocks = []disrupt.Block{{Because: disrupt.DoNotDisrupt, Detail: "asked to"}}
	}
	got := map[string]offering.Price{}
	for _, l := range disrupt.Search(f.Builder.Snapshot(), c, disrupt.Cursor{}).Kept {
		if l.Because != disrupt.DoNotDisrupt {
			t.Errorf("%s stays because of %s", l.Key, l.Because)
		}
		got[l.Key] = l.Costs
	}
	if diff := cmp.Diff(map[string]offering.Price{"a": 2e8, "b": 4e8}, got); diff != "" {
		t.Error(diff)
	}
}

// Rule MOVE-2: a move is rechecked before it is made: it is made if it is still right, without
// the nodes of a deletion that may not be removed any more, and else not at all.
func TestRecheck(t *testing.T) {
	const script = "pod a1 cpu=1500m mem=1Gi on=a\npod b1 cpu=7500m mem=1Gi on=b\n"
	for _, tc := range []struct {
		name, more string
		change     func(*disrupt.Cluster)
		want       reason.Reason
	}{
		{"nothing changed", "", nil, ""},
		{"a pod came that fits", "pod a2 cpu=100m mem=1Gi on=a\n", nil, ""},
		{"a pod came that does not fit what was to be bought", "pod a2 cpu=4 mem=1Gi on=a\n", nil, disrupt.DecisionChanged},
		{"somebody objects", "", func(c *disrupt.Cluster) {
			c.Nodes[0].Blocks = []disrupt.Block{{Because: disrupt.DoNotDisrupt}}
		}, disrupt.DoNotDisrupt},
		{"the budget is used up", "", func(c *disrupt.Cluster) { c.Nodes[1].Ready = false }, disrupt.BudgetExhausted},
		{"it became empty", "", func(c *disrupt.Cluster) { c.Nodes[0].Pods = 0 }, disrupt.NotOccupied},
	} {
		t.Run(tc.name, func(t *testing.T) {
			search := func(text string) (*disrupttest.Fleet, disrupt.Cluster) {
				s, err := enginetest.Parse(poolCatalog + d("a", 8) + d("b", 8) + text)
				if err != nil {
					t.Fatal(err)
				}
				f := disrupttest.Of(s)
				pools := poolsOf(s)
				pools[0].Budgets = []disrupt.Budget{{Nodes: 1, Active: true}}
				return f, f.Cluster(disrupttest.Now(), pools, disrupt.Settings{})
			}
			f, c := search(script)
			p := disrupt.Search(f.Builder.Snapshot(), c, disrupt.Cursor{})
			if len(p.Moves) != 1 {
				t.Fatalf("moves: %s", told(p))
			}
			f, c = search(script + tc.more)
			if tc.change != nil {
				tc.change(&c)
			}
			c.Underway = p.Moves
			m, left := disrupt.Recheck(f.Builder.Snapshot(), c, p.Moves[0])
			if left.Because != tc.want {
				t.Errorf("%q %s", left.Because, left.Detail)
			}
			if tc.want == "" && (len(m.Nodes) != 1 || len(m.Launches) != 1) {
				t.Errorf("%+v", m)
			}
		})
	}
}
