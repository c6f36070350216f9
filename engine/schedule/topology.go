// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"iter"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// domainCount counts pods by value of a node label other than the hostname: either the pods a
// PodSelector selects, or those that have an anti-affinity term.
type domainCount struct {
	key    *constraint.Key
	of     countKey
	filter nodeFilter
	counts map[int]int
	total  int
	keys   []*constraint.Key // a node must have all of them to count
	// domains are the values that existing nodes have, as far as filter lets them count.
	domains map[int]bool
	// opened are the values of nodes that are certain to be launched.
	opened []int
	// watchers is how many rules read this count, without those of dropped preferences. hard
	// is set when one of them must hold.
	watchers int
	hard     bool
}

// nodeFilter says which nodes a spread constraint looks at.
type nodeFilter struct {
	affinity *cluster.PodShape // its own node affinity must hold; nil for all nodes
	taints   *cluster.PodShape // its tolerations must tolerate the node's taints; nil for all
	keys     string            // the pod's spread keys; the node must have all of them
}

type domainCountKey struct {
	key    *constraint.Key
	of     countKey
	filter nodeFilter
}

// domainCount returns the shared count. If it is new, running pods are counted.
func (s *topology) domainCount(k domainCountKey, keys []*constraint.Key) *domainCount {
	if t := s.counts[k]; t != nil {
		return t
	}
	t := s.running(k, keys)
	s.counts[k] = t
	s.order = append(s.order, t)
	return t
}

// running makes a domain count of the pods that run already.
func (s *topology) running(k domainCountKey, keys []*constraint.Key) *domainCount {
	t := &domainCount{key: k.key, of: k.of, filter: k.filter, keys: keys}
	if s.w.InWhatIf() {
		s.recall(k, t)
	} else {
		t.counts, t.total = t.countPods(s.w)
		t.domains = t.listDomains(s)
	}
	if len(keys) > 0 {
		for _, v := range s.learned[k] {
			t.domains[v] = true
		}
	}
	return t
}

// countPods counts the pods on nodes of w.
func (t *domainCount) countPods(w *cluster.Snapshot) (counts map[int]int, total int) {
	counts = map[int]int{}
	t.of.each(w, func(node *cluster.NodeInfo, n int) {
		if v, ok := node.Value(t.key); ok && n > 0 && t.passes(node) {
			counts[v] += n
			total += n
		}
	})
	return counts, total
}

// listDomains lists the domains of the nodes that count.
func (t *domainCount) listDomains(s *topology) map[int]bool {
	domains := map[int]bool{}
	if len(t.keys) == 0 {
		return domains
	}
	for node := range s.samples(t) {
		if v, ok := node.Value(t.key); ok && t.passes(node) {
			domains[v] = true
		}
	}
	return domains
}

// samples yields at least one node of each set of nodes that the count treats alike. It is not
// used in what-ifs, which recall counts from the memo.
func (s *topology) samples(t *domainCount) iter.Seq[*cluster.NodeInfo] {
	keys := t.keys
	if f := t.filter.affinity; f != nil {
		keys = slices.Concat(keys, f.Keys)
	}
	if t.filter.affinity != nil && t.filter.affinity.UsesHostname {
		return slices.Values(slices.Concat(s.w.Nodes, s.w.Unschedulable))
	}
	return func(yield func(*cluster.NodeInfo) bool) {
		for _, g := range s.w.NodeIndex(keys).Groups {
			if !yield(g.First) {
				return
			}
		}
		for _, node := range s.w.Unschedulable {
			if !yield(node) {
				return
			}
		}
	}
}

// passes reports whether the filter looks at the node. Every node counts as having a
// hostname: it gets one when it registers.
func (t *domainCount) passes(node *cluster.NodeInfo) bool {
	for _, key := range t.keys {
		if _, ok := node.Value(key); !ok && key.Name != cluster.LabelHostname {
			return false
		}
	}
	return (t.filter.affinity == nil || node.MatchesOwn(t.filter.affinity)) && (t.filter.taints == nil || node.Tolerated(t.filter.taints))
}

// domainRule is one constraint of a pod group over a label other than the hostname.
type domainRule struct {
	count *domainCount
	axis  int // index of the key in the group's keys
	kind  ruleKind
	// own is set when pods of the group count for the rule themselves.
	own              bool
	skew, minDomains int
	// soft is set for a rule made of a preference that the pods hold. unwatched is set once it
	// was dropped for the first time.
	soft, unwatched bool
	preference      preference
}

type ruleKind int

const (
	spreads ruleKind = iota // domain counts differ by at most skew
	avoids                  // the domain's count must be zero
	joins                   // the domain's count must not be zero
)

// topology counts pods by zone and other domains during one attempt. It says what the rules
// of pod groups read of the counts, and in which domains nodes can be launched.
type topology struct {
	w            *cluster.Snapshot
	terms        *terms
	counters     *counters
	pools        *poolList
	launches     *launchList
	learned      map[domainCountKey][]int // domains that earlier rounds opened; see learned
	counts       map[domainCountKey]*domainCount
	order        []*domainCount // the counts, as they were made
	filters      map[nodeFilter]*spreadFilter
	lookedAt     map[throughKey][]bitset.Set // see through
	reached      map[*domainCount][]int      // see opened
	summary      *launchSummary              // cached until the launches change
	openNoDomain bool                        // no launch opens a domain; see known
	scratch      bitset.Set                  // scratch: see known
}

func newTopology(c *counters, pools *poolList, launches *launchList, learned map[domainCountKey][]int) topology {
	return topology{w: c.w, terms: c.terms, counters: c, pools: pools, launches: launches, learned: learned,
		counts: map[domainCountKey]*domainCount{}, filters: map[nodeFilter]*spreadFilter{}, lookedAt: map[throughKey][]bitset.Set{}, reached: map[*domainCount][]int{}}
}

// compileAll compiles every group's constraints over zones and other domains, and finds the
// domain counts that its pods change.
func (s *topology) compileAll(groups []*podGroup) {
	for _, selector := range groups {
		s.domainRulesOf(selector)
	}
	for _, selector := range groups {
		s.finishDomains(selector)
	}
}

// finishDomains records the domain counts that the group's pods change, as far as some rule
// reads them.
func (s *topology) finishDomains(g *podGroup) {
	for _, t := range s.order {
		if (t.hard || t.watchers > 0) && t.of.counts(g.class) {
			g.domainIncrements = append(g.domainIncrements, increment{count: t, axis: g.axis(t.key)})
		}
	}
	s.findSpreadFilters(g)
	for i := range g.domainRules {
		g.domainRules[i].own = g.domainRules[i].count.of.counts(g.class)
	}
	s.counters.markFirstInDomain(g)
}

// increment is a domain count that a group's pods add to.
type increment struct {
	count  *domainCount
	axis   int
	filter int // index in the group's spreadFilters; negative when none applies
}

// axis returns the position of the key among the group's keys, and adds the key if it is new.
func (g *podGroup) axis(key *constraint.Key) int {
	for i, had := range g.domainKeys {
		if had == key {
			return i
		}
	}
	g.domainKeys = append(g.domainKeys, key)
	return len(g.domainKeys) - 1
}

func (s *topology) domainRulesOf(g *podGroup) {
	real := !g.class.Virtual
	add := func(r domainRule) {
		r.axis = g.axis(r.count.key)
		r.count.watchers++
		r.count.hard = r.count.hard || !r.soft
		g.domainRules = append(g.domainRules, r)
	}
	s.evenly(g, add)
	for i, n := range g.class.AntiAffinity {
		if (n.Weight == 0 || g.held.on(offOthers, i)) && n.Key.Name != cluster.LabelHostname {
			add(domainRule{count: s.domainCount(domainCountKey{key: n.Key, of: countKey{selector: n.Pods, real: real}}, nil), kind: avoids, soft: n.Weight > 0, preference: preference{offOthers, i, n.Weight}})
		}
	}
	for _, r := range s.terms.domains {
		if r.Pods.Selects(g.class) {
			add(domainRule{count: s.domainCount(domainCountKey{key: r.Key, of: countKey{owners: r, real: real}}, nil), kind: avoids})
		}
	}
	for i, n := range g.class.Affinity {
		if (n.Weight == 0 || g.held.on(nearOthers, i)) && n.Key.Name != cluster.LabelHostname {
			add(domainRule{count: s.domainCount(domainCountKey{key: n.Key, of: countKey{selector: n.Pods, real: real}}, nil), kind: joins, soft: n.Weight > 0, preference: preference{nearOthers, i, n.Weight}})
		}
	}
}

// evenly compiles the group's spread constraints over domains. A hard constraint counts nodes
// that have the keys of all hard constraints of the class; a soft one counts nodes that have
// its own key.
func (s *topology) evenly(g *podGroup, add func(domainRule)) {
	hard, names := hardSpreads(g.class)
	for i, e := range g.class.Spreads {
		if e.Key.Name == cluster.LabelHostname || e.Soft && !g.held.on(spreadOut, i) {
			continue
		}
		keys, key := hard, spreadKey(g.class, &e, names)
		if e.Soft {
			keys, key = []*constraint.Key{e.Key}, spreadKey(g.class, &e, e.Key.Name+"\x00")
		}
		add(domainRule{count: s.domainCount(key, keys), kind: spreads, skew: e.MaxSkew, minDomains: e.MinDomains, soft: e.Soft, preference: preference{spreadOut, i, full}})
	}
}

// hardSpreads returns the keys of the class's hard spread constraints, and their names as one
// string.
func hardSpreads(c *cluster.PodClass) (keys []*constraint.Key, names string) {
	for i := range c.Spreads {
		if e := &c.Spreads[i]; !e.Soft {
			keys = append(keys, e.Key)
			names += e.Key.Name + "\x00"
		}
	}
	return keys, names
}

// spreadKey says what a spread constraint of the class counts, and on which nodes. Preferred
// node affinity does not change that.
func spreadKey(c *cluster.PodClass, e *cluster.TopologySpread, keys string) domainCountKey {
	filter := nodeFilter{keys: keys}
	if !e.IgnoreAffinity && c.PodShape.HasNodeConstraints() {
		filter.affinity = c.PodShape
	}
	if e.HonorTaints {
		filter.taints = c.PodShape
	}
	return domainCountKey{e.Key, countKey{selector: e.Pods, settled: true, real: !c.Virtual}, filter}
}

// allows reports whether one more pod may go where the label has value v; a negative v means
// that the label is missing. universe lists the domains that count besides those of existing
// nodes.
func (r *domainRule) allows(v int, universe []int) bool {
	t := r.count
	switch r.kind {
	case avoids:
		return v < 0 || t.counts[v] == 0
	case joins:
		return v >= 0 && (t.counts[v] > 0 || r.own && t.total == 0)
	}
	if v < 0 {
		return false
	}
	self := 0
	if r.own {
		self = 1
	}
	return t.counts[v]+self-r.least(universe) <= r.skew
}

// least is the count of the emptiest domain; zero while there are fewer than minDomains.
func (r *domainRule) least(universe []int) int {
	t := r.count
	n, least := 0, -1
	look := func(v int) {
		n++
		if c := t.counts[v]; least < 0 || c < least {
			least = c
		}
	}
	for v := range t.domains {
		look(v)
	}
	for _, v := range t.opened {
		if !t.domains[v] {
			look(v)
		}
	}
	for _, v := range universe {
		if v >= 0 && !t.domains[v] && !slices.Contains(t.opened, v) {
			look(v)
		}
	}
	if n < r.minDomains {
		return 0
	}
	return max(0, least)
}

// known returns the offerings in domains that every spread counts: a node elsewhere would
// open a domain in which the pods on other nodes were not counted.
func (s *topology) inCountedDomains(pool *poolState) bitset.Set {
	if pool.inCountedDomains != nil {
		return pool.inCountedDomains
	}
	pool.inCountedDomains = pool.Offerings.Clone()
	for _, t := range s.order {
		if len(t.keys) == 0 || !t.hard {
			continue
		}
		rows := &s.scratch
		rows.Copy(pool.Offerings)
		rows.Cut(s.counting(t, pool))
		for _, c := range pool.Cells([]*constraint.Key{t.key}) {
			if v := c.Values[0]; v < 0 || t.domains[v] || slices.Contains(s.opened(t), v) {
				rows.Merge(c.Offerings)
			}
		}
		pool.inCountedDomains.Keep(*rows)
	}
	return pool.inCountedDomains
}
