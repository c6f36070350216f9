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
	caps       []limit
	needs      []need
	mounts     []cluster.Mount

	picked  bitset.Set // IDs of the selectors that select the pods; nil when no term reads it
	avoids  []int      // IDs of selectors of other pods that the pods avoid
	repels  []int      // IDs of selectors of other pods that the pods' required terms keep away
	kept    bool       // required terms of others may keep the pods away
	virtual bool
}

// residents records, for the pods on a node, what anti-affinity to other kinds of pods needs.
// When every pod avoids all others there are as many terms as pods, so selectors are compared
// as sets of IDs. Virtual pods are placed last, so real pods meet none here.
type residents struct {
	picked bitset.Set // IDs of the selectors that select some of them
	repels bitset.Set // IDs of the selectors that some of them keep away
}

// bars reports whether anti-affinity keeps pods with rules l off the node.
func (m *residents) bars(l *nodeRules) bool {
	return l.kept && m.repels.Meets(l.picked) || slices.ContainsFunc(l.avoids, m.picked.Has)
}

// join adds pods.
func (m *residents) join(l *nodeRules) {
	m.picked.Merge(l.picked)
	for _, g := range l.repels {
		m.repels.Put(g)
	}
}

func (m *residents) clone() residents { return residents{m.picked.Clone(), m.repels.Clone()} }

func (m *residents) clear() {
	clear(m.picked)
	clear(m.repels)
}

// limit requires that the counter is at most most. own is set when the pod itself counts: the
// counter includes it then.
type limit struct {
	counter, most int
	own           bool
}

// cap limits a counter. Several constraints on one counter make one limit, the lowest.
func (l *nodeRules) cap(counter, most int) {
	for i := range l.caps {
		if c := &l.caps[i]; c.counter == counter {
			c.most = min(c.most, most)
			return
		}
	}
	l.caps = append(l.caps, limit{counter: counter, most: most})
}

// keepsApart reports whether pods of the group count against a limit of their own.
func (l *nodeRules) limitsOwnPods() bool {
	return slices.ContainsFunc(l.caps, func(c limit) bool { return c.own })
}

// need requires that a counter is above zero. A pod that its own term selects may be the
// first anywhere.
type need struct {
	counter int
	own     bool
}

// restricted reports whether other pods can keep the group off a node.
func (l *nodeRules) restricted() bool {
	return len(l.caps)+len(l.needs)+len(l.mounts)+len(l.avoids) > 0 || l.kept
}

// counter counts one kind of pod, or uses of one port, per node.
type counter struct {
	of countKey
	// planned are the pods that the attempt puts on existing nodes, by node index. sum is how
	// many it puts on any node.
	planned map[int]int
	sum     int
	running int // over all existing nodes, once counted
	counted bool
	// firstInDomain are pod groups of which a pod that the counter counts may be the first of
	// its kind in a zone or another domain.
	firstInDomain []*podGroup
}

// pledged reports whether pods that may be the first in a domain are assigned to a cell but
// have no node yet: they count as the first pods.
func (c *counter) firstPodsAllotted() bool {
	return slices.ContainsFunc(c.firstInDomain, func(g *podGroup) bool { return g.allotted > 0 })
}

// countKey identifies a counter.
type countKey struct {
	selector *cluster.PodSelector
	settled  bool // terminating pods are left out
	real     bool // virtual pods are left out: existing pods do not see them
	owners   *cluster.AntiAffinityTerm
	protocol string
	port     int32
	ip       string // "" counts uses on any address, "*" those on every address
}

// counters numbers the counters that the rules of pending pods read.
type counters struct {
	w     *cluster.Snapshot
	terms *terms
	ids   map[countKey]int
	all   []*counter
	// comers are the residents planned for existing nodes, by node index.
	comers map[int]residents
}

func (t *counters) id(k countKey) int {
	if i, ok := t.ids[k]; ok {
		return i
	}
	i := len(t.all)
	t.ids[k] = i
	t.all = append(t.all, &counter{of: k})
	return i
}

// on is the value of a counter on node i, planned pods included.
func (t *counters) on(c, i int) int {
	return t.all[c].of.on(t.w.Nodes[i]) + t.all[c].planned[i]
}

// plan adds n pods that are planned for node i.
func (t *counters) plan(c, i, n int) {
	k := t.all[c]
	if k.planned == nil {
		k.planned = map[int]int{}
	}
	k.planned[i] += n
	k.sum += n
}

// join records that pods of the group are planned for node i.
func (t *counters) join(g *podGroup, i int) {
	if len(g.nodeRules.picked)+len(g.nodeRules.repels) > 0 {
		comers := t.comers[i]
		comers.join(&g.nodeRules)
		t.comers[i] = comers
	}
}

// total is the value of a counter over all nodes; not for ports.
func (t *counters) total(c int) int {
	k := t.all[c]
	if !k.counted {
		k.counted = true
		k.of.each(t.w, func(_ *cluster.NodeInfo, n int) { k.running += n })
	}
	return k.running + k.sum
}

// on counts what runs on the node, or will run there without this plan.
func (k *countKey) on(node *cluster.NodeInfo) int {
	n := 0
	for _, m := range node.PodsByClass() {
		switch {
		case k.isPort():
			n += k.usedBy(m)
		case k.counts(m.Class):
			if n += m.Pods; k.settled {
				n -= m.Terminating
			}
		}
	}
	if k.isPort() {
		for _, p := range node.DaemonPorts {
			if k.uses(p) {
				n++
			}
		}
	}
	return n
}

// usedBy counts uses of a port.
func (k *countKey) usedBy(m cluster.ClassCount) int {
	n := 0
	for _, p := range m.Class.Ports {
		if k.uses(p) && !(k.real && m.Class.Virtual) {
			n += m.Pods
		}
	}
	return n
}

// each calls f with every existing node that counts and its count; not for ports.
func (k countKey) each(w *cluster.Snapshot, f func(*cluster.NodeInfo, int)) {
	visit := func(node *cluster.NodeInfo, pods, terminating int) {
		if k.settled {
			pods -= terminating
		}
		f(node, pods)
	}
	if k.selector != nil {
		k.selector.EachNode(k.real, visit)
		return
	}
	k.owners.EachNode(k.real, visit)
}

// isPort reports whether uses of a host port are counted.
func (k *countKey) isPort() bool { return k.selector == nil && k.owners == nil }

// uses reports whether the port counts for k.
func (k countKey) uses(p cluster.Port) bool {
	return k.protocol == p.Protocol && k.port == p.Port && (k.ip == "" || k.ip == p.Address())
}

// counts reports whether pods of the class count for k; not for ports.
func (k *countKey) counts(c *cluster.PodClass) bool {
	switch {
	case k.real && c.Virtual:
		return false
	case k.selector != nil:
		return k.selector.Selects(c)
	}
	return k.owners.OwnedBy(c)
}

// classes are those of the pods that count for k; not for ports.
func (k countKey) classes() []*cluster.PodClass {
	out := k.owners.Owners
	if k.selector != nil {
		out = k.selector.Classes
	}
	if !k.real {
		return out()
	}
	return slices.DeleteFunc(slices.Clone(out()), func(c *cluster.PodClass) bool { return c.Virtual })
}

func newCounters(w *cluster.Snapshot, t *terms) counters {
	return counters{w: w, terms: t, ids: map[countKey]int{}, comers: map[int]residents{}}
}

// compileAll compiles the rules of every pod group.
func (t *counters) compileAll(groups []*podGroup) {
	for _, g := range groups {
		t.compile(g)
	}
	watched := t.terms.apart.Clone()
	for _, g := range groups {
		for _, selector := range g.nodeRules.avoids {
			watched.Put(selector)
		}
	}
	for _, g := range groups {
		t.bump(g)
		g.nodeRules.finish()
		if !g.nodeRules.picked.Meets(watched) {
			g.nodeRules.picked = nil
		}
	}
}

// bump records the counters that pods of the group add to.
func (t *counters) bump(g *podGroup) {
	l := &g.nodeRules
	for i, c := range t.all {
		if !c.of.isPort() && c.of.counts(g.class) {
			l.increments = append(l.increments, i)
		}
	}
	l.increments = append(l.increments, t.bumpedPorts(g.class)...)
}

// bumpedPorts are the port counters that pods of the class add to.
func (t *counters) bumpedPorts(c *cluster.PodClass) []int {
	var out []int
	for _, p := range c.Ports {
		for _, ip := range []string{"", p.Address()} {
			for _, real := range []bool{true, false} {
				if i, ok := t.ids[countKey{protocol: p.Protocol, port: p.Port, ip: ip, real: real}]; ok && !(real && c.Virtual) {
					out = append(out, i)
				}
			}
		}
	}
	return out
}

// finish sorts the counters that pods add to, drops duplicates, and marks the limits that
// count the group's own pods.
func (l *nodeRules) finish() {
	slices.Sort(l.increments)
	l.increments = slices.Compact(l.increments)
	for i := range l.caps {
		_, l.caps[i].own = slices.BinarySearch(l.increments, l.caps[i].counter)
	}
}

func (t *counters) compile(g *podGroup) {
	l := &g.nodeRules
	l.mounts = g.shape.Mounts
	real := !g.class.Virtual
	atMost := func(key countKey, most int) {
		l.cap(t.id(key), most)
	}
	for i, e := range g.class.Spreads {
		if (!e.Soft || g.held.on(spreadOut, i)) && e.Key.Name == cluster.LabelHostname {
			// A node can always be added, so the emptiest has none.
			atMost(countKey{selector: e.Pods, settled: true, real: real}, e.MaxSkew)
		}
	}
	t.antiAffinity(g, atMost)
	for i, n := range g.class.Affinity {
		if (n.Weight == 0 || g.held.on(nearOthers, i)) && n.Key.Name == cluster.LabelHostname {
			l.needs = append(l.needs, need{counter: t.id(countKey{selector: n.Pods, real: real}), own: n.Pods.Selects(g.class)})
		}
	}
	for _, p := range g.shape.Ports {
		key := countKey{protocol: p.Protocol, port: p.Port, real: real}
		if p.Address() != "*" {
			key.ip = "*"
			atMost(key, 0)
			key.ip = p.IP
		}
		atMost(key, 1)
	}
}

// antiAffinity compiles the anti-affinity terms over nodes, those of other pods included.
func (t *counters) antiAffinity(g *podGroup, atMost func(countKey, int)) {
	l := &g.nodeRules
	for i, n := range g.class.AntiAffinity {
		switch {
		case n.Weight != 0 && !g.held.on(offOthers, i) || n.Key.Name != cluster.LabelHostname:
		case n.Pods.Selects(g.class):
			atMost(countKey{selector: n.Pods, real: !g.class.Virtual}, 1)
		default:
			l.avoids = append(l.avoids, n.Pods.ID())
		}
	}
	for _, r := range g.class.RequiredAntiAffinity() {
		if r.Key.Name != cluster.LabelHostname {
			continue
		}
		if t.terms.apart.Has(r.Pods.ID()) {
			l.repels = append(l.repels, r.Pods.ID())
		}
		if r.Pods.Selects(g.class) {
			atMost(countKey{owners: r, real: !g.class.Virtual}, 1)
		}
	}
	l.picked, l.virtual = g.class.Selectors(), g.class.Virtual
	l.kept = t.terms.apart.Meets(l.picked)
}

// markFirstInDomain records that pods of the group, which join others of their own kind in a
// zone or another domain, may be placed before pods that do so on a node.
func (t *counters) markFirstInDomain(g *podGroup) {
	for _, r := range g.domainRules {
		id, counted := t.ids[r.count.of]
		if r.kind == joins && r.own && counted && !slices.ContainsFunc(g.nodeRules.needs, func(d need) bool { return d.counter == id }) {
			t.all[id].firstInDomain = append(t.all[id].firstInDomain, g)
		}
	}
}

// alone is how many there may be with a pod that bumps the counter itself, or not.
func alone(own bool) int {
	if own {
		return 1
	}
	return 0
}

// room is how many pods may be added to a node, as far as limits and needs let them. count
// reads the node's counters.
func (l *nodeRules) room(all *counters, count func(int) int) int {
	n := math.MaxInt32
	for _, c := range l.caps {
		have := count(c.counter)
		switch {
		case c.own:
			n = min(n, c.most-have)
		case have > c.most:
			return 0
		}
	}
	for _, d := range l.needs {
		if count(d.counter) == 0 && !(d.own && all.total(d.counter) == 0 && !all.all[d.counter].firstPodsAllotted()) {
			return 0
		}
	}
	return max(0, n)
}

// beside is how many pods of o may be on a node together with pods of l, whichever are bound
// first. count reads the node's counters.
func (l *nodeRules) beside(o *nodeRules, count func(int) int) int {
	if (l.virtual || !o.virtual) && l.excludes(o) {
		return 0
	}
	n := math.MaxInt32
	for _, c := range l.caps {
		if _, bumped := slices.BinarySearch(o.increments, c.counter); bumped {
			n = min(n, c.most-count(c.counter))
		}
	}
	return max(0, n)
}

// excludes reports whether the anti-affinity of either keeps the pods off each other's nodes.
func (l *nodeRules) excludes(o *nodeRules) bool {
	return slices.ContainsFunc(l.avoids, o.picked.Has) || l.kept && slices.ContainsFunc(o.repels, l.picked.Has)
}

// barred reports whether pods on node i, running or planned, keep the group off it by their
// anti-affinity or the group's.
func (s *nodes) barred(g *podGroup, i int) bool {
	l := &g.nodeRules
	if !l.kept && len(l.avoids) == 0 {
		return false
	}
	if comers, any := s.counters.comers[i]; any && comers.bars(l) {
		return true
	}
	return slices.ContainsFunc(s.w.Nodes[i].PodsByClass(), func(m cluster.ClassCount) bool {
		return m.Pods > 0 && (g.class.Virtual || !m.Class.Virtual) && (slices.ContainsFunc(l.avoids, m.Class.Selectors().Has) || g.repelledBy(m.Class))
	})
}

// repelledBy reports whether pods of the class keep those of the group off their node.
func (g *podGroup) repelledBy(c *cluster.PodClass) bool {
	return slices.ContainsFunc(c.RequiredAntiAffinity(), func(r *cluster.AntiAffinityTerm) bool {
		return r.Key.Name == cluster.LabelHostname && r.Pods.Selects(g.class)
	})
}
