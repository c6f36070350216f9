// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// domainRule is one constraint of a pod group over a label other than the hostname.
type domainRule struct {
	count    *domainCount
	keyIndex int // index of the key in the group's keys
	kind     ruleKind
	// countsOwnPods is set when pods of the group count for the rule themselves.
	countsOwnPods       bool
	maxSkew, minDomains int
	// terminating are those of the pods that count which may not be joined, as they are terminating, by
	// domain; nil where all may. See ignoreTerminating.
	terminating map[int]int
	// taken are the domains in which pods of the group have a place; only of a hard spread.
	taken []int
	// soft is set for a rule made of a preference that the pods hold. dropped is set once it
	// was dropped for the first time.
	soft, dropped bool
	preference    preference
}

type ruleKind int

const (
	spreadRule       ruleKind = iota // domain counts differ by at most skew
	antiAffinityRule                 // the domain's count must be zero
	affinityRule                     // the domain's count must not be zero
)

// joinsItself reports whether the rule is required pod affinity that selects the group's own pods.
func (r domainRule) joinsItself() bool { return r.kind == affinityRule && !r.soft && r.countsOwnPods }

func (r domainRule) isHardSpread() bool { return r.kind == spreadRule && !r.soft }

// allows reports whether one more pod may go where the label has value v; a negative v means
// that the label is missing. usable lists the domains that count besides those of existing
// nodes. mayBeFirst is set when the pod need not join others over its required terms.
func (r *domainRule) allows(v int, usable []int, mayBeFirst bool) bool {
	dc := r.count
	switch r.kind {
	case antiAffinityRule:
		return v < 0 || dc.count(v) == 0
	case affinityRule:
		return v >= 0 && (dc.count(v) > r.terminating[v] || r.countsOwnPods && dc.total() == 0 && (r.soft || mayBeFirst))
	}
	if v < 0 {
		return false
	}
	self := 0
	if r.countsOwnPods {
		self = 1
	}
	return dc.count(v)+self-r.least(usable) <= r.maxSkew
}

// least is the count of the emptiest domain; zero while there are fewer than minDomains.
func (r *domainRule) least(usable []int) int {
	dc := r.count
	n, least := 0, -1
	look := func(v int) {
		n++
		if c := dc.count(v); least < 0 || c < least {
			least = c
		}
	}
	for v := range dc.domains {
		look(v)
	}
	for _, v := range dc.launched {
		if !dc.domains[v] {
			look(v)
		}
	}
	for _, v := range usable {
		if v >= 0 && !dc.domains[v] && !slices.Contains(dc.launched, v) {
			look(v)
		}
	}
	if n < r.minDomains {
		return 0
	}
	return max(0, least)
}

// takeDomains records that pods with the rules have a place where the labels have these values; a negative
// one means that the label is missing.
func takeDomains(rules []domainRule, value func(*domainRule) int) {
	for i := range rules {
		r := &rules[i]
		if !r.isHardSpread() {
			continue
		}
		if v := value(r); v >= 0 && !slices.Contains(r.taken, v) {
			r.taken = append(r.taken, v)
		}
	}
}

// mostTaken is the count of the fullest domain in which pods of the group have a place.
func (r *domainRule) mostTaken() int {
	most := 0
	for _, v := range r.taken {
		most = max(most, r.count.count(v))
	}
	return most
}

// String names the kind as Karpenter's messages do.
func (r ruleKind) String() string {
	switch r {
	case antiAffinityRule:
		return "pod anti-affinity"
	case affinityRule:
		return "pod affinity"
	}
	return "topology spread"
}

// compileDomainIncrements records the domain counts that the group's pods change, as far as
// some rule reads them.
func (t *topology) compileDomainIncrements(g *podGroup) {
	t.families.sort(t.countList)
	for _, in := range t.families.including(g.class, t.countList) {
		like := in.family.like
		n := slices.IndexFunc(g.domainIncrements, func(inc domainIncrements) bool { return inc.like.sameNodes(like) })
		if n < 0 {
			n = len(g.domainIncrements)
			g.domainIncrements = append(g.domainIncrements, domainIncrements{like: like, keyIndex: g.keyIndex(like.key)})
		}
		g.domainIncrements[n].counts = append(g.domainIncrements[n].counts, in)
	}
	t.findSpreadFilters(g)
	for i := range g.domainRules {
		g.domainRules[i].countsOwnPods = g.domainRules[i].count.of.includes(g.class)
	}
	t.counters.markFirstInDomain(g)
}

// domainIncrements is domain counts that a group's pods add to, each on the same nodes by the same
// label.
type domainIncrements struct {
	like     *domainCount // one that counts on the same nodes
	counts   []includedCounts
	keyIndex int
	filter   int // index in the group's spreadFilters; negative when none applies
}

// each visits the counts.
func (inc *domainIncrements) each(visit func(*domainCount)) {
	for i := range inc.counts {
		in := &inc.counts[i]
		for place := range in.places.All() {
			visit(in.family.byPlace[place])
		}
	}
}

// keyIndex returns the position of the key among the group's keys, and adds the key if it is
// new.
func (g *podGroup) keyIndex(key *constraint.Key) int {
	for i, had := range g.domainKeys {
		if had == key {
			return i
		}
	}
	g.domainKeys = append(g.domainKeys, key)
	return len(g.domainKeys) - 1
}

// compileDomainRules compiles the rules of a pod group over zones and other domains.
func (t *topology) compileDomainRules(g *podGroup) {
	skipVirtual := !g.class.Virtual
	add := func(r domainRule) {
		r.keyIndex = g.keyIndex(r.count.key)
		r.count.readers++
		r.count.hard = r.count.hard || !r.soft
		g.domainRules = append(g.domainRules, r)
	}
	selected := func(key *constraint.Key, of *cluster.PodSelector) *domainCount {
		return t.domainCount(domainCountKey{key: key, of: countedPods{selector: of, skipVirtual: skipVirtual}}, nil)
	}
	t.addSpreads(g, add)
	for i, n := range g.class.AntiAffinity {
		if n.Weight == 0 && !n.Selector.AnyPod() {
			continue // it keeps apart from nobody, so its pods need no domain
		}
		if (n.Weight == 0 || g.held.holds(podAntiAffinity, i)) && n.Key.Name != cluster.LabelHostname {
			add(domainRule{kind: antiAffinityRule, count: selected(n.Key, n.Selector), soft: n.Weight > 0, preference: preference{podAntiAffinity, i, n.Weight}})
		}
	}
	for _, r := range t.antiAffinityTerms.overDomains {
		if r.Selector.Selects(g.class) {
			key := domainCountKey{key: r.Key, of: countedPods{owners: r, skipVirtual: skipVirtual}}
			add(domainRule{kind: antiAffinityRule, count: t.domainCount(key, nil)})
		}
	}
	for i, n := range g.class.Affinity {
		if (n.Weight == 0 || g.held.holds(podAffinity, i)) && n.Key.Name != cluster.LabelHostname {
			add(domainRule{kind: affinityRule, count: selected(n.Key, n.Selector), soft: n.Weight > 0, preference: preference{podAffinity, i, n.Weight}})
		}
	}
	t.ignoreTerminating(g)
}

// ignoreTerminating lets no affinity of a group that is also spread be met by terminating pods. A spread
// does not count those, but may count an empty domain whose nodes terminate with them: kube-scheduler
// then refuses the group's pods for as long as there is a pod to join. Pods that the affinity selects may
// be the first once those have ended.
func (t *topology) ignoreTerminating(g *podGroup) {
	if t.snapshot.InWhatIf() || !slices.ContainsFunc(g.domainRules, domainRule.isHardSpread) {
		return
	}
	for i := range g.domainRules {
		if r := &g.domainRules[i]; r.kind == affinityRule && !r.soft && r.count.total() > 0 && !r.count.of.includes(g.class) {
			r.terminating = t.countTerminating(r.count)
		}
	}
}

// countTerminating counts the terminating pods among those that count, by domain; nil when there are
// none.
func (t *topology) countTerminating(dc *domainCount) map[int]int {
	if out, ok := t.terminating[dc]; ok {
		return out
	}
	staying := *dc
	staying.of.skipTerminating = true
	stay, n := staying.countPods(t.snapshot)
	var out map[int]int
	if all, total := dc.countPods(t.snapshot); total > n {
		out = map[int]int{}
		for v := range all {
			out[v] = all[v] - stay[v]
		}
	}
	t.terminating[dc] = out
	return out
}

// addSpreads compiles the group's spread constraints over domains. A hard constraint counts
// nodes that have the keys of all hard constraints of the class; a soft one counts nodes that
// have its own key.
func (t *topology) addSpreads(g *podGroup, add func(domainRule)) {
	hard, names := hardSpreads(g.class)
	for i, e := range g.class.Spreads {
		if e.Key.Name == cluster.LabelHostname || e.Soft && !g.held.holds(softSpread, i) {
			continue
		}
		keys, key := hard, spreadKey(g.class, &e, names)
		if e.Soft {
			keys, key = []*constraint.Key{e.Key}, spreadKey(g.class, &e, e.Key.Name+"\x00")
		}
		add(domainRule{
			kind: spreadRule, count: t.domainCount(key, keys), maxSkew: e.MaxSkew, minDomains: e.MinDomains,
			soft: e.Soft, preference: preference{softSpread, i, defaultWeight},
		})
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
	return domainCountKey{e.Key, countedPods{selector: e.Selector, skipTerminating: true, skipVirtual: !c.Virtual}, filter}
}

// isHeldBySpread reports whether a hard spread over domains counts for pods of the group that have a
// place: a node in a further domain may take it from them.
func (g *podGroup) isHeldBySpread() bool {
	return g.placed > 0 && !g.class.Virtual && slices.ContainsFunc(g.domainRules, domainRule.isHardSpread)
}

// hasAffinity reports whether the group's pods must join other pods.
func (g *podGroup) hasAffinity() bool {
	return slices.ContainsFunc(g.domainRules, func(r domainRule) bool { return r.kind == affinityRule })
}

// hasSpread reports whether the group has a spread constraint over domains.
func (g *podGroup) hasSpread() bool {
	return slices.ContainsFunc(g.domainRules, func(r domainRule) bool { return r.kind == spreadRule })
}
