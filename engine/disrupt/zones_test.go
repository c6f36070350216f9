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
func TestMovesPayInWhateverZonePodsEndUp(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	moves, more := 0, 0
	for seed := range seeds {
		for _, h := range happenings() {
			f := zonedScene(seed)
			p := disrupt.Search(f.Builder.Snapshot(), f.Cluster(disrupttest.Now(), []disrupt.Pool{{Name: "p"}}, disrupt.Settings{}), disrupt.Cursor{})
			if len(p.Moves) == 0 { // later moves depend on the new nodes of earlier moves' pods
				continue
			}
			m, before, nodes := p.Moves[0], f.Price(), f.Bought
			h.happen(t, f, &m)
			moves++
			more += f.Bought - nodes - len(m.Launches)
			if after := f.Price(); after >= before {
				t.Errorf("seed %d: %v -> %d launches for %s leads from %s to %s when %+v", seed, m.Nodes, len(m.Launches), m.After, before, after, h)
			}
		}
	}
	if more == 0 {
		t.Error("nothing was bought besides: the scheduler did what was planned")
	}
	t.Logf("%d moves, %d machines besides", moves, more)
}

// happening is one way in which a move is carried out.
type happening struct {
	nodeByNode, reversed bool // the order in which pods leave; else the largest of all first
	slowly               bool // one pod is scheduled before the next leaves
	asItIs               bool // the scheduler prefers the node that is emptiest before
	last                 bool // the last offering of each launch is launched
}

func happenings() []happening {
	return []happening{{}, {asItIs: true}, {last: true}, {slowly: true}, {nodeByNode: true}, {nodeByNode: true, asItIs: true}, {nodeByNode: true, reversed: true}}
}

// zonedScene is a few nodes in three zones, with pods of several owners; the first two owners
// spread theirs.
func zonedScene(seed uint64) *disrupttest.Fleet {
	r := rand.New(rand.NewPCG(seed, 0x20e5))
	f := disrupttest.New()
	zones := []string{"1", "2", "3"}
	var types []offering.InstanceType
	for i, cores := range []int64{2, 4, 8} {
		for j, memory := range []int64{2, 4} {
			var offers []offering.Offering
			for k, z := range zones {
				offers = append(offers, offering.Offering{Zone: z, CapacityType: offering.OnDemand, Price: offering.Price((40+8*j)*(10+k)*int(cores)-i-j) * 1e5})
			}
			types = append(types, offering.InstanceType{Name: fmt.Sprint("FD"[j:j+1], cores), Offerings: offers, Capacity: amounts(cores*1000, cores*memory<<10, 110)})
		}
	}
	f.SetCatalog(enginetest.NodeClass, types)
	f.SetPool(cluster.NodePool{Name: "p", Class: enginetest.NodeClass})
	for i := range 3 + r.IntN(7) {
		like, offered := &types[r.IntN(len(types))], r.IntN(len(zones))
		name := fmt.Sprintf("a%02d", i)
		f.SetNode(cluster.Node{Key: name, Name: name, Pool: "p", Claim: true, Initialized: true, Capacity: like.Capacity, Allocatable: like.Capacity, Price: like.Offerings[offered].Price,
			Labels: map[string]string{cluster.LabelHostname: name, cluster.LabelPool: "p", cluster.LabelZone: zones[offered], cluster.LabelCapacityType: offering.OnDemand, cluster.LabelInstanceType: like.Name}})
		left := like.Capacity
		for range r.IntN(8) {
			p := owned(r.IntN(5))
			p.Node, p.UID = name, fmt.Sprintf("%s-%d", name, len(f.Pods))
			p.Namespace, p.Name = "default", p.UID
			if next := left.Sub(p.Requests); !short(next) {
				left = next
				f.SetPod(p)
			}
		}
	}
	return f
}

// owned is a pod of that owner.
func owned(owner int) cluster.Pod {
	app := fmt.Sprint("app", owner)
	p := cluster.Pod{Movable: true, Labels: map[string]string{"app": app}, Requests: amounts([]int64{500, 1000, 300, 1500, 2500}[owner], []int64{512, 2048, 3000, 1024, 6000}[owner], 1)}
	if owner < 2 {
		p.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, MinDomains: int32(1 + 2*owner),
			Select: cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{app}}}}}}
	}
	return p
}

func short(a map[string]int64) bool {
	for _, v := range a {
		if v < 0 {
			return true
		}
	}
	return false
}

// happen carries out the move: its launches become nodes, its pods leave and are scheduled, its
// nodes are removed.
func (h happening) happen(t *testing.T, f *disrupttest.Fleet, m *disrupt.Move) {
	t.Helper()
	for _, l := range m.Launches {
		if h.last {
			l.Offerings = l.Offerings[len(l.Offerings)-1:]
		}
		buy(t, f, l.Offerings[0])
	}
	pods := h.leaving(f, m)
	if !h.slowly {
		for _, p := range pods {
			p.Node = ""
			f.SetPod(p)
		}
	}
	for _, p := range pods {
		p.Node = ""
		f.SetPod(p)
		p.Node = h.seat(f, &p, m.Nodes)
		if p.Node == "" {
			p.Node = forOneOf(t, f, &p)
		}
		f.SetPod(p)
	}
	for _, key := range m.Nodes {
		f.RemoveNode(key)
	}
}

// leaving lists the pods of the move in the order in which they leave.
func (h happening) leaving(f *disrupttest.Fleet, m *disrupt.Move) []cluster.Pod {
	var pods []cluster.Pod
	for _, uid := range slices.Sorted(maps.Keys(f.Pods)) {
		if p := f.Pods[uid]; slices.Contains(m.Nodes, p.Node) {
			pods = append(pods, p)
		}
	}
	turn := func(p cluster.Pod) int {
		at := slices.Index(m.Nodes, p.Node)
		switch {
		case !h.nodeByNode:
			return 0
		case h.reversed:
			return -at
		}
		return at
	}
	size := func(p cluster.Pod) float64 { return share(p.Requests, f.Nodes[p.Node].Allocatable) }
	slices.SortStableFunc(pods, func(x, y cluster.Pod) int {
		return cmp.Or(cmp.Compare(turn(x), turn(y)), cmp.Compare(size(y), size(x)))
	})
	return pods
}

// seat is the node that the scheduler prefers for the pod; empty when none takes it.
func (h happening) seat(f *disrupttest.Fleet, p *cluster.Pod, closed []string) string {
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
		if slices.Contains(closed, key) || short(after) || !even(f, p, n.Labels[cluster.LabelZone]) {
			continue
		}
		likes := share(after, n.Allocatable)
		if h.asItIs {
			likes = share(free, n.Allocatable)
		}
		if likes > most {
			best, most = key, likes
		}
	}
	return best
}

// even reports whether the pod's spread, if it has one, admits it to the zone.
func even(f *disrupttest.Fleet, p *cluster.Pod, zone string) bool {
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

// forOneOf launches the cheapest node where the pod may be.
func forOneOf(t *testing.T, f *disrupttest.Fleet, p *cluster.Pod) string {
	t.Helper()
	var best offering.Ref
	for _, of := range f.Types[enginetest.NodeClass] {
		for _, o := range of.Offerings {
			if !short(of.Capacity.Sub(p.Requests)) && even(f, p, o.Zone) && (best.Type == "" || o.Price < best.Price) {
				best = offering.Ref{Type: of.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}
			}
		}
	}
	return buy(t, f, best)
}

// buy launches a node of the offering and returns its name.
func buy(t *testing.T, f *disrupttest.Fleet, c offering.Ref) string {
	t.Helper()
	n, err := f.Buy(schedule.Launch{Pool: "p", Offerings: []offering.Ref{c}, Labels: map[string]string{cluster.LabelZone: c.Zone, cluster.LabelCapacityType: c.CapacityType, cluster.LabelInstanceType: c.Type}})
	if err != nil {
		t.Fatal(err)
	}
	return n.Name
}
