// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// placeInOpenDomains places pods for which no single domain has the values that minValues asks for on
// nodes that may be in several domains: pods whose rules over domains only keep them apart from others,
// and pods that no rule of a pod with a place counts. Such a pod counts in each domain where its node may
// be. Pods with affinity to it may join it there. It reports false when it placed none.
func (r *retrier) placeInOpenDomains(groups []*podGroup) bool {
	s, before := r.solver, r.podsLeft
	if s.snapshot.Settings.RelaxMinValues || !slices.ContainsFunc(s.pools.launching, (*poolState).hasMinValues) {
		return false
	}
	for _, joining := range []bool{false, true} {
		for _, g := range groups {
			for g.hasAffinity() == joining && g.unassigned() > 0 && len(g.domainKeys) > 0 && r.podsLeft > 0 && r.steps > 0 {
				r.steps -= 1 + len(s.pools.all)
				if !r.placeInOpenDomain(g) {
					break
				}
				r.podsLeft--
			}
		}
	}
	return r.podsLeft < before
}

// placeInOpenDomain places one pod of the group on a node that may be in several domains; one that must
// join others, on their node. It reports false when it placed none.
func (r *retrier) placeInOpenDomain(g *podGroup) bool {
	s, before := r.solver, g.placed
	at := s.topology.openCell(g, s.podGroups)
	if at == nil {
		return false
	}
	if allotments := g.allot(at, 1); !g.hasAffinity() {
		s.placeOnLaunches(allotments)
	} else {
		s.fillLaunchesWhere(allotments, func(l *launch) bool { return l.meetsAffinity(g) })
	}
	if g.allotted = 0; g.placed == before {
		return false
	}
	r.countInAll(g, at)
	return true
}

// meetsAffinity reports whether the launch, whichever of its offerings it becomes, is in the domain of pods
// that each affinity rule of the group asks for, as these are on the launch.
func (l *launch) meetsAffinity(g *podGroup) bool {
	return !slices.ContainsFunc(g.domainRules, func(r domainRule) bool {
		if r.kind != affinityRule {
			return false
		}
		lacksLabel := slices.ContainsFunc(l.pool.Cells([]*constraint.Key{r.count.key}), func(c cluster.CellOfferings) bool {
			return c.Values[0] < 0 && c.Offerings.Intersects(l.requirements.rows)
		})
		return lacksLabel || !slices.ContainsFunc(l.groups, func(o *podGroup) bool { return o != g && r.count.of.includes(o.class) })
	})
}

// openCell is every domain where a pod of the group may be, as one cell; nil when some rule of it or of
// the other groups needs to know the domain. Affinity does not, where the pod joins others on their node.
func (t *topology) openCell(g *podGroup, groups []*podGroup) *cell {
	if g.hasSpread() || t.mustKnowDomain(g, groups) {
		return nil
	}
	for _, key := range g.domainKeys { // a label that only the NodePool sets may have any value
		if slices.ContainsFunc(t.pools.launching, func(pool *poolState) bool { return !pool.Catalog.HasLabel(key) }) {
			return nil
		}
	}
	taken := make([]bitset.Set, len(g.domainKeys))
	for i := range g.domainRules {
		r := &g.domainRules[i]
		for v := range r.count.countedValues() {
			if r.kind == antiAffinityRule && r.count.count(v) > 0 {
				taken[r.keyIndex].Put(v)
			}
		}
	}
	c := newCell(&cellInfo{price: -1, name: "any topology domain", open: true})
	c.Keys, c.Values, c.inFilter = g.domainKeys, make([]int, len(g.domainKeys)), make([]bool, len(g.spreadFilters))
	c.key = c.name
	for i, key := range g.domainKeys {
		c.Values[i] = -1
		if !taken[i].Empty() {
			c.set = c.set.With(key.Except(taken[i]))
		}
		c.key += fmt.Sprintf("\x00%s\x00%s", key.Name, taken[i].Append(nil))
	}
	return &c
}

// mustKnowDomain reports whether a spread or affinity of pods that have a place counts pods of the group.
func (t *topology) mustKnowDomain(g *podGroup, groups []*podGroup) bool {
	counted := map[*domainCount]bool{}
	for i := range g.domainIncrements {
		g.domainIncrements[i].each(func(dc *domainCount) { counted[dc] = true })
	}
	return slices.ContainsFunc(groups, func(o *podGroup) bool {
		return slices.ContainsFunc(o.domainRules, func(r domainRule) bool {
			return o.placed > 0 && r.kind != antiAffinityRule && counted[r.count] && !r.soft
		})
	})
}

// countsOpen reports whether a spread or affinity of the group counts pods of which it is open in which
// domain they will be.
func (g *podGroup) countsOpen() bool {
	return slices.ContainsFunc(g.domainRules, func(r domainRule) bool { return r.kind != antiAffinityRule && !r.soft && r.count.open })
}

// countInAll counts a pod of the group in every domain where its launch may be.
func (r *retrier) countInAll(g *podGroup, at *cell) {
	s := r.solver
	i := slices.IndexFunc(s.launches.all, func(l *launch) bool {
		return slices.ContainsFunc(l.content, func(p portion) bool { return p.allotment.cell == at })
	})
	l := s.launches.all[i]
	rows := s.offerings.matching(l).Clone()
	l.pool.DropNotFitting(rows, &l.used)
	for i := range g.domainIncrements {
		inc := &g.domainIncrements[i]
		there := slices.DeleteFunc(slices.Clone(l.pool.Cells([]*constraint.Key{inc.like.key})), func(c cluster.CellOfferings) bool { return !c.Offerings.Intersects(rows) })
		for _, c := range there {
			if v := c.Values[0]; v >= 0 {
				for j := range inc.counts {
					inc.counts[j].family.add(v, &inc.counts[j], 1)
				}
			}
		}
		if len(there) == 1 && len(inc.like.requiredKeys) == 0 {
			continue // it is known where it counts; a spread may look at some of the offerings alone
		}
		inc.each(func(dc *domainCount) { dc.open = true })
	}
}
