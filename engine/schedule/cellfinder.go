// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
)

// cellsKey is the key by which cellFinder caches cells.
type cellsKey struct {
	shape    *cluster.PodShape
	keys     string // labels
	launches int    // so far: limits and quota shrink with them
}

// cellFinder finds the cells in which pods of a group can run.
type cellFinder struct {
	pools         *poolList
	nodes         *nodes
	launches      *launchList
	limits        *limits
	topology      *topology
	requirements  *requirementSets
	compatibility *compatibility
	minValues     *minValuesChecker
	learned       *learned
	assigned      map[learnedKey]int        // pods of this round; see noteAssigned
	inUse         domainsInUse              // for policy.sharedDomains
	ignoreLearned bool                      // set while only pods count that have a place: what a cell takes is read of them
	byKey         map[cellsKey][]cellInfo   // see launchable
	atStart       map[cellsKey][]cellInfo   // the same before any launch, for all attempts
	mayBecome     map[*poolState]bitset.Set // offerings that launches may become, while they are enlarged; else nil
	key           []byte                    // scratch: of labels
	alike         alikePools                // scratch: see findWith
	rows          bitset.Set                // scratch: see findWith
	usable        [][]int                   // scratch: see bestCell
}

// find lists the cells where pods of the group could go.
func (cf *cellFinder) find(g *podGroup) []*cell {
	keys, named := g.distinguishingKeys()
	known := cf.launchable(g, keys)
	own, out := make([]cell, len(known)), make([]*cell, len(known))
	for i := range known {
		own[i] = newCell(&known[i])
		out[i] = &own[i]
	}
	out = cf.addNodes(g, keys, named, out)
	for _, c := range out {
		key := g.learnedKey(c)
		if n, ok := cf.learned.podsPerCell[key]; ok && !cf.ignoreLearned {
			c.maxPods, c.assigned = n, cf.assigned[key]
		}
	}
	if cf.learned.policy.groupByGroup {
		cf.countRoom(g, out)
	}
	slices.SortFunc(out, func(a, b *cell) int { return cmp.Compare(a.name, b.name) })
	return out
}

// countRoom counts for how many pods of the group planned launches have room in each cell.
func (cf *cellFinder) countRoom(g *podGroup, cells []*cell) {
	for _, c := range cells {
		here := &allotment{group: g, cell: c}
		for i := cf.launches.next(0, g); i >= 0 && c.room < g.unassigned(); i = cf.launches.next(i+1, g) {
			l := cf.launches.all[i]
			n := l.roomFor(cf.launches.counters, g)
			if n == 0 {
				continue
			}
			if joined, ok := cf.requirements.join(l.requirements, l.pool, l.row, cf.compatibility.compatible(l.pool, here), here); ok {
				c.room += l.addableWithMinValues(cf.minValues, joined, g, n)
			}
		}
	}
}

// better reports whether cell a is better than b for the next pod: first one where a node has free capacity,
// then as directions and policy say, then the emptiest, then one where a node is to be launched already, then
// the cheapest.
func (cf *cellFinder) better(g *podGroup, a, b *cell) bool {
	onA, onB := cf.nodes.nodeIn(g, a) >= 0, cf.nodes.nodeIn(g, b) >= 0
	if onA != onB {
		return onA
	}
	if towards, ok := cf.learned.towards[g.class]; ok && !onA && (a.name == towards) != (b.name == towards) {
		return a.name == towards
	}
	policy := cf.learned.policy
	if policy.groupByGroup && !onA {
		if roomA, roomB := a.room > a.wanted, b.room > b.wanted; roomA != roomB {
			return roomA
		}
	}
	if policy.sharedDomains && !onA {
		if usedA, usedB := cf.inUse.has(a), cf.inUse.has(b); usedA != usedB {
			return usedA
		}
	}
	if policy.cheapestDomains && !onA && a.price != b.price {
		return a.price < b.price
	}
	if c := cmp.Compare(g.spreadCount(a), g.spreadCount(b)); c != 0 {
		return c < 0
	}
	if (a.wanted > 0) != (b.wanted > 0) && !g.hasSpread() {
		return a.wanted > 0
	}
	if !onA && a.price != b.price {
		return a.price < b.price
	}
	return a.name < b.name
}

// noteAssigned notes that n pods of the group are assigned to the cell: pods with affinity are assigned
// more than once in a round, and the cell takes so many fewer the next time.
func (cf *cellFinder) noteAssigned(g *podGroup, c *cell, n int) {
	if c.maxPods >= 0 && n > 0 {
		cf.assigned[g.learnedKey(c)] += n
	}
}

// addNodes adds to each cell the nodes with capacity for the group, and makes cells for nodes
// that are in none.
func (cf *cellFinder) addNodes(g *podGroup, keys []*constraint.Key, named bool, cells []*cell) []*cell {
	values := make([]int, len(g.domainKeys))
	x := cf.nodes.snapshot.NodeIndex(cf.nodes.preferred.keys(keys, g.class))
	for _, nodeGroup := range cf.nodes.preferred.accepting(g, x) {
		for _, seek := range nodeRanges(x, int(nodeGroup), named) {
			i := cf.nodes.next(g, &seek)
			if i < 0 {
				continue
			}
			node := cf.nodes.snapshot.Nodes[i]
			g.domainValues(node, values)
			at := g.partitionOf(node)
			n := slices.IndexFunc(cells, func(c *cell) bool { return c.is(values, at) })
			if n < 0 {
				n = len(cells)
				info := g.newCellInfo(values, at)
				c := newCell(&info)
				cells = append(cells, &c)
			}
			cells[n].nodes = append(cells[n].nodes, seek)
		}
	}
	return cells
}

// domainValues reads the node's values of the group's domain keys; negative where it has none.
func (g *podGroup) domainValues(node *cluster.NodeInfo, values []int) {
	for i, key := range g.domainKeys {
		values[i] = -1
		if v, ok := node.Value(key); ok {
			values[i] = v
		}
	}
}

// distinguishingKeys lists the labels whose values distinguish domains for the group. It
// reports true when the hostname is one of them.
func (g *podGroup) distinguishingKeys() ([]*constraint.Key, bool) {
	keys, named := slices.Concat(g.domainKeys, g.shape.Keys), false
	for _, f := range g.spreadFilters {
		for _, alternative := range f.alternatives {
			for _, q := range alternative {
				keys, named = append(keys, q.Key), named || q.Key.Name == cluster.LabelHostname
			}
		}
	}
	return keys, named
}

// launchable lists the cells in which a node can be launched for the group. It is the same for
// all groups of a shape, unless spread filters divide the cells.
func (cf *cellFinder) launchable(g *podGroup, keys []*constraint.Key) []cellInfo {
	cf.key = cf.key[:0]
	for _, key := range g.domainKeys {
		cf.key = append(append(cf.key, key.Name...), 0)
	}
	shared, known := len(g.spreadFilters) == 0 && !cf.topology.mustNotOpenDomains, cf.byKey
	if len(cf.launches.all) == 0 && len(cf.learned.minValuesLost) == 0 && !cf.launches.policy.largestDomains {
		known = cf.atStart // the same at the start of every attempt
	}
	if shared {
		if cells, ok := known[cellsKey{g.shape, string(cf.key), len(cf.launches.all)}]; ok {
			return cells
		}
	}
	name := string(cf.key)
	// The zone of a fallback (a regional VM, say) is not a zone that users mean: fallbacks make
	// a cell only where nothing else does.
	cells := cf.findWith(g, keys, false)
	if len(cells) == 0 {
		cells = cf.findWith(g, keys, true)
	}
	if shared {
		known[cellsKey{g.shape, name, len(cf.launches.all)}] = cells
	}
	return cells
}

// findWith lists the cells where a node can be launched for the group, with the lowest price
// of a node there. Fallbacks are offerings like others, or left out.
func (cf *cellFinder) findWith(g *podGroup, keys []*constraint.Key, fallbacks bool) []cellInfo {
	var out []cellInfo
	cf.alike.find(cf.pools.launching, cf.topology, keys)
	for i := cf.alike.next(-1); i >= 0; i = cf.alike.next(i) {
		pool := cf.pools.launching[i]
		all := pool.Compatible(g.shape).All
		if !fallbacks && all.Intersects(pool.Catalog.Fallbacks) {
			all = all.Minus(pool.Catalog.Fallbacks)
		}
		if cf.topology.mustNotOpenDomains {
			all = all.And(cf.topology.inCountedDomains(pool))
		}
		cells := pool.Cells(g.domainKeys)
		if out == nil {
			out = make([]cellInfo, 0, len(cells))
		}
		for _, here := range cells {
			cf.rows.Copy(all)
			cf.rows.Keep(here.Offerings)
			if cf.topology.mustNotOpenDomains {
				cf.topology.dropOpening(&cf.rows, pool, g.domainKeys, here.Values)
			}
			for _, at := range cf.topology.partitions(g, pool, cluster.CellOfferings{Values: here.Values, Offerings: cf.rows}) {
				at.rows = cf.minValues.launchableFor(pool, g, here.Values, at)
				price, ok := cf.cheapestAvailable(pool, at.rows)
				if !ok {
					price, ok = cf.cheapestLaunched(pool, at.rows)
				}
				if !ok {
					continue
				}
				n := slices.IndexFunc(out, func(c cellInfo) bool { return c.is(here.Values, at) })
				if n < 0 {
					n = len(out)
					out = append(out, g.newCellInfo(here.Values, at))
				}
				if cf.launches.policy.largestDomains {
					price = cf.pricePerPod(pool, at.rows, g)
				}
				if c := &out[n]; c.price < 0 || price < c.price {
					c.price = price
				}
			}
		}
	}
	return out
}

// cheapestLaunched is the price of the first of the rows of which a node is being launched, or may
// become one: pods may share that node where no other can be launched.
func (cf *cellFinder) cheapestLaunched(pool *poolState, rows bitset.Set) (offering.Price, bool) {
	for row := range rows.And(pool.launched.Or(cf.mayBecome[pool])).All() {
		return pool.Catalog.Offerings[row].Price, true
	}
	return 0, false
}

// pricePerPod is what a pod of the group counts for where nodes are to be few: its part of the largest
// node that can be launched now, whatever that costs.
func (cf *cellFinder) pricePerPod(pool *poolState, rows bitset.Set, g *podGroup) offering.Price {
	most := 1
	for row := range rows.All() {
		if pool.Catalog.Offerings[row].Unavailable == "" && cf.limits.nodesAllowed(pool, row) > 0 {
			most = max(most, g.countFitting(&pool.Allocatable[row]))
		}
	}
	return math.MaxInt32 / offering.Price(most)
}

// cheapestAvailable is the price of the first of the offerings that can be launched now.
func (cf *cellFinder) cheapestAvailable(pool *poolState, rows bitset.Set) (offering.Price, bool) {
	for row := range rows.All() {
		if pool.Catalog.Offerings[row].Unavailable == "" && cf.limits.nodesAllowed(pool, row) > 0 {
			return pool.Catalog.Offerings[row].Price, true
		}
	}
	return 0, false
}
