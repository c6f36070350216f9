// SPDX-License-Identifier: Apache-2.0

package disrupt_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Rule CONSOLIDATION-20, Rule CONSOLIDATION-21: where pods spread over zones, the scheduler may
// put them into another zone than planned, or must; further launches have the price of the zone
// where they are needed. A move pays all the same, whatever the scheduler prefers, whichever of
// its offerings are launched, and however quickly its pods leave. The scheduler here is the
// test's own.
func TestMovesPayInWhateverZonePodsAreBound(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	moves, more := 0, 0
	for seed := range seeds {
		for _, h := range executions() {
			f := randomZonedCluster(seed)
			p := disrupt.Search(f.Builder.Snapshot(), f.ForDisruption(disrupttest.Now(), []disrupt.Pool{{Name: "p"}}, disrupt.Settings{}), disrupt.Cursor{})
			if len(p.Moves) == 0 { // later moves depend on the new nodes of earlier moves' pods
				continue
			}
			m, before, nodes := p.Moves[0], f.Price(), f.Launched
			h.carryOut(t, f, &m)
			moves++
			more += f.Launched - nodes - len(m.Launches)
			if after := f.Price(); after >= before {
				t.Errorf("seed %d: %v -> %d launches for %s leads from %s to %s when %+v", seed, m.Nodes, len(m.Launches), m.PriceAfter, before, after, h)
			}
		}
	}
	if more == 0 {
		t.Error("no further node was launched: the scheduler bound every pod as planned")
	}
	t.Logf("%d moves, %d further launches", moves, more)
}

// execution is one way in which a move is carried out.
type execution struct {
	nodeByNode, reversed bool // the order in which pods leave; else the largest of all first
	oneByOne             bool // one pod is scheduled before the next leaves
	scoreBefore          bool // the scheduler prefers the node that is emptiest before
	last                 bool // the last offering of each launch is launched
}

func executions() []execution {
	return []execution{{}, {scoreBefore: true}, {last: true}, {oneByOne: true}, {nodeByNode: true}, {nodeByNode: true, scoreBefore: true}, {nodeByNode: true, reversed: true}}
}

// randomZonedCluster is a few nodes in three zones, with pods of several owners; the first two
// owners spread theirs.
func randomZonedCluster(seed uint64) *disrupttest.Cluster {
	r := rand.New(rand.NewPCG(seed, 0x20e5))
	f := disrupttest.New()
	zones := []string{"1", "2", "3"}
	var types []offering.InstanceType
	for i, cores := range []int64{2, 4, 8} {
		for j, memory := range []int64{2, 4} {
			var offerings []offering.Offering
			for k, z := range zones {
				offerings = append(offerings, offering.Offering{Zone: z, CapacityType: offering.OnDemand, Price: offering.Price((40+8*j)*(10+k)*int(cores)-i-j) * 1e5})
			}
			types = append(types, offering.InstanceType{Name: fmt.Sprint("FD"[j:j+1], cores), Offerings: offerings, Capacity: amounts(cores*1000, cores*memory<<10, 110)})
		}
	}
	f.SetCatalog(enginetest.NodeClass, types)
	f.SetPool(cluster.NodePool{Name: "p", NodeClass: enginetest.NodeClass})
	for i := range 3 + r.IntN(7) {
		like, offered := &types[r.IntN(len(types))], r.IntN(len(zones))
		name := fmt.Sprintf("a%02d", i)
		f.SetNode(cluster.Node{Key: name, Name: name, Pool: "p", HasNodeClaim: true, Initialized: true, Capacity: like.Capacity, Allocatable: like.Capacity, Price: like.Offerings[offered].Price,
			Labels: map[string]string{cluster.LabelHostname: name, cluster.LabelNodePool: "p", cluster.LabelZone: zones[offered], cluster.LabelCapacityType: offering.OnDemand, cluster.LabelInstanceType: like.Name}})
		left := like.Capacity
		for range r.IntN(8) {
			p := podOfOwner(r.IntN(5))
			p.Node, p.UID = name, fmt.Sprintf("%s-%d", name, len(f.Pods))
			p.Namespace, p.Name = "default", p.UID
			if next := left.Sub(p.Requests); !negative(next) {
				left = next
				f.SetPod(p)
			}
		}
	}
	return f
}

// podOfOwner is a pod of that owner.
func podOfOwner(owner int) cluster.Pod {
	app := fmt.Sprint("app", owner)
	p := cluster.Pod{ReschedulableNow: true, Labels: map[string]string{"app": app}, Requests: amounts([]int64{500, 1000, 300, 1500, 2500}[owner], []int64{512, 2048, 3000, 1024, 6000}[owner], 1)}
	if owner < 2 {
		p.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, MinDomains: int32(1 + 2*owner),
			Selector: cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{app}}}}}}
	}
	return p
}

func negative(a map[string]int64) bool {
	for _, v := range a {
		if v < 0 {
			return true
		}
	}
	return false
}

// carryOut carries out the move: its launches become nodes, its pods leave and are scheduled, its
// nodes are removed.
func (e execution) carryOut(t *testing.T, f *disrupttest.Cluster, m *disrupt.Move) {
	t.Helper()
	for _, l := range m.Launches {
		if e.last {
			l.Offerings = l.Offerings[len(l.Offerings)-1:]
		}
		launchNode(t, f, l.Offerings[0])
	}
	pods := e.leaving(f, m)
	if !e.oneByOne {
		for _, p := range pods {
			p.Node = ""
			f.SetPod(p)
		}
	}
	for _, p := range pods {
		p.Node = ""
		f.SetPod(p)
		p.Node = e.bestNode(f, &p, m.Nodes)
		if p.Node == "" {
			p.Node = launchForPod(t, f, &p)
		}
		f.SetPod(p)
	}
	for _, key := range m.Nodes {
		f.RemoveNode(key)
	}
}

// leaving lists the pods of the move in the order in which they leave.
func (e execution) leaving(f *disrupttest.Cluster, m *disrupt.Move) []cluster.Pod {
	var pods []cluster.Pod
	for _, uid := range slices.Sorted(maps.Keys(f.Pods)) {
		if p := f.Pods[uid]; slices.Contains(m.Nodes, p.Node) {
			pods = append(pods, p)
		}
	}
	order := func(p cluster.Pod) int {
		at := slices.Index(m.Nodes, p.Node)
		switch {
		case !e.nodeByNode:
			return 0
		case e.reversed:
			return -at
		}
		return at
	}
	size := func(p cluster.Pod) float64 { return share(p.Requests, f.Nodes[p.Node].Allocatable) }
	slices.SortStableFunc(pods, func(x, y cluster.Pod) int {
		return cmp.Or(cmp.Compare(order(x), order(y)), cmp.Compare(size(y), size(x)))
	})
	return pods
}

// bestNode is the node that the scheduler prefers for the pod; empty when none takes it.
func (e execution) bestNode(f *disrupttest.Cluster, p *cluster.Pod, closed []string) string {
	best, most := "", -1.0
	for _, key := range slices.Sorted(maps.Keys(f.Nodes)) {
		n := f.Nodes[key]
		free := n.Allocatable
		for _, o := range f.Pods {
			if o.Node == key {
				free = free.Sub(o.Requests)
			}
		}
		after := free.Sub(p.Requests)
		if slices.Contains(closed, key) || negative(after) || !spreadAdmits(f, p, n.Labels[cluster.LabelZone]) {
			continue
		}
		score := share(after, n.Allocatable)
		if e.scoreBefore {
			score = share(free, n.Allocatable)
		}
		if score > most {
			best, most = key, score
		}
	}
	return best
}

// spreadAdmits reports whether the pod's spread, if it has one, admits it to the zone.
func spreadAdmits(f *disrupttest.Cluster, p *cluster.Pod, zone string) bool {
	if len(p.Spreads) == 0 {
		return true
	}
	count := map[string]int{zone: 0}
	for _, n := range f.Nodes {
		count[n.Labels[cluster.LabelZone]] += 0
	}
	for _, o := range f.Pods {
		if n, bound := f.Nodes[o.Node]; bound && o.Labels["app"] == p.Labels["app"] {
			count[n.Labels[cluster.LabelZone]]++
		}
	}
	least := count[zone]
	for _, n := range count {
		least = min(least, n)
	}
	if len(count) < int(p.Spreads[0].MinDomains) {
		least = 0
	}
	return count[zone]+1-least <= 1
}

// launchForPod launches the cheapest node where the pod may be.
func launchForPod(t *testing.T, f *disrupttest.Cluster, p *cluster.Pod) string {
	t.Helper()
	var best offering.Ref
	for _, of := range f.Types[enginetest.NodeClass] {
		for _, o := range of.Offerings {
			if !negative(of.Capacity.Sub(p.Requests)) && spreadAdmits(f, p, o.Zone) && (best.Type == "" || o.Price < best.Price) {
				best = offering.Ref{Type: of.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}
			}
		}
	}
	return launchNode(t, f, best)
}

// launchNode launches a node of the offering and returns its name.
func launchNode(t *testing.T, f *disrupttest.Cluster, c offering.Ref) string {
	t.Helper()
	n, err := f.Launch(schedule.Launch{Pool: "p", Offerings: []offering.Ref{c}, Labels: map[string]string{cluster.LabelZone: c.Zone, cluster.LabelCapacityType: c.CapacityType, cluster.LabelInstanceType: c.Type}})
	if err != nil {
		t.Fatal(err)
	}
	return n.Name
}
