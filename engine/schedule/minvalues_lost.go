// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/reason"
)

// minValuesLoss is what a round found out about a pool with minValues.
type minValuesLoss struct {
	inCountedDomains bitset.Set // see poolMinValues.inCountedDomains
	nodesLeft        int        // see poolMinValues.nodesLeft
	// missing is what one launch lacks.
	missing missingValues
}

// missingValues is a label of which too few values are left.
type missingValues struct {
	key           string
	required, had int
}

// learnMinValuesLost records the pools of which some launches have lost values that they were
// planned with, as other launches used up limits, quota or domains; false when there are none. For
// such a pool, the next round knows in which domains nodes may be; further rounds launch fewer
// and fewer nodes.
func (l *learned) learnMinValuesLost(s *solver) bool {
	if s.limits.overMaxPrice() || s.snapshot.Settings.RelaxMinValues || !slices.ContainsFunc(s.pools.all, (*poolState).hasMinValues) {
		return false
	}
	lost := s.belowMinValues()
	for pool, at := range lost {
		known := s.topology.inCountedDomains(pool)
		loss := &minValuesLoss{inCountedDomains: known, nodesLeft: -1, missing: at.missing}
		if l.minValuesLost[pool.PoolCatalog] != nil || known.Equal(pool.Offerings) {
			loss.nodesLeft = at.launched - at.below
		}
		l.minValuesLost[pool.PoolCatalog] = loss
	}
	return len(lost) > 0
}

// launchesBelow counts the launches of a pool and those of them with too few values, and says
// what the first of those lacks.
type launchesBelow struct {
	launched, below int
	missing         missingValues
}

// belowMinValues counts the launches of the pools of which some have too few values. It chooses
// the offerings of all launches in turn, as the plan will: a launch whose first offering is not
// the planned one uses quota that another may need. It restores limits and quota.
func (s *solver) belowMinValues() map[*poolState]launchesBelow {
	restore := s.limits.save()
	defer restore()
	out := map[*poolState]launchesBelow{}
	for _, l := range s.launches.all {
		accepted, pool := s.offerings.chooseAndReserve(l), l.pool
		if !pool.hasMinValues() {
			continue
		}
		n := out[pool]
		n.launched++
		if got := s.minValues.countValues(pool, l.requirements.set(), accepted.rows, pool.minValues.required, nil).n; !slices.Equal(got, pool.minValues.required) {
			if n.below++; n.below == 1 {
				n.missing = pool.missingValues(got)
			}
		}
		out[pool] = n
	}
	maps.DeleteFunc(out, func(_ *poolState, n launchesBelow) bool { return n.below == 0 })
	return out
}

// missingValues describes the first label of which there are too few values.
func (pool *poolState) missingValues(had []int) missingValues {
	for i, n := range had {
		if n < pool.minValues.required[i] {
			return missingValues{pool.MinValues[i].Key.Name, pool.minValues.required[i], n}
		}
	}
	return missingValues{}
}

// explainMinValues cuts, with reason MinValues, the offerings with which no pod of the group
// can get a node with enough values, wherever it is.
func (e *explainer) explainMinValues(fb *funnelBuilder, pool *poolState, g *podGroup) {
	if !pool.hasMinValues() || e.snapshot.Settings.RelaxMinValues {
		return
	}
	e.topology.mustNotOpenDomains = e.mustNotOpenDomains
	defer func() { e.topology.mustNotOpenDomains = false }()
	var good bitset.Set
	worst := missingValues{required: -1}
	fit, open := pool.Compatible(g.class.PodShape), fb.passed
	if g.class.Virtual {
		open = open.Minus(pool.closed)
	}
	for _, c := range pool.Cells(g.domainKeys) {
		here := (&cluster.Cell{Keys: g.domainKeys, Values: c.Values}).Set()
		for i, alt := range g.class.PodShape.Alternatives {
			rows := open.And(c.Offerings)
			set := pool.NodeRequirements.And(alt).And(here)
			if own := e.minValues.alternativeWithEnough(pool, fit, i, set, rows); own != nil {
				good.Merge(own)
				continue
			}
			got := pool.missingValues(e.minValues.countValues(pool, set, fit.Fitting[i].And(rows), pool.minValues.required, pool.minValues.launchable).n)
			if worst.required < 0 || got.had > worst.had {
				worst = got
			}
		}
	}
	if t := e.learned.minValuesLost[pool.PoolCatalog]; t != nil && worst.key == "" {
		worst = t.missing
	}
	fb.cut(reason.MinValues, open.Minus(good), func(bitset.Set) (string, map[string]any) { return worst.explain() })
}

func (x missingValues) explain() (string, map[string]any) {
	return fmt.Sprintf("minValues asks for %d values of %s, %d would be left", x.required, x.key, x.had), map[string]any{"key": x.key, "asked": x.required, "had": x.had}
}
