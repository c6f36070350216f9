// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
)

// nodeRules is what a pod group asks of the node its pods run on, as arithmetic on counters
// of that node: hostname spread and (anti-)affinity, in both directions, and host ports.
//
// Anti-affinity to pods that do not have the same term themselves needs no arithmetic: there
// must be none of them. See residents.
type nodeRules struct {
	increments []int // counters that each pod adds one to
	maxCounts  []counterLimit
	needs      []need
	mounts     []cluster.Mount
	spreads    []hostnameSpread

	selectedBy    bitset.Sparse // IDs of the selectors that select the pods; none when no term reads it
	avoids        []int         // IDs of selectors of other pods that the pods avoid
	repels        []int         // IDs of selectors of other pods that the pods' required terms keep away
	mayBeRepelled bool          // required terms of others may keep the pods away
	virtual       bool
}

// counterLimit requires that the counter is at most max. countsOwnPods is set when the pod
// itself counts: the counter includes it then.
type counterLimit struct {
	counter, max  int
	countsOwnPods bool
}

// limitCounter limits a counter. Several constraints on one counter make one limit, the
// lowest.
func (rules *nodeRules) limitCounter(counter, most int) {
	for i := range rules.maxCounts {
		if c := &rules.maxCounts[i]; c.counter == counter {
			c.max = min(c.max, most)
			return
		}
	}
	rules.maxCounts = append(rules.maxCounts, counterLimit{counter: counter, max: most})
}

// limitsOwnPods reports whether pods of the group count against a limit of their own.
func (rules *nodeRules) limitsOwnPods() bool {
	return slices.ContainsFunc(rules.maxCounts, func(c counterLimit) bool { return c.countsOwnPods })
}

// need requires that a counter is above zero. A pod that its own term selects may be the
// first anywhere.
type need struct {
	counter       int
	selfSelecting bool
	soft          bool // made of a preference that the pods hold
}

// restricted reports whether other pods can keep the group off a node.
func (rules *nodeRules) restricted() bool {
	return len(rules.maxCounts)+len(rules.needs)+len(rules.mounts)+len(rules.avoids) > 0 || rules.mayBeRepelled
}

// compileAll compiles the rules of every pod group.
func (cs *counters) compileAll(groups []*podGroup) {
	for _, g := range groups {
		cs.compile(g)
	}
	watched := cs.antiAffinityTerms.hostnameSelectors.Clone()
	for _, g := range groups {
		for _, selector := range g.nodeRules.avoids {
			watched.Put(selector)
		}
	}
	for _, g := range groups {
		cs.compileIncrements(g)
		g.nodeRules.finish()
		if !g.nodeRules.selectedBy.Intersects(watched) {
			g.nodeRules.selectedBy = bitset.Sparse{}
		}
	}
}

// compileIncrements records the counters that pods of the group add to.
func (cs *counters) compileIncrements(g *podGroup) {
	rules := &g.nodeRules
	for i := range cs.index.including(g.class).All() {
		rules.increments = append(rules.increments, i)
		cs.all[i].groups++
	}
	rules.increments = append(rules.increments, cs.portIncrements(g.class)...)
}

// portIncrements are the port counters that pods of the class add to.
func (cs *counters) portIncrements(c *cluster.PodClass) []int {
	var out []int
	for _, p := range c.Ports {
		for _, ip := range []string{"", p.Address()} {
			for _, real := range []bool{true, false} {
				if i, ok := cs.ids[countKey{protocol: p.Protocol, port: p.Port, ip: ip, countedPods: countedPods{skipVirtual: real}}]; ok && !(real && c.Virtual) {
					out = append(out, i)
				}
			}
		}
	}
	return out
}

// finish sorts the counters that pods add to, drops duplicates, and marks the limits that
// count the group's own pods.
func (rules *nodeRules) finish() {
	slices.Sort(rules.increments)
	rules.increments = slices.Compact(rules.increments)
	for i := range rules.maxCounts {
		rules.maxCounts[i].countsOwnPods = rules.bumps(rules.maxCounts[i].counter)
	}
}

// compile compiles the rules of a pod group over one node.
func (cs *counters) compile(g *podGroup) {
	rules := &g.nodeRules
	rules.mounts = g.shape.Mounts
	skipVirtual := !g.class.Virtual
	atMost := func(key countKey, most int) {
		rules.limitCounter(cs.id(key), most)
	}
	for i, e := range g.class.Spreads {
		if (!e.Soft || g.held.holds(softSpread, i)) && e.Key.Name == cluster.LabelHostname {
			// A node can be added, so the emptiest has none; see hostnameSpread where none can be.
			key := countKey{countedPods: countedPods{selector: e.Selector, skipTerminating: true, skipVirtual: skipVirtual}}
			atMost(key, e.MaxSkew)
			if !e.Soft {
				rules.spreads = append(rules.spreads, hostnameSpread{counter: cs.id(key), spread: &g.class.Spreads[i]})
			}
		}
	}
	cs.antiAffinity(g, atMost)
	for i, n := range g.class.Affinity {
		if (n.Weight == 0 || g.held.holds(podAffinity, i)) && n.Key.Name == cluster.LabelHostname {
			key := countKey{countedPods: countedPods{selector: n.Selector, skipVirtual: skipVirtual}}
			rules.needs = append(rules.needs, need{counter: cs.id(key), selfSelecting: n.Selector.Selects(g.class), soft: n.Weight > 0})
		}
	}
	for _, p := range g.shape.Ports {
		key := countKey{protocol: p.Protocol, port: p.Port, countedPods: countedPods{skipVirtual: skipVirtual}}
		if p.Address() != "*" {
			key.ip = "*"
			atMost(key, ownCount(takesEveryAddress(g.shape.Ports, p)))
			key.ip = p.IP
		}
		atMost(key, 1)
	}
}

// antiAffinity compiles the anti-affinity terms over nodes, those of other pods included.
func (cs *counters) antiAffinity(g *podGroup, atMost func(countKey, int)) {
	rules := &g.nodeRules
	for i, n := range g.class.AntiAffinity {
		switch {
		case n.Weight != 0 && !g.held.holds(podAntiAffinity, i) || n.Key.Name != cluster.LabelHostname:
		case n.Selector.Selects(g.class):
			atMost(countKey{countedPods: countedPods{selector: n.Selector, skipVirtual: !g.class.Virtual}}, 1)
		default:
			rules.avoids = append(rules.avoids, n.Selector.ID())
		}
	}
	for _, r := range g.class.RequiredAntiAffinity() {
		if r.Key.Name != cluster.LabelHostname {
			continue
		}
		if cs.antiAffinityTerms.hostnameSelectors.Has(r.Selector.ID()) {
			rules.repels = append(rules.repels, r.Selector.ID())
		}
		if r.Selector.Selects(g.class) {
			atMost(countKey{countedPods: countedPods{owners: r, skipVirtual: !g.class.Virtual}}, 1)
		}
	}
	rules.selectedBy, rules.virtual = *g.class.Selectors(), g.class.Virtual
	rules.mayBeRepelled = rules.selectedBy.Intersects(cs.antiAffinityTerms.hostnameSelectors)
}

// markFirstInDomain records that pods of the group, which join others of their own kind in a
// zone or another domain, may be placed before pods that do so on a node.
func (cs *counters) markFirstInDomain(g *podGroup) {
	for _, r := range g.domainRules {
		id, counted := cs.ids[countKey{countedPods: r.count.of}]
		if r.kind == affinityRule && r.countsOwnPods && counted && !slices.ContainsFunc(g.nodeRules.needs, func(d need) bool { return d.counter == id }) {
			cs.all[id].firstInDomain = append(cs.all[id].firstInDomain, g)
		}
	}
}

// takesEveryAddress reports whether one of the ports is p on every address. Ports of one pod never
// clash with each other: kube-scheduler compares them with those of other pods only.
func takesEveryAddress(ports []cluster.Port, p cluster.Port) bool {
	return slices.ContainsFunc(ports, func(o cluster.Port) bool {
		return o.Protocol == p.Protocol && o.Port == p.Port && o.Address() == "*"
	})
}

// ownCount is what the pod itself adds to the count: 1 when its own term selects it.
func ownCount(own bool) int {
	if own {
		return 1
	}
	return 0
}

// roomFor is how many pods may be added to a node, as far as limits and needs let them. count
// reads the node's counters.
func (rules *nodeRules) roomFor(all *counters, count func(int) int) int {
	n := math.MaxInt32
	for _, c := range rules.maxCounts {
		have := count(c.counter)
		switch {
		case c.countsOwnPods:
			n = min(n, c.max-have)
		case have > c.max:
			return 0
		}
	}
	for _, d := range rules.needs {
		if count(d.counter) == 0 && !(d.selfSelecting && all.total(d.counter) == 0 && !all.all[d.counter].firstPodsAllotted()) {
			return 0
		}
	}
	return max(0, n)
}

// maxPodsInAnyBindOrder is how many pods of o may be on a node together with pods of rules,
// whichever are bound first. count reads the node's counters.
func (rules *nodeRules) maxPodsInAnyBindOrder(o *nodeRules, count func(int) int) int {
	if (rules.virtual || !o.virtual) && rules.excludes(o) {
		return 0
	}
	n := math.MaxInt32
	for _, c := range rules.maxCounts {
		if o.bumps(c.counter) {
			n = min(n, c.max-count(c.counter))
		}
	}
	return max(0, n)
}

// bumps reports whether the counter counts pods of rules.
func (rules *nodeRules) bumps(counter int) bool {
	_, bumped := slices.BinarySearch(rules.increments, counter)
	return bumped
}

// excludes reports whether the anti-affinity of either keeps the pods off each other's nodes.
func (rules *nodeRules) excludes(o *nodeRules) bool {
	return slices.ContainsFunc(rules.avoids, o.selectedBy.Has) || rules.mayBeRepelled && slices.ContainsFunc(o.repels, rules.selectedBy.Has)
}

// repelledBy reports whether pods of the class keep those of the group off their node.
func (g *podGroup) repelledBy(c *cluster.PodClass) bool {
	return slices.ContainsFunc(c.RequiredAntiAffinity(), func(r *cluster.AntiAffinityTerm) bool {
		return r.Key.Name == cluster.LabelHostname && r.Selector.Selects(g.class)
	})
}
