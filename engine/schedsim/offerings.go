// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// offerings finds the offering that a launch becomes, and the cheapest offering for a pod.
type offerings struct {
	snapshot *cluster.Snapshot
	nodes    *nodes
	// nodesLeft is how many nodes each NodePool with limits.nodes could launch at the start. The
	// snapshot itself counts moves once they are applied, which is after they are simulated or before.
	nodesLeft map[*cluster.PoolCatalog]int
	byShape   map[*cluster.PodShape]pricedOffering // see cheapest; limits.nodes left aside
	byKey     map[offering.Key]pricedOffering      // see find
}

// pricedOffering is an offering of a pool; without a catalog there is none.
type pricedOffering struct {
	catalog *cluster.PoolCatalog
	row     int
	price   offering.Price
}

func newOfferings(snapshot *cluster.Snapshot, n *nodes) offerings {
	left := map[*cluster.PoolCatalog]int{}
	for _, m := range snapshot.PoolCatalogs {
		if m.NodesLeft >= 0 {
			left[m] = m.NodesLeft
		}
	}
	return offerings{snapshot, n, left, map[*cluster.PodShape]pricedOffering{}, map[offering.Key]pricedOffering{}}
}

// hasNodesLeft reports whether limits.nodes lets the NodePool launch one more node.
func (s *offerings) hasNodesLeft(m *cluster.PoolCatalog) bool {
	left, limited := s.nodesLeft[m]
	return !limited || s.nodes.launched[m] < left
}

// cheapest is the cheapest offering for pods of the shape, in any domain.
func (s *offerings) cheapest(shape *cluster.PodShape) pricedOffering {
	anywhere := func(*cluster.PoolCatalog, int) bool { return true }
	o, known := s.byShape[shape]
	if !known {
		o = s.search(shape, anywhere)
		s.byShape[shape] = o
	}
	if o.catalog == nil || s.hasNodesLeft(o.catalog) {
		return o
	}
	return s.searchWithinLimits(shape, anywhere)
}

// searchWithinLimits is search without NodePools that may launch no more nodes.
func (s *offerings) searchWithinLimits(shape *cluster.PodShape, suits func(catalog *cluster.PoolCatalog, row int) bool) pricedOffering {
	return s.search(shape, func(m *cluster.PoolCatalog, row int) bool { return s.hasNodesLeft(m) && suits(m, row) })
}

// search looks through pools by weight, highest first, as a launch does. It leaves limits.nodes aside.
func (s *offerings) search(shape *cluster.PodShape, suits func(catalog *cluster.PoolCatalog, row int) bool) (best pricedOffering) {
	for _, m := range s.snapshot.PoolCatalogs {
		if best.catalog != nil && m.Pool.Weight < best.catalog.Pool.Weight {
			break
		}
		if m.Pool.Blocked != "" || m.Pool.Static {
			continue
		}
		for row := range m.Compatible(shape).All.All() { // sorted by price
			o := &m.Catalog.Offerings[row]
			if best.catalog != nil && o.Price >= best.price {
				break
			}
			if o.Unavailable == "" && suits(m, row) {
				best = pricedOffering{m, row, o.Price}
				break
			}
		}
	}
	return best
}

// find is the offering of the pool that a launch becomes.
func (s *offerings) find(pool string, ref offering.Ref) pricedOffering {
	key := ref.Key(pool)
	o, known := s.byKey[key]
	if !known {
		o = s.lookUp(key)
		s.byKey[key] = o
	}
	return o
}

func (s *offerings) lookUp(key offering.Key) pricedOffering {
	m := s.snapshot.PoolCatalogOf(key.Pool)
	if m == nil {
		return pricedOffering{}
	}
	for row := range m.Catalog.Offerings {
		o := &m.Catalog.Offerings[row]
		if o.Zone == key.Zone && o.CapacityType == key.CapacityType && m.Catalog.Types[o.Type].Name == key.Type {
			return pricedOffering{m, row, o.Price}
		}
	}
	return pricedOffering{}
}
