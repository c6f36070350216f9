// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// topology counts pods by zone and other domains during one round. It says what the rules
// of pod groups read of the counts, and in which domains nodes can be launched. A launch opens a
// domain when it is the first node there that a spread constraint counts.
type topology struct {
	snapshot           *cluster.Snapshot
	antiAffinityTerms  *antiAffinityTerms
	counters           *counters
	pools              *poolList
	launches           *launchList
	learned            map[domainCountKey][]int // domains that earlier rounds opened; see learned
	counts             map[domainCountKey]*domainCount
	countList          []*domainCount // the counts, as they were made
	families           countFamilies  // of countList
	filters            map[nodeFilter]*spreadFilter
	inFilter           map[filterKey]*filteredOfferings
	launchedByCount    map[*domainCount][]int       // see launchedDomains
	summary            *launchSummary               // set while recordOpenedDomains runs, which makes it once; else nil
	mustNotOpenDomains bool                         // set while no launch may open a domain; see inCountedDomains
	mayOpenEmpty       bool                         // set while launches may open a domain of a count that mayBeEmpty
	terminating        map[*domainCount]map[int]int // see countTerminating
	recounts           int                          // how often inCountedDomains changed
	scratch            bitset.Set                   // scratch: see inCountedDomains
}

func newTopology(c *counters, pools *poolList, launches *launchList, learned map[domainCountKey][]int) topology {
	return topology{snapshot: c.snapshot, antiAffinityTerms: c.antiAffinityTerms, counters: c, pools: pools, launches: launches, learned: learned,
		families: countFamilies{byKey: map[familyKey]*countFamily{}}, filters: map[nodeFilter]*spreadFilter{},
		inFilter: map[filterKey]*filteredOfferings{}, launchedByCount: map[*domainCount][]int{}, terminating: map[*domainCount]map[int]int{}}
}

// compileAll compiles every group's constraints over zones and other domains, and finds the
// domain counts that its pods change.
func (t *topology) compileAll(groups []*podGroup) {
	t.counts = make(map[domainCountKey]*domainCount, countConstrained(groups))
	for _, g := range groups {
		t.compileDomainRules(g)
	}
	for _, g := range groups {
		t.compileDomainIncrements(g)
	}
}

// countConstrained counts the groups with constraints over domains. Most have a domain count of their
// own.
func countConstrained(groups []*podGroup) int {
	n := 0
	for _, g := range groups {
		if len(g.class.Spreads)+len(g.class.Affinity)+len(g.class.AntiAffinity) > 0 {
			n++
		}
	}
	return n
}

// inCountedDomains returns the offerings in domains that every spread counts: a node elsewhere
// would open a domain in which the pods on other nodes were not counted.
func (t *topology) inCountedDomains(pool *poolState) bitset.Set {
	if pool.inCountedDomains != nil {
		return pool.inCountedDomains
	}
	pool.inCountedDomains, pool.openCounts = pool.Offerings.Clone(), nil
	for _, dc := range t.countList {
		if !t.heeds(dc) {
			continue
		}
		if _, open := pool.NodeRequirements.Get(dc.key); open && !pool.Catalog.HasLabel(dc.key) {
			pool.openCounts = append(pool.openCounts, dc)
		}
		rows := &t.scratch
		rows.Copy(pool.Offerings)
		rows.DropAll(t.countedOfferings(dc, pool))
		for _, c := range pool.Cells([]*constraint.Key{dc.key}) {
			if v := c.Values[0]; v < 0 || t.hasDomain(dc, v) {
				rows.Merge(c.Offerings)
			}
		}
		pool.inCountedDomains.Keep(*rows)
	}
	return pool.inCountedDomains
}

// heeds reports whether a launch must not open a domain of the count while it must open none.
func (t *topology) heeds(dc *domainCount) bool {
	return len(dc.requiredKeys) > 0 && dc.hard && !(t.mayOpenEmpty && dc.mayBeEmpty)
}

func (t *topology) hasDomain(dc *domainCount, v int) bool {
	return dc.domains[v] || slices.Contains(t.launchedDomains(dc), v)
}

// recount counts the domains of the launches as they are now, and finds which may be empty.
func (t *topology) recount(groups []*podGroup) {
	t.recounts++
	clear(t.launchedByCount)
	t.summary = t.summarizeLaunches()
	t.findMayBeEmpty(groups)
	for _, dc := range t.countList {
		if len(dc.requiredKeys) > 0 {
			dc.launched = t.launchedDomains(dc)
			t.forgetOpened(dc)
		}
	}
	for _, pool := range t.pools.all {
		pool.inCountedDomains, pool.launched = nil, t.summary.rows[pool]
	}
	t.summary = nil
}

// letOpenEmpty sets whether launches may open domains that may be empty. It is set when all pods have
// their places, and again when more got one.
func (t *topology) letOpenEmpty(may bool, groups []*podGroup) {
	if t.mayOpenEmpty = may; may {
		t.findMayBeEmpty(groups)
	}
	t.recounts++
	for _, pool := range t.pools.all {
		pool.inCountedDomains = nil
	}
}

// findMayBeEmpty finds the domain counts of which a further domain may be empty: some domain is empty
// anyway, or no spread of pods that have a place counts more than maxSkew pods in a domain of theirs.
func (t *topology) findMayBeEmpty(groups []*podGroup) {
	for _, dc := range t.countList {
		dc.mayBeEmpty = true
	}
	for _, g := range groups {
		for i := range g.domainRules {
			if r := &g.domainRules[i]; r.isHardSpread() && r.count.mayBeEmpty && r.mostTaken() > r.maxSkew && !t.hasEmptyDomain(r.count) {
				r.count.mayBeEmpty = false
			}
		}
	}
}

// hasEmptyDomain reports whether the count looks at a domain without pods that has a node to stay, or
// will have one whichever of its offerings a launch becomes. In what-ifs it looks at launches alone.
func (t *topology) hasEmptyDomain(dc *domainCount) bool {
	if !t.snapshot.InWhatIf() {
		for node := range t.sampleNodes(dc) {
			if v, ok := node.Value(dc.key); ok && dc.count(v) == 0 && takesPods(node) && dc.passes(node) {
				return true
			}
		}
	}
	return slices.ContainsFunc(t.pools.all, func(pool *poolState) bool {
		empty := t.emptyOfferings(dc, pool)
		return !empty.Empty() && slices.ContainsFunc(t.launches.all, func(l *launch) bool {
			return l.pool == pool && dc.filter.admits(l) && l.requirements.rows.SubsetOf(empty)
		})
	})
}

// emptyOfferings are the pool's offerings whose nodes would be in a domain without pods. It finds none
// where the label is one that only the pool sets: the launch chooses its value.
func (t *topology) emptyOfferings(dc *domainCount, pool *poolState) bitset.Set {
	var empty bitset.Set
	if !pool.Catalog.HasLabel(dc.key) {
		return empty
	}
	for _, c := range pool.Cells([]*constraint.Key{dc.key}) {
		if c.Values[0] >= 0 && dc.count(c.Values[0]) == 0 {
			empty.Merge(c.Offerings)
		}
	}
	if !empty.Empty() {
		empty.Keep(t.countedOfferings(dc, pool))
	}
	return empty
}

// forgetOpened forgets the domains that earlier rounds opened and this one does not.
func (t *topology) forgetOpened(dc *domainCount) {
	for _, v := range t.learned[domainCountKey{dc.key, dc.of, dc.filter}] {
		if !slices.Contains(dc.launched, v) {
			delete(dc.domains, v)
		}
	}
}

// rememberOpened adds again what forgetOpened deleted, where a domain may be empty: launches for virtual
// pods may open it, and the spreads of such pods then count there.
func (t *topology) rememberOpened() {
	for _, dc := range t.countList {
		if len(dc.requiredKeys) == 0 || !dc.mayBeEmpty {
			continue
		}
		for _, v := range t.learned[domainCountKey{dc.key, dc.of, dc.filter}] {
			dc.domains[v] = true
		}
	}
}

// most is the count of the fullest domain.
func (dc *domainCount) most() int {
	most := 0
	for v := range dc.countedValues() {
		most = max(most, dc.count(v))
	}
	return most
}

// countedOfferings are the pool's offerings whose nodes the domain count looks at. They must not be
// changed.
func (t *topology) countedOfferings(dc *domainCount, pool *poolState) bitset.Set {
	if !dc.filter.tolerates(pool.Pool.Taints) {
		return nil
	}
	rows := pool.Offerings
	if dc.filter.affinity != nil {
		rows = pool.MatchingOwn(dc.filter.affinity)
	}
	if len(dc.requiredKeys) > 1 { // those without the domain count's own key are in no domain
		for _, key := range dc.requiredKeys {
			if lacking := t.offeringsWithout(key, pool); lacking.Intersects(rows) {
				rows = rows.Minus(lacking)
			}
		}
	}
	return rows
}

// offeringsWithout are the pool's offerings whose nodes do not have the label.
func (t *topology) offeringsWithout(key *constraint.Key, pool *poolState) bitset.Set {
	if key.Name == cluster.LabelHostname {
		return nil
	}
	for _, c := range pool.Cells([]*constraint.Key{key}) {
		if c.Values[0] < 0 {
			return c.Offerings
		}
	}
	return nil
}

// launchedDomains lists the values of the domain count's label on the nodes to be launched, as
// far as those nodes count for it. Nodes that exist may have the same values.
func (t *topology) launchedDomains(dc *domainCount) []int {
	if out, ok := t.launchedByCount[dc]; ok {
		return out
	}
	launched := t.summary
	if launched == nil {
		launched = t.summarizeLaunches()
	}
	var out []int
	for _, pool := range t.pools.all {
		if !pool.Catalog.HasLabel(dc.key) {
			continue
		}
		set := launched.countedRows(dc, pool)
		if set.Empty() {
			continue
		}
		set = set.And(t.countedOfferings(dc, pool))
		for _, c := range pool.Cells([]*constraint.Key{dc.key}) {
			if v := c.Values[0]; v >= 0 && c.Offerings.Intersects(set) && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	for i := range launched.alike {
		l := launched.alike[i].first
		if v, ok := l.openValue(dc.key); ok && !slices.Contains(out, v) && dc.filter.admits(l) {
			out = append(out, v)
		}
	}
	t.launchedByCount[dc] = out
	return out
}

// launchSummary is the different offerings and node requirements among the launches.
type launchSummary struct {
	rows  map[*poolState]bitset.Set
	alike []alikeLaunches
}

// alikeLaunches are the launches of a pool with the same nodeRequirements: the first of them, and the
// offerings that are planned for them.
type alikeLaunches struct {
	first *launch
	rows  bitset.Set
}

// summarizeLaunches reads the launches so far.
func (t *topology) summarizeLaunches() *launchSummary {
	type key struct {
		pool         *poolState
		requirements *nodeRequirements
	}
	summary := &launchSummary{rows: map[*poolState]bitset.Set{}}
	at := map[key]int{}
	for _, l := range t.launches.all {
		if !summary.rows[l.pool].Has(l.row) {
			set := summary.rows[l.pool]
			set.Put(l.row)
			summary.rows[l.pool] = set
		}
		i, ok := at[key{l.pool, l.requirements}]
		if !ok {
			i = len(summary.alike)
			at[key{l.pool, l.requirements}] = i
			summary.alike = append(summary.alike, alikeLaunches{first: l})
		}
		summary.alike[i].rows.Put(l.row)
	}
	return summary
}

// countedRows are the offerings of the pool's launches at which the count looks, as far as labels tell
// that only the pool sets.
func (ls *launchSummary) countedRows(dc *domainCount, pool *poolState) bitset.Set {
	if !dc.filter.readsOpenLabel(pool) {
		return ls.rows[pool]
	}
	var out bitset.Set
	for i := range ls.alike {
		if alike := &ls.alike[i]; alike.first.pool == pool && dc.filter.admits(alike.first) {
			out.Merge(alike.rows)
		}
	}
	return out
}

// readsOpenLabel reports whether labels that only the pool sets may decide whether the filter looks at a
// node.
func (f nodeFilter) readsOpenLabel(pool *poolState) bool {
	return f.affinity != nil && slices.ContainsFunc(f.affinity.OwnRequirements(), func(alternative constraint.Set) bool {
		return slices.ContainsFunc(alternative, func(q constraint.Requirement) bool { return !pool.Catalog.HasLabel(q.Key) })
	})
}

// openValue is the value that the launch's node will have of a label that only the pool sets and may
// leave open; see singleValue. It reports false for a label of the catalog, and where the node will
// not have the label.
func (l *launch) openValue(k *constraint.Key) (int, bool) {
	if l.pool.Catalog.HasLabel(k) {
		return 0, false
	}
	q, ok := l.requirements.set().Get(k)
	if !ok {
		return 0, false
	}
	if !q.AdmitsAbsent() {
		return k.ID(valueOf(q)), true
	}
	for _, r := range q.Rules() {
		if r.Operator == constraint.In && len(r.Values) == 1 {
			return k.ID(r.Values[0]), true
		}
	}
	return 0, false
}

// admits reports whether the filter looks at the launch's node, as far as taints and the labels that
// only the pool sets tell.
func (f nodeFilter) admits(l *launch) bool {
	if !f.tolerates(l.pool.Pool.Taints) {
		return false
	}
	return f.affinity == nil || slices.ContainsFunc(f.affinity.OwnRequirements(), func(alternative constraint.Set) bool {
		return !slices.ContainsFunc(alternative, func(q constraint.Requirement) bool {
			if l.pool.Catalog.HasLabel(q.Key) {
				return false
			}
			if v, ok := l.openValue(q.Key); ok {
				return !q.Admits(v)
			}
			return !q.AdmitsAbsent()
		})
	})
}
