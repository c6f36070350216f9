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
	for _, m := range s.pools.all {
		if !m.varied() {
			continue
		}
		bought, poor, had := s.poor(m)
		if poor == 0 {
			continue
		}
		again = true
		known := s.topology.known(m)
		if t := l.thin[m.PoolCatalog]; t != nil || known.Equal(m.Offerings) {
			l.thin[m.PoolCatalog] = &dilution{known: known, most: bought - poor, had: had}
			continue
		}
		l.thin[m.PoolCatalog] = &dilution{known: known, most: -1, had: had}
	}
	return again
}

// poor counts the pool's launches and those of them with too little variety, and says what
// the first of those lacks.
func (s *solver) poor(m *poolState) (bought, poor int, had shortage) {
	left := m.left
	defer func() { m.left = left }()
	for _, l := range s.launches.all {
		if l.pool != m {
			continue
		}
		bought++
		if got := s.variety.values(m, l.requirements.set, s.acceptable.choices(l), m.minValues.least, nil); !slices.Equal(got, m.minValues.least) {
			if poor++; poor == 1 {
				had = m.shortage(got)
			}
		}
	}
	return bought, poor, had
}

// shortage describes the first label of which there are too few values.
func (m *poolState) shortage(had []int) shortage {
	for i, n := range had {
		if n < m.minValues.least[i] {
			return shortage{m.MinValues[i].Key.Name, m.minValues.least[i], n}
		}
	}
	return shortage{}
}

// explainVariety cuts, with reason MinValues, the offerings with which no pod of the group
// can get a node with enough variety, wherever it is.
func (e *explainer) explainVariety(v *funnelBuilder, m *poolState, k *podGroup) {
	if !m.varied() || e.w.Settings.RelaxMinValues {
		return
	}
	e.topology.confined = e.launches.returned // capacity that was given back is launched only there
	defer func() { e.topology.confined = false }()
	var good bitset.Set
	worst := shortage{asked: -1}
	fit := m.Compatible(k.PodClass.PodShape)
	for _, c := range m.Cells(k.keys) {
		here := (&cluster.Cell{Keys: k.keys, Values: c.Values}).Set()
		for i, alt := range k.PodClass.PodShape.Alternatives {
			rows := v.rows.And(c.Offerings)
			set := m.Base.And(alt).And(here)
			if own := e.variety.suiting(m, fit, i, set, rows); own != nil {
				good.Merge(own)
				continue
			}
			got := m.shortage(e.variety.values(m, set, fit.Fitting[i].And(rows), m.minValues.least, m.minValues.may))
			if worst.asked < 0 || got.had > worst.had {
				worst = got
			}
		}
	}
	if t := e.learned.thin[m.PoolCatalog]; t != nil && worst.key == "" {
		worst = t.had
	}
	v.cut(reason.MinValues, v.rows.Minus(good), func(bitset.Set) (string, map[string]any) { return worst.explain() })
}

func (x shortage) explain() (string, map[string]any) {
	return fmt.Sprintf("minValues asks for %d values of %s, %d would be left", x.asked, x.key, x.had), map[string]any{"key": x.key, "asked": x.asked, "had": x.had}
}
