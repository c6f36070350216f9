// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// poolState is a pool catalog during one round.
type poolState struct {
	*cluster.PoolCatalog
	left      quantity.Vector // of the pool's limits; zero for resources without one
	nodesLeft int             // negative means no limit
	launched  bitset.Set      // offerings of which a launch was reserved, even if it was dropped since
	// pods counts the pods that nodes are launched for, by shape. limitedPods counts those of
	// them limited per node, by counter: see lowerBound.
	pods             map[*cluster.PodShape]int
	limitedPods      map[int]limitedPods
	base             *nodeRequirements
	inCountedDomains bitset.Set             // see inCountedDomains
	openCounts       []*domainCount         // those to heed over labels that only the pool sets; made with inCountedDomains
	availableRows    bitset.Set             // see available
	bySize           map[quantity.Dim][]int // see descending
	largestOf        map[quantity.Dim]int64 // see largest
	minValues        *poolMinValues         // nil without minValues
	// tooSmall are offerings that do not suit pods to come: none is launched for pods like them. See
	// planForOwed.
	tooSmall bitset.Set
	// closed are the offerings of which pods that were spread over the nodes there are would be too uneven
	// with one more node. None is launched for virtual pods then.
	closed bitset.Set
}

// nodesAllowed is how many more nodes of the offering the pool's limits allow.
func (pool *poolState) nodesAllowed(row int) int {
	if !pool.withinLimits(row) {
		return 0
	}
	n := math.MaxInt32
	if pool.nodesLeft >= 0 {
		n = min(n, pool.nodesLeft)
	}
	if pool.hasMinValues() && pool.minValues.nodesLeft >= 0 {
		n = min(n, pool.minValues.nodesLeft)
	}
	capacity := pool.capacity(row)
	for _, d := range pool.Limited {
		if capacity[d] > 0 {
			n = min(n, int(min(pool.left[d]/capacity[d], 1<<30)))
		}
	}
	return n
}

// withinLimits reports whether one more node of the offering keeps the pool within its limits.
// A pool that is over a limit launches nothing, not even types without that resource: Karpenter
// refuses likewise, and a lowered limit means that no more nodes are wanted.
func (pool *poolState) withinLimits(row int) bool {
	if pool.nodesLeft == 0 {
		return false
	}
	capacity := pool.capacity(row)
	for _, d := range pool.Limited {
		if pool.left[d] < 0 || capacity[d] > pool.left[d] {
			return false
		}
	}
	return pool.uncounted(row) == nil
}

// reserve takes the launch out of the pool's limits.
func (pool *poolState) reserve(l *launch) {
	if pool.nodesLeft > 0 {
		pool.nodesLeft--
	}
	pool.launched.Put(l.row)
	pool.left.AddIn(pool.Limited, l.reserved(), -1)
	if l.reservedCapacity != nil && pool.minValues.nodesLeft > 0 {
		pool.minValues.nodesLeft--
	}
}

// release undoes reserve, but launched keeps the offering.
func (pool *poolState) release(l *launch) {
	if pool.nodesLeft >= 0 {
		pool.nodesLeft++
	}
	pool.left.AddIn(pool.Limited, l.reserved(), 1)
	if l.reservedCapacity != nil && pool.minValues.nodesLeft >= 0 {
		pool.minValues.nodesLeft++
	}
}

// poolList is the NodePools of one round, as the snapshot orders them: the heaviest first.
type poolList struct {
	all       []*poolState
	launching []*poolState // those that launch nodes for pods
}

func newPoolList(pools int) poolList {
	both := make([]*poolState, 2*pools)
	return poolList{all: both[:0:pools], launching: both[pools:pools]}
}

func (pl *poolList) add(pool *poolState) {
	pl.all = append(pl.all, pool)
	if pool.Pool.Blocked == "" && !pool.Pool.Static {
		pl.launching = append(pl.launching, pool)
	}
}

// compatibleKey names what a shape can use of a pool within a cell.
type compatibleKey struct {
	pool  *cluster.PoolCatalog
	shape *cluster.PodShape
	cell  string
}

// compatibility is what pod shapes can use of the pools within cells.
type compatibility struct {
	topology *topology
	byCell   map[compatibleKey]*cluster.CompatibleOfferings // for groups whose cells spread filters divide
	shared   map[compatibleKey]*cluster.CompatibleOfferings // for all others, the same in all attempts
}

// compatible is PoolCatalog.Compatible narrowed to the allotment's cell.
func (s *compatibility) compatible(pool *poolState, a *allotment) *cluster.CompatibleOfferings {
	if a.cell == nil {
		return pool.Compatible(a.group.shape)
	}
	of, fits := pool.PoolCatalog, s.byCell
	if len(a.group.spreadFilters) == 0 {
		of, fits = pool.FirstAlike(a.group.shape.Keys, a.cell.Keys), s.shared
	}
	key := compatibleKey{of, a.group.shape, a.cell.key}
	if f := fits[key]; f != nil {
		return f
	}
	f := narrowed(of.Compatible(a.group.shape), s.offeringsIn(pool, a))
	fits[key] = f
	return f
}

// offeringsIn are the pool's offerings in the allotment's cell.
func (s *compatibility) offeringsIn(pool *poolState, a *allotment) bitset.Set {
	if a.cell.open {
		return pool.MatchingBoth(a.group.shape, a.cell.set)
	}
	for _, c := range pool.Cells(a.cell.Keys) {
		if !slices.Equal(c.Values, a.cell.Values) {
			continue
		}
		for _, at := range s.topology.partitions(a.group, pool, c) {
			if at.name == a.cell.partition {
				return at.rows
			}
		}
	}
	return nil
}

// narrowed is what is compatible of these offerings.
func narrowed(whole *cluster.CompatibleOfferings, here bitset.Set) *cluster.CompatibleOfferings {
	isOutside := func(rows bitset.Set) bool { return !rows.SubsetOf(here) }
	if !isOutside(whole.All) && !slices.ContainsFunc(whole.Admitted, isOutside) {
		return whole
	}
	f := &cluster.CompatibleOfferings{All: whole.All.And(here), AnyPortTaken: whole.AnyPortTaken}
	for i := range whole.Fitting {
		f.Fitting = append(f.Fitting, whole.Fitting[i].And(here))
		f.Admitted = append(f.Admitted, whole.Admitted[i].And(here))
	}
	return f
}

// uncounted is the limit on an uncounted resource that excludes the offering; nil when there
// is none.
func (pool *poolState) uncounted(row int) *cluster.UncountedLimit {
	for i := range pool.UncountedLimits {
		if u := &pool.UncountedLimits[i]; u.Offerings.Has(row) {
			return u
		}
	}
	return nil
}

// available returns the offerings that are available.
func (pool *poolState) available() bitset.Set {
	if pool.availableRows == nil {
		pool.availableRows = bitset.Upto(len(pool.Catalog.Offerings))
		for i := range pool.Catalog.Offerings {
			if pool.Catalog.Offerings[i].Unavailable != "" {
				pool.availableRows.Drop(i)
			}
		}
	}
	return pool.availableRows
}

// capacity is what a node of the offering counts against limits.
func (pool *poolState) capacity(row int) *quantity.Vector {
	return &pool.Catalog.Capacity[pool.Catalog.Offerings[row].Type]
}

// descending lists the offerings by their capacity of one resource, the largest first.
func (pool *poolState) descending(d quantity.Dim) []int {
	if pool.bySize == nil {
		pool.bySize = map[quantity.Dim][]int{}
	}
	rows, ok := pool.bySize[d]
	if !ok {
		rows = slices.Collect(pool.Offerings.All())
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(pool.capacity(b)[d], pool.capacity(a)[d]) })
		pool.bySize[d] = rows
	}
	return rows
}

// sizes lists the capacities of one resource, ascending.
func (pool *poolState) sizes(d quantity.Dim) []int64 {
	var out []int64
	for _, row := range slices.Backward(pool.descending(d)) {
		if n := pool.capacity(row)[d]; len(out) == 0 || out[len(out)-1] != n {
			out = append(out, n)
		}
	}
	return out
}

// byWeight groups the pools of equal weight, the heaviest first.
func (pl *poolList) byWeight() [][]*poolState {
	var out [][]*poolState
	for _, pool := range pl.launching {
		if n := len(out); n > 0 && out[n-1][0].Pool.Weight == pool.Pool.Weight {
			out[n-1] = append(out[n-1], pool)
			continue
		}
		out = append(out, []*poolState{pool})
	}
	return out
}
