// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
)

// cells lists the cells where pods of the group could go.
func (s *cellFinder) find(g *podGroup) []*cell {
	own := slices.Clone(s.launchable(g))
	out := make([]*cell, len(own))
	for i := range own {
		out[i] = &own[i]
	}
	out = s.addNodes(g, out)
	for _, c := range out {
		if n, ok := s.learned.caps[learnedKey{g.class, g.held.name(), c.name}]; ok && !s.topology.openNoDomain {
			c.cap = n
		}
	}
	slices.SortFunc(out, func(a, b *cell) int { return cmp.Compare(a.name, b.name) })
	return out
}

// newCell makes a cell in which no available offering is known.
func (g *podGroup) newCell(values []int, at partition) cell {
	c := cell{Cell: cluster.Cell{Keys: g.domainKeys, Values: slices.Clone(values)}, name: g.cellName(values) + at.name, price: -1, cap: -1, partition: at.name, in: at.in}
	c.set, c.key = c.Set().And(at.set), c.name
	for _, key := range g.domainKeys {
		c.key += "\x00" + key.Name
	}
	return c
}

func (c *cell) is(values []int, at partition) bool {
	return c.partition == at.name && slices.Equal(c.Values, values)
}

// addNodes adds to each cell the nodes with capacity for the group, and makes cells for nodes
// that are in none.
func (s *cellFinder) addNodes(g *podGroup, cells []*cell) []*cell {
	values := make([]int, len(g.domainKeys))
	keys, named := g.toldApartBy()
	x := s.nodes.w.NodeIndex(s.nodes.preferred.keys(keys, g.class))
	for _, nodeGroup := range s.nodes.preferred.accepting(g, x) {
		for _, seek := range nodeRanges(x, int(nodeGroup), named) {
			i := s.nodes.next(g, &seek)
			if i < 0 {
				continue
			}
			node := s.nodes.w.Nodes[i]
			for a, key := range g.domainKeys {
				values[a] = -1
				if v, ok := node.Value(key); ok {
					values[a] = v
				}
			}
			at := g.partitionOf(node)
			n := slices.IndexFunc(cells, func(c *cell) bool { return c.is(values, at) })
			if n < 0 {
				n = len(cells)
				c := g.newCell(values, at)
				cells = append(cells, &c)
			}
			cells[n].hosts = append(cells[n].hosts, seek)
		}
	}
	return cells
}

// toldApartBy lists the labels whose values distinguish domains for the group. It reports true
// when the hostname is one of them.
func (g *podGroup) toldApartBy() ([]*constraint.Key, bool) {
	keys, named := slices.Concat(g.domainKeys, g.shape.Keys), false
	for _, v := range g.spreadFilters {
		for _, way := range v.ways {
			for _, q := range way {
				keys, named = append(keys, q.Key), named || q.Key.Name == cluster.LabelHostname
			}
		}
	}
	return keys, named
}

// cellsKey is the key by which cellFinder caches cells.
type cellsKey struct {
	shape    *cluster.PodShape
	keys     string // labels
	launches int    // so far: limits and quota shrink with them
}

// cellFinder finds the cells in which pods of a group can run.
type cellFinder struct {
	pools     *poolList
	nodes     *nodes
	launches  *launchList
	limits    *limits
	topology  *topology
	minValues *minValuesChecker
	learned   *learned
	byKey     map[cellsKey][]cell // see launchable
	atStart   map[cellsKey][]cell // the same before any launch, for all attempts
	key       []byte              // scratch: of labels
}

// launchable lists the cells in which a node can be launched for the group. It is the same for
// all groups of a shape, unless spread filters divide the cells.
func (s *cellFinder) launchable(g *podGroup) []cell {
	s.key = s.key[:0]
	for _, key := range g.domainKeys {
		s.key = append(append(s.key, key.Name...), 0)
	}
	shared, known := len(g.spreadFilters) == 0 && !s.topology.openNoDomain, s.byKey
	if len(s.launches.all) == 0 && len(s.learned.minValuesLost) == 0 {
		known = s.atStart // the same at the start of every attempt
	}
	if shared {
		if cells, ok := known[cellsKey{g.shape, string(s.key), len(s.launches.all)}]; ok {
			return cells
		}
	}
	name := string(s.key)
	// The zone of a node that cannot choose it is not one that users mean: such offerings make
	// a cell only where there is no other.
	cells := s.findWith(g, false)
	if len(cells) == 0 {
		cells = s.findWith(g, true)
	}
	if shared {
		known[cellsKey{g.shape, name, len(s.launches.all)}] = cells
	}
	return cells
}

// price lists the cells where a node can be launched for the group, with the lowest price of
// a node there. Fallbacks are offerings like others, or left out.
func (s *cellFinder) findWith(g *podGroup, fallbacks bool) []cell {
	var out []cell
	for _, pool := range s.pools.all {
		if pool.Pool.Blocked != "" || pool.Pool.Static {
			continue
		}
		all := pool.Compatible(g.shape).All
		if !fallbacks && all.Meets(pool.Catalog.Fallbacks) {
			all = all.Minus(pool.Catalog.Fallbacks)
		}
		if s.topology.openNoDomain {
			all = all.And(s.topology.inCountedDomains(pool))
		}
		for _, here := range pool.Cells(g.domainKeys) {
			for _, at := range s.topology.partitions(g, pool, all.And(here.Offerings)) {
				at.rows = s.minValues.launchableFor(pool, g, here.Values, at)
				price, ok := s.cheapestAvailable(pool, at.rows)
				if !ok {
					price, ok = s.cheapestLaunched(pool, at.rows)
				}
				if !ok {
					continue
				}
				n := slices.IndexFunc(out, func(c cell) bool { return c.is(here.Values, at) })
				if n < 0 {
					n = len(out)
					out = append(out, g.newCell(here.Values, at))
				}
				if c := &out[n]; c.price < 0 || price < c.price {
					c.price = price
				}
			}
		}
	}
	return out
}

// cellName writes the cell's values, for order and for messages.
func (g *podGroup) cellName(values []int) string {
	name := ""
	for i, v := range values {
		if i > 0 {
			name += ", "
		}
		if v < 0 {
			name += fmt.Sprintf("no %s", g.domainKeys[i].Name)
			continue
		}
		name += g.domainKeys[i].Value(v)
	}
	return name
}

// bought is the price of the first of the rows of which a node is being launched: pods may
// share that node where no other can be launched.
func (s *cellFinder) cheapestLaunched(pool *poolState, rows bitset.Set) (offering.Price, bool) {
	for row := range rows.And(pool.launched).All() {
		return pool.Catalog.Offerings[row].Price, true
	}
	return 0, false
}

// cheapest is the price of the first of the offerings that can be launched now.
func (s *cellFinder) cheapestAvailable(pool *poolState, rows bitset.Set) (offering.Price, bool) {
	for row := range rows.All() {
		if pool.Catalog.Offerings[row].Unavailable == "" && s.limits.affordable(pool, row) > 0 {
			return pool.Catalog.Offerings[row].Price, true
		}
	}
	return 0, false
}
