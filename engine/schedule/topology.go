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
	index              countIndex     // of countList
	filters            map[nodeFilter]*spreadFilter
	inFilter           map[filterKey][]bitset.Set // see offeringsInFilter
	launchedByCount    map[*domainCount][]int     // see launchedDomains
	summary            *launchSummary             // set while recordOpenedDomains runs, which makes it once; else nil
	mustNotOpenDomains bool                       // set while no launch may open a domain; see inCountedDomains
	scratch            bitset.Set                 // scratch: see inCountedDomains
}

func newTopology(c *counters, pools *poolList, launches *launchList, learned map[domainCountKey][]int) topology {
	return topology{snapshot: c.snapshot, antiAffinityTerms: c.antiAffinityTerms, counters: c, pools: pools, launches: launches, learned: learned,
		counts: map[domainCountKey]*domainCount{}, filters: map[nodeFilter]*spreadFilter{}, inFilter: map[filterKey][]bitset.Set{}, launchedByCount: map[*domainCount][]int{}}
}

// compileAll compiles every group's constraints over zones and other domains, and finds the
// domain counts that its pods change.
func (t *topology) compileAll(groups []*podGroup) {
	for _, g := range groups {
		t.compileDomainRules(g)
	}
	for _, g := range groups {
		t.compileDomainIncrements(g)
	}
}

// inCountedDomains returns the offerings in domains that every spread counts: a node elsewhere
// would open a domain in which the pods on other nodes were not counted.
func (t *topology) inCountedDomains(pool *poolState) bitset.Set {
	if pool.inCountedDomains != nil {
		return pool.inCountedDomains
	}
	pool.inCountedDomains = pool.Offerings.Clone()
	for _, dc := range t.countList {
		if len(dc.requiredKeys) == 0 || !dc.hard {
			continue
		}
		rows := &t.scratch
		rows.Copy(pool.Offerings)
		rows.DropAll(t.countedOfferings(dc, pool))
		for _, c := range pool.Cells([]*constraint.Key{dc.key}) {
			if v := c.Values[0]; v < 0 || dc.domains[v] || slices.Contains(t.launchedDomains(dc), v) {
				rows.Merge(c.Offerings)
			}
		}
		pool.inCountedDomains.Keep(*rows)
	}
	return pool.inCountedDomains
}

// countedOfferings are the pool's offerings whose nodes the domain count's filter looks at.
func (t *topology) countedOfferings(dc *domainCount, pool *poolState) bitset.Set {
	if !dc.filter.tolerates(pool.Pool.Taints) {
		return nil
	}
	if dc.filter.affinity != nil {
		return pool.MatchingOwn(dc.filter.affinity)
	}
	return pool.Offerings
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
		set := launched.rows[pool].And(t.countedOfferings(dc, pool))
		for _, c := range pool.Cells([]*constraint.Key{dc.key}) {
			if v := c.Values[0]; v >= 0 && c.Offerings.Intersects(set) && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	for _, v := range requiredLabelValues(launched.launches, dc.key) {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	t.launchedByCount[dc] = out
	return out
}

// launchSummary is the different offerings and node requirements among the launches.
type launchSummary struct {
	rows     map[*poolState]bitset.Set
	launches []*launch // one of each nodeRequirements
}

// summarizeLaunches reads the launches so far.
func (t *topology) summarizeLaunches() *launchSummary {
	summary := &launchSummary{rows: map[*poolState]bitset.Set{}}
	seen := map[*nodeRequirements]bool{}
	for _, l := range t.launches.all {
		if !summary.rows[l.pool].Has(l.row) {
			set := summary.rows[l.pool]
			set.Put(l.row)
			summary.rows[l.pool] = set
		}
		if !seen[l.requirements] {
			seen[l.requirements] = true
			summary.launches = append(summary.launches, l)
		}
	}
	return summary
}

// requiredLabelValues lists the values that launches require of a label that only the pool
// sets and leaves open: cells know one value of such a label, nodes may have any.
func requiredLabelValues(launches []*launch, k *constraint.Key) []int {
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
