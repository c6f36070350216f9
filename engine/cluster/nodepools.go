// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// nodePools keeps the NodePools, the instance types of their node classes, and the pool
// catalogs made of both.
type nodePools struct {
	interner  *constraint.Interner
	resources *quantity.Positions

	byName       map[string]NodePool
	catalogs     map[string]*offering.Catalog // by node class
	poolCatalogs map[string]*PoolCatalog      // by pool; those that are missing must be compiled again
	usage        map[string]PoolUsage         // by pool
}

func newNodePools(interner *constraint.Interner, resources *quantity.Positions) nodePools {
	return nodePools{
		interner: interner, resources: resources, byName: map[string]NodePool{}, catalogs: map[string]*offering.Catalog{},
		poolCatalogs: map[string]*PoolCatalog{}, usage: map[string]PoolUsage{},
	}
}

func (ps *nodePools) set(p NodePool) {
	ps.remove(p.Name)
	ps.resources.AddRequests(p.Limits, 1)
	ps.byName[p.Name] = p
}

func (ps *nodePools) remove(name string) {
	ps.resources.AddRequests(ps.byName[name].Limits, -1)
	delete(ps.byName, name)
	delete(ps.poolCatalogs, name)
}

// use counts the node against its pool's limits, or stops counting it (by is 1 or -1).
func (ps *nodePools) use(node *NodeInfo, by int) {
	if node.Pool == "" {
		return
	}
	used := ps.usage[node.Pool]
	if by > 0 {
		used = used.Plus(node.Capacity)
	} else {
		used = used.Minus(node.Capacity)
	}
	ps.usage[node.Pool] = used
	if used.Nodes == 0 {
		delete(ps.usage, node.Pool)
	}
}

// setTypes sets the instance types of a node class.
func (ps *nodePools) setTypes(nodeClass string, types []offering.InstanceType) {
	old := ps.catalogs[nodeClass]
	if old != nil && isCompiledFrom(old, types) {
		return
	}
	ps.catalogs[nodeClass] = offering.Compile(ps.interner, ps.resources, types)
	ps.offer(old, -1)
	ps.offer(ps.catalogs[nodeClass], 1)
	ps.recompile(nodeClass)
}

func isCompiledFrom(c *offering.Catalog, types []offering.InstanceType) bool {
	return c.Source != nil && len(types) > 0 && len(c.Source) == len(types) && &c.Source[0] == &types[0]
}

// removeTypes removes the instance types of a node class.
func (ps *nodePools) removeTypes(nodeClass string) {
	ps.offer(ps.catalogs[nodeClass], -1)
	delete(ps.catalogs, nodeClass)
	ps.recompile(nodeClass)
}

// offer counts the resources that instance types offer, or stops counting them (by is 1 or -1).
func (ps *nodePools) offer(c *offering.Catalog, by int) {
	if c == nil {
		return
	}
	for i := range c.Types {
		ps.resources.AddOffers(quantity.Catalogs, c.Types[i].Capacity, by)
	}
}

// recompile has the catalogs of the node class's pools compiled again.
func (ps *nodePools) recompile(nodeClass string) {
	for name, p := range ps.byName {
		if p.NodeClass == nodeClass {
			delete(ps.poolCatalogs, name)
		}
	}
}

func (ps *nodePools) recompileAll() { clear(ps.poolCatalogs) }

// replaced reports whether the catalog is out of date.
func (ps *nodePools) replaced(c *PoolCatalog) bool { return ps.poolCatalogs[c.Pool.Name] != c }

// updateAllVectors computes the vectors of all instance types again.
func (ps *nodePools) updateAllVectors() {
	for _, c := range ps.catalogs {
		c.UpdateVectors(ps.resources)
	}
}

// compile lists the pools' catalogs: weight descending, then name. It reports whether it had
// to compile any of them.
func (ps *nodePools) compile(daemons *daemonSets) (catalogs []*PoolCatalog, recompiled bool) {
	var shared map[allocatableKey]*PoolCatalog
	for name, p := range ps.byName {
		c := ps.poolCatalogs[name]
		if c == nil {
			if shared == nil {
				shared = ps.byAllocatableKey()
			}
			c = ps.newPoolCatalog(p)
			c.subtractDaemons(daemons.sorted(), shared)
			ps.poolCatalogs[name] = c
		}
		c.setLimits(ps.resources, ps.usage[name])
		catalogs = append(catalogs, c)
	}
	slices.SortFunc(catalogs, func(x, y *PoolCatalog) int {
		return cmp.Or(-cmp.Compare(x.Pool.Weight, y.Pool.Weight), cmp.Compare(x.Pool.Name, y.Pool.Name))
	})
	if recompiled = shared != nil; recompiled {
		findAlike(catalogs)
	}
	return catalogs, recompiled
}

// byAllocatableKey returns the catalogs by their allocatableKey.
func (ps *nodePools) byAllocatableKey() map[allocatableKey]*PoolCatalog {
	out := make(map[allocatableKey]*PoolCatalog, len(ps.poolCatalogs))
	for _, c := range ps.poolCatalogs {
		out[c.allocatableKey] = c
	}
	return out
}
