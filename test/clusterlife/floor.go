// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
)

// The floor of a cluster's cost is a price below which the same pods cannot run,
// whatever nodes are launched and wherever the pods run. It shares no code with the engine and is
// far above the cost of fractions of nodes: nodes are whole here, and the linear program chooses
// shares of patterns, which are ways to fill whole nodes (Gilmore and Gomory's cutting
// stock, one of the bounds for packing).
//
// Each kind of pod gets a value, so that no pattern is worth more than its
// node costs. The value of all pods together is then a lower bound, whatever the values
// are (weak duality); the master problem only looks for good ones. As there are no halves
// of nodes either, it is split into cases, so many nodes of some sort at most or at
// least one more, and the lowest of all cases counts.

// podKind is the pods of one workload that must be somewhere.
type podKind struct {
	owner *workload
	n     int
	most  int // on one node
	// A spread over zones asks for at least so many in each zone, and outside of it.
	inside, outside map[string]int
	// within is how many of them a zone may have at most; absent for as many as there are.
	within map[string]int
}

// nodeType is an instance type as patterns see it. Types that admit the same pods and have the same
// capacity differ in zone and price only.
type nodeType struct {
	admits     []bool // by kind
	milli, mib int64
	zones      map[string]float64 // price in dollars an hour, the least in the zone
}

// pattern is one way to use a node type.
type pattern struct {
	nodeType int
	zone     string
	count    []int // by kind
	price    float64
}

// floor is the least cost of nodes for those pods. Pods of the same workloads that
// run on other nodes count where spread over zones is concerned. enough is a cost at which the
// search may stop; it only saves work.
func (c *Cluster) floor(pods []*pod, enough offering.Price) offering.Price {
	kinds := c.podKinds(pods)
	if len(kinds) == 0 {
		return 0
	}
	f := newFloor(kinds, c.nodeTypes(kinds))
	return offering.Price(math.Floor(f.solve(enough.USD()) * 1e9))
}

// podKinds sorts pods by workload.
func (c *Cluster) podKinds(pods []*pod) []podKind {
	var out []podKind
	for _, w := range c.workloads.list {
		k := podKind{owner: w}
		for _, p := range pods {
			if p.owner == w {
				k.n++
			}
		}
		if k.n == 0 {
			continue
		}
		if k.most = k.n; w.Placement.OnePerNode {
			k.most = 1
		}
		if w.Placement.Spread {
			k.spread(pods)
		}
		out = append(out, k)
	}
	return out
}

// spread sets how even the pods must be: as the spread constraint asks for, or as they are, if the
// workload has shrunk since and they are less even. With counts a ≤ … ≤ z over n zones,
// z - a ≤ skew and their sum all, it is all ≤ n·a + (n-1)·skew and all ≥ n·z - (n-1)·skew.
func (k *podKind) spread(pods []*pod) {
	k.inside, k.outside, k.within = map[string]int{}, map[string]int{}, map[string]int{}
	at, pinned, all := map[string]int{}, map[string]int{}, 0
	for _, p := range k.owner.pods {
		if p.node == nil || p.terminating {
			continue
		}
		all++
		at[p.node.offering.zone]++
		if !slices.Contains(pods, p) {
			pinned[p.node.offering.zone]++
		}
	}
	lo, hi := all, 0
	for _, z := range zones {
		lo, hi = min(lo, at[z]), max(hi, at[z])
	}
	others := (len(zones) - 1) * max(1, hi-lo)
	least := max(0, (all-others+len(zones)-1)/len(zones))
	most := (all + others) / len(zones)
	for _, z := range zones {
		k.inside[z] = least - pinned[z]
		k.within[z] = max(0, most-pinned[z])
		k.outside[z] = k.n - k.within[z]
	}
}

// inOne is how many of the pods one node in the zone may have.
func (k *podKind) inOne(zone string) int {
	if n, ok := k.within[zone]; ok {
		return min(k.most, n)
	}
	return k.most
}

// nodeTypes returns the instance types that pools may launch, available or not.
func (c *Cluster) nodeTypes(kinds []podKind) []*nodeType {
	var out []*nodeType
	for _, p := range c.Pools {
		for _, capacity := range []string{offering.OnDemand, offering.Spot} {
			if len(p.CapacityTypes) > 0 && !slices.Contains(p.CapacityTypes, capacity) {
				continue
			}
			for _, s := range sizes {
				if len(p.Types) > 0 && !slices.Contains(p.Types, s.name) {
					continue
				}
				out = add(out, c.nodeType(p, capacity, s, kinds))
			}
		}
	}
	return out
}

func (c *Cluster) nodeType(p *Pool, capacity string, s size, kinds []podKind) *nodeType {
	v := &nodeType{milli: s.cores*1000 - systemMilli - daemonMilli, mib: s.gib*1024 - systemMiB - daemonMiB, zones: map[string]float64{}}
	for _, k := range kinds {
		v.admits = append(v.admits, k.owner.Placement.admits(p, capacity))
	}
	for _, z := range zones {
		v.zones[z] = c.catalog.price(offeringKey{s.name, z, capacity}).USD()
	}
	return v
}

// add keeps one node type of those alike, at the lowest price in each zone.
func add(all []*nodeType, v *nodeType) []*nodeType {
	for _, o := range all {
		if o.milli == v.milli && o.mib == v.mib && slices.Equal(o.admits, v.admits) {
			for z, price := range v.zones {
				o.zones[z] = min(o.zones[z], price)
			}
			return all
		}
	}
	return append(all, v)
}

// demand is a row of the master problem: at least so many pods of a kind, anywhere, in
// one zone or outside of it.
type demand struct {
	kind    int
	zone    string // empty for anywhere
	outside bool   // outside of the zone
	n       int
}

func (d demand) counts(zone string) bool {
	return d.zone == "" || (zone == d.zone) != d.outside
}

// floorSearch looks for values.
type floorSearch struct {
	kinds     []podKind
	nodeTypes []*nodeType
	class     []int // by node type: those that admit the same pods
	demands   []demand
	patterns  []pattern // that were of use
}

func newFloor(kinds []podKind, types []*nodeType) *floorSearch {
	f := &floorSearch{kinds: kinds, nodeTypes: types}
	for i, v := range types {
		f.class = append(f.class, slices.IndexFunc(types[:i+1], func(o *nodeType) bool { return slices.Equal(o.admits, v.admits) }))
	}
	for i, k := range kinds {
		f.demands = append(f.demands, demand{kind: i, n: k.n})
		for _, z := range zones {
			if n := k.inside[z]; n > 0 {
				f.demands = append(f.demands, demand{i, z, false, n})
			}
			if n := k.outside[z]; n > 0 {
				f.demands = append(f.demands, demand{i, z, true, n})
			}
		}
	}
	return f
}

// rounds bounds the search for better values in one branch. The result so far is a
// lower bound, too.
const rounds = 200

// relax returns the lower bound of a case in dollars an hour, and how much there is of each known
// pattern in the best solution.
func (f *floorSearch) relax(limits []branchLimit) (floor float64, shares map[int]float64) {
	m := f.linearProgram(limits)
	for range rounds {
		m.optimize()
		value := m.duals()
		sum := 0.0
		for i, n := range m.rhs {
			sum += value[i] * n
		}
		over, found := f.violatedPatterns(value, limits)
		floor = max(floor, sum/over)
		if len(found) == 0 || floor >= sum*(1-1e-6) {
			break
		}
		for _, x := range found {
			f.patterns = append(f.patterns, x)
			m.add(f.column(x, limits), x.price)
		}
	}
	shares = map[int]float64{}
	for row, j := range m.basis {
		if j >= len(m.rhs) {
			shares[j-len(m.rhs)] = m.at[row]
		}
	}
	return floor * (1 - 1e-9), shares
}

// linearProgram is the problem of a branch with all known patterns.
func (f *floorSearch) linearProgram(limits []branchLimit) *linearProgram {
	var rhs []float64
	var most []bool
	for _, d := range f.demands {
		rhs, most = append(rhs, float64(d.n)), append(most, false)
	}
	for _, l := range limits {
		rhs, most = append(rhs, float64(l.n)), append(most, l.atMost)
	}
	m := newLinearProgram(rhs, most)
	for _, x := range f.patterns {
		m.add(f.column(x, limits), x.price)
	}
	return m
}

func (f *floorSearch) column(x pattern, limits []branchLimit) []float64 {
	col := make([]float64, 0, len(f.demands)+len(limits))
	for _, d := range f.demands {
		n := 0
		if d.counts(x.zone) {
			n = x.count[d.kind]
		}
		col = append(col, float64(n))
	}
	for _, l := range limits {
		n := 0
		if l.counts(f, x.nodeType, x.zone) {
			n = 1
		}
		col = append(col, float64(n))
	}
	return col
}

// violatedPatterns returns patterns that are worth more than their node costs, and how many
// times as much at most; at least once.
func (f *floorSearch) violatedPatterns(value []float64, limits []branchLimit) (float64, []pattern) {
	over := 1.0
	var found []pattern
	for i, v := range f.nodeTypes {
		for _, x := range f.distinctZones(i, value, limits) {
			value, count := f.bestPattern(v, x, x.price*(1+1e-9)-x.node)
			if count == nil {
				continue
			}
			over = max(over, (value+x.node)/x.price)
			found = append(found, pattern{i, x.zone, count, x.price})
		}
	}
	return over, found
}

// zoneValues is a node type in a zone, and the value of pods there.
type zoneValues struct {
	zone  string
	price float64
	value []float64 // by kind
	most  []int     // of a kind on one node
	node  float64   // value of the node itself, negative when there should be fewer of them
}

// distinctZones leaves out zones where the same value costs more.
func (f *floorSearch) distinctZones(typ int, value []float64, limits []branchLimit) []zoneValues {
	var out []zoneValues
	for _, z := range zones {
		x := f.valuesIn(typ, z, value, limits)
		same := slices.IndexFunc(out, func(o zoneValues) bool {
			return o.node == x.node && slices.Equal(o.value, x.value) && slices.Equal(o.most, x.most)
		})
		switch {
		case same < 0:
			out = append(out, x)
		case x.price < out[same].price:
			out[same] = x
		}
	}
	return out
}

func (f *floorSearch) valuesIn(typ int, zone string, value []float64, limits []branchLimit) zoneValues {
	v := f.nodeTypes[typ]
	x := zoneValues{zone: zone, price: v.zones[zone], value: make([]float64, len(f.kinds)), most: make([]int, len(f.kinds))}
	for i, d := range f.demands {
		if v.admits[d.kind] && d.counts(zone) {
			x.value[d.kind] += value[i]
		}
	}
	for i, k := range f.kinds {
		if v.admits[i] {
			x.most[i] = k.inOne(zone)
		}
	}
	for i, l := range limits {
		if l.counts(f, typ, zone) {
			x.node += value[len(f.demands)+i]
		}
	}
	return x
}
