// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/reason"
)

// dilution is what a round found out about a pool with minValues.
type dilution struct {
	known bitset.Set // see minValuesState.within
	most  int        // see minValuesState.most
	// had is what one launch lacks.
	had shortage
}

// shortage is a label of which too few values are left.
type shortage struct {
	key        string
	asked, had int
}

// dilute records the pools of which some launches have lost variety that they were planned
// with, as other launches used up limits or domains; false when there are none. For such a
// pool, the next round knows in which domains nodes may be; further rounds launch fewer and
// fewer nodes.
func (l *learned) dilute(s *solver) bool {
	again := false
	if s.limits.over() || s.w.Settings.RelaxMinValues {
		return false
	}
	for _, pool := range s.pools.all {
		if !pool.varied() {
			continue
		}
		bought, poor, had := s.poor(pool)
		if poor == 0 {
			continue
		}
		again = true
		known := s.topology.known(pool)
		if t := l.thin[pool.PoolCatalog]; t != nil || known.Equal(pool.Offerings) {
			l.thin[pool.PoolCatalog] = &dilution{known: known, most: bought - poor, had: had}
			continue
		}
		l.thin[pool.PoolCatalog] = &dilution{known: known, most: -1, had: had}
	}
	return again
}

// poor counts the pool's launches and those of them with too little variety, and says what
// the first of those lacks.
func (s *solver) poor(pool *poolState) (bought, poor int, had shortage) {
	left := pool.left
	defer func() { pool.left = left }()
	for _, l := range s.launches.all {
		if l.pool != pool {
			continue
		}
		bought++
		if got := s.variety.values(pool, l.requirements.set, s.acceptable.choices(l), pool.minValues.least, nil); !slices.Equal(got, pool.minValues.least) {
			if poor++; poor == 1 {
				had = pool.shortage(got)
			}
		}
	}
	return bought, poor, had
}

// shortage describes the first label of which there are too few values.
func (pool *poolState) shortage(had []int) shortage {
	for i, n := range had {
		if n < pool.minValues.least[i] {
			return shortage{pool.MinValues[i].Key.Name, pool.minValues.least[i], n}
		}
	}
	return shortage{}
}

// explainVariety cuts, with reason MinValues, the offerings with which no pod of the group
// can get a node with enough variety, wherever it is.
func (e *explainer) explainVariety(v *funnelBuilder, pool *poolState, g *podGroup) {
	if !pool.varied() || e.w.Settings.RelaxMinValues {
		return
	}
	e.topology.confined = e.launches.returned // capacity that was given back is launched only there
	defer func() { e.topology.confined = false }()
	var good bitset.Set
	worst := shortage{asked: -1}
	fit := pool.Compatible(g.class.PodShape)
	for _, c := range pool.Cells(g.domainKeys) {
		here := (&cluster.Cell{Keys: g.domainKeys, Values: c.Values}).Set()
		for i, alt := range g.class.PodShape.Alternatives {
			rows := v.rows.And(c.Offerings)
			set := pool.Base.And(alt).And(here)
			if own := e.variety.suiting(pool, fit, i, set, rows); own != nil {
				good.Merge(own)
				continue
			}
			got := pool.shortage(e.variety.values(pool, set, fit.Fitting[i].And(rows), pool.minValues.least, pool.minValues.may))
			if worst.asked < 0 || got.had > worst.had {
				worst = got
			}
		}
	}
	if t := e.learned.thin[pool.PoolCatalog]; t != nil && worst.key == "" {
		worst = t.had
	}
	v.cut(reason.MinValues, v.rows.Minus(good), func(bitset.Set) (string, map[string]any) { return worst.explain() })
}

func (x shortage) explain() (string, map[string]any) {
	return fmt.Sprintf("minValues asks for %d values of %s, %d would be left", x.asked, x.key, x.had), map[string]any{"key": x.key, "asked": x.asked, "had": x.had}
}
