// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
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
// planned with, as other launches used up limits or domains; false when there are none. For
// such a pool, the next round knows in which domains nodes may be; further rounds launch fewer
// and fewer nodes.
func (l *learned) learnMinValuesLost(s *solver) bool {
	again := false
	if s.limits.overMaxPrice() || s.snapshot.Settings.RelaxMinValues {
		return false
	}
	for _, pool := range s.pools.all {
		if !pool.hasMinValues() {
			continue
		}
		launched, below, had := s.belowMinValues(pool)
		if below == 0 {
			continue
		}
		again = true
		known := s.topology.inCountedDomains(pool)
		if t := l.minValuesLost[pool.PoolCatalog]; t != nil || known.Equal(pool.Offerings) {
			l.minValuesLost[pool.PoolCatalog] = &minValuesLoss{inCountedDomains: known, nodesLeft: launched - below, missing: had}
			continue
		}
		l.minValuesLost[pool.PoolCatalog] = &minValuesLoss{inCountedDomains: known, nodesLeft: -1, missing: had}
	}
	return again
}

// belowMinValues counts the pool's launches and those of them with too few values, and says
// what the first of those lacks.
func (s *solver) belowMinValues(pool *poolState) (launched, below int, had missingValues) {
	left := pool.left
	defer func() { pool.left = left }()
	for _, l := range s.launches.all {
		if l.pool != pool {
			continue
		}
		launched++
		accepted := s.offerings.reserveAccepted(l)
		if got := s.minValues.countValues(pool, l.requirements.set(), accepted.rows, pool.minValues.required, nil).n; !slices.Equal(got, pool.minValues.required) {
			if below++; below == 1 {
				had = pool.missingValues(got)
			}
		}
	}
	return launched, below, had
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
	fit := pool.Compatible(g.class.PodShape)
	for _, c := range pool.Cells(g.domainKeys) {
		here := (&cluster.Cell{Keys: g.domainKeys, Values: c.Values}).Set()
		for i, alt := range g.class.PodShape.Alternatives {
			rows := fb.passed.And(c.Offerings)
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
	fb.cut(reason.MinValues, fb.passed.Minus(good), func(bitset.Set) (string, map[string]any) { return worst.explain() })
}

func (x missingValues) explain() (string, map[string]any) {
	return fmt.Sprintf("minValues asks for %d values of %s, %d would be left", x.required, x.key, x.had), map[string]any{"key": x.key, "asked": x.required, "had": x.had}
}
