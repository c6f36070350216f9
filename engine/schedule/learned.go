// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// learned is what the rounds of one attempt found out, for the rounds after them.
type learned struct {
	caps        map[learnedKey]int
	unplaceable map[*cluster.PodClass]bool
	// plain are classes that hold no preference from the start.
	withoutPreferences map[*cluster.PodClass]bool
	// openedDomains are domains that a round opened with launches for other pods: they
	// count for a spread although its own pods could not have opened them.
	openedDomains map[domainCountKey][]int
	// thin are the pools whose launches have lost variety; see dilute.
	minValuesLost map[*cluster.PoolCatalog]*minValuesLoss
}

// learnedKey names a class, the preferences its pods held, and a cell.
type learnedKey struct {
	class      *cluster.PodClass
	held, cell string
}

// patience is how many rounds may learn how much each cell takes. After that, classes with
// pods without a place are left to retryUnplaced.
const patience = 6

// learn records which assignments failed; false when all that matter succeeded.
func (l *learned) learn(s *solver, round int) bool {
	again := false
	for _, a := range s.allotments {
		if a.cell == nil || a.left()+a.dropped == 0 || l.unplaceable[a.group.class] {
			continue
		}
		key := learnedKey{a.group.class, a.group.held.name(), a.cell.name}
		if round >= patience {
			again = l.giveUp(a) || again
			continue
		}
		if had, ok := l.caps[key]; !ok || a.placed < had {
			l.caps[key], again = a.placed, true
		}
	}
	return s.recordOpenedDomains(l, round) || again
}

// giveUp leaves out the allotment's class, or first its preferences as they may be the cause.
// It reports false when that was done already.
func (l *learned) giveUp(a *allotment) bool {
	if !a.group.held.firm() {
		l.unplaceable[a.group.class] = true
		return true
	}
	had := l.withoutPreferences[a.group.class]
	l.withoutPreferences[a.group.class] = true
	return !had
}

// recordOpenedDomains records the domains that launches opened and some spread did not count;
// false when there are none.
func (s *solver) recordOpenedDomains(l *learned, round int) bool {
	found := false
	clear(s.topology.reached)
	s.topology.summary = s.topology.summarizeLaunches()
	defer func() { s.topology.summary = nil }()
	for _, pool := range s.pools.all {
		pool.inCountedDomains = nil
	}
	for _, g := range s.podGroups {
		for i := range g.domainRules {
			r := &g.domainRules[i]
			if r.kind != spreads || r.soft || g.placed == 0 {
				continue
			}
			known := usable(g.cells, r.axis)
			key := domainCountKey{r.count.key, r.count.of, r.count.filter}
			for _, v := range s.topology.opened(r.count) {
				if r.count.domains[v] || slices.Contains(r.count.opened, v) || slices.Contains(known, v) || slices.Contains(l.openedDomains[key], v) {
					continue
				}
				found = true
				if round >= patience {
					l.unplaceable[g.class] = true
					break
				}
				l.openedDomains[key] = append(l.openedDomains[key], v)
			}
		}
	}
	return found
}

// counting are the pool's offerings whose nodes the domain count's filter looks at.
func (s *topology) counting(t *domainCount, pool *poolState) bitset.Set {
	if !t.filter.tolerates(pool.Pool.Taints) {
		return nil
	}
	if t.filter.affinity != nil {
		return pool.MatchingOwn(t.filter.affinity)
	}
	return pool.Offerings
}

// opened lists the values of the domain count's label on the nodes to be launched, as far as
// those nodes count for it.
func (s *topology) opened(t *domainCount) []int {
	if out, ok := s.reached[t]; ok {
		return out
	}
	bought := s.summary
	if bought == nil {
		bought = s.summarizeLaunches()
	}
	var out []int
	for _, pool := range s.pools.all {
		set := bought.rows[pool].And(s.counting(t, pool))
		for _, c := range pool.Cells([]*constraint.Key{t.key}) {
			if v := c.Values[0]; v >= 0 && c.Offerings.Meets(set) && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	for _, v := range insisted(bought.launches, t.key) {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	s.reached[t] = out
	return out
}

// launchSummary is the different offerings and node requirements among the launches.
type launchSummary struct {
	rows     map[*poolState]bitset.Set
	launches []*launch // one of each nodeRequirements
}

func (s *topology) summarizeLaunches() *launchSummary {
	d := &launchSummary{rows: map[*poolState]bitset.Set{}}
	seen := map[*nodeRequirements]bool{}
	for _, l := range s.launches.all {
		if !d.rows[l.pool].Has(l.row) {
			set := d.rows[l.pool]
			set.Put(l.row)
			d.rows[l.pool] = set
		}
		if !seen[l.requirements] {
			seen[l.requirements] = true
			d.launches = append(d.launches, l)
		}
	}
	return d
}

// insisted lists the values that launches require of a label that only the pool sets and
// leaves open: cells know one value of such a label, nodes may have any.
func insisted(launches []*launch, k *constraint.Key) []int {
	var out []int
	for _, l := range launches {
		if l.pool.Catalog.HasLabel(k) {
			continue
		}
		q, ok := l.requirements.set.Get(k)
		if !ok {
			continue
		}
		values, _ := q.Values()
		for _, v := range values {
			out = append(out, k.ID(v))
		}
	}
	return out
}
