package disrupt

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// spread is a required spread over zones or the like, as kube-scheduler checks it: the pod's
// zone may have at most skew more pods than the zone with the fewest.
type spread struct {
	*domainCount
	skew    int
	domains int  // with fewer zones than that the fewest count as zero
	self    bool // the pod counts itself
}

// domainCount counts pods of a PodSelector by the value of a label, on the nodes that the spread
// counts.
type domainCount struct {
	key    *constraint.Key
	crowd  *cluster.PodSelector
	shape  *cluster.PodShape // whose node affinity a node must meet; nil when any node counts
	taints *cluster.PodShape // whose tolerations must fit the taints; nil when any node counts

	at    int   // in schedSim.domainCounts
	pods  []int // by value
	there []int // by value: groups with nodes; a node that goes stays until all its pods left
}

// spreadOf compiles a spread of the class.
func (f *schedSim) spreadOf(c *cluster.PodClass, e *cluster.TopologySpread) spread {
	t := domainCount{key: e.Key, crowd: e.Crowd}
	if !e.IgnoreAffinity && c.PodShape.HasNodeConstraints() {
		t.shape = c.PodShape
	}
	if e.HonorTaints {
		t.taints = c.PodShape
	}
	return spread{f.domainCount(t), e.MaxSkew, e.MinDomains, e.Crowd.Selects(c)}
}

// domainCount finds the count with the same definition, or adds it.
func (f *schedSim) domainCount(like domainCount) *domainCount {
	for _, t := range f.domainCounts {
		if t.key == like.key && t.crowd == like.crowd && t.shape == like.shape && t.taints == like.taints {
			return t
		}
	}
	t := &like
	t.at = len(f.domainCounts)
	for _, b := range f.groups {
		if b.seats > 0 {
			t.appeared(b, 1)
		}
	}
	f.headcount(t)
	f.domainCounts = append(f.domainCounts, t)
	return t
}

// headcount counts the selected pods where they are.
func (f *schedSim) headcount(t *domainCount) {
	note := func(at, pods int) {
		s := &f.nodes[at]
		if v := t.value(s.group); v >= 0 && !s.left {
			t.pods[v] += pods
		}
	}
	crews := f.crewsOf()
	for _, c := range t.crowd.Classes() {
		for _, crew := range crews[c] {
			note(crew.at, crew.pods)
		}
		if m := f.podRules[c]; m != nil {
			for _, at := range m.seats {
				note(at, 1)
			}
		}
	}
}

// crew is the pods of a class on a node at the start, without those that terminate.
type crew struct{ at, pods int }

// crewsOf are the crews of each class on all nodes.
func (f *schedSim) crewsOf() map[*cluster.PodClass][]crew {
	if f.crews != nil {
		return f.crews
	}
	f.crews = map[*cluster.PodClass][]crew{}
	for at := range f.nodes {
		for _, m := range f.nodes[at].running {
			f.crews[m.Class] = append(f.crews[m.Class], crew{at, m.Pods - m.Terminating})
		}
	}
	return f.crews
}

// unknown is a value that was not looked up yet.
const unknown = -2

// value is the label's value on nodes of the group; negative when they do not count.
func (t *domainCount) value(b *nodeGroup) int {
	for len(b.values) <= t.at {
		b.values = append(b.values, unknown)
	}
	if b.values[t.at] == unknown {
		b.values[t.at] = t.look(b)
	}
	return b.values[t.at]
}

func (t *domainCount) look(b *nodeGroup) int {
	v, ok := b.value(t.key)
	switch {
	case !ok:
		return -1
	case b.host == nil && t.shape != nil && !b.lets(t.shape): // new nodes count for shapes that fit
		return -1
	case b.host != nil && (t.shape != nil && !b.host.MatchesOwn(t.shape) || t.taints != nil && !b.host.Tolerated(t.taints)):
		return -1
	}
	t.know(v)
	return v
}

// know grows the counts to the value.
func (t *domainCount) know(v int) {
	for len(t.pods) <= v {
		t.pods, t.there = append(t.pods, 0), append(t.there, 0)
	}
}

// appear tells every domain count that the group has its first node, or has none any more.
func (f *schedSim) appear(b *nodeGroup, by int) {
	for _, t := range f.domainCounts {
		t.appeared(b, by)
	}
}

// appeared adds the group to its domain, or removes it.
func (t *domainCount) appeared(b *nodeGroup, by int) {
	if v := t.value(b); v >= 0 {
		t.there[v] += by
	}
}

// count notes that a pod came to the node, or left it.
func (f *schedSim) count(p *evictedPod, at, by int) {
	for _, t := range f.countedIn(p) {
		if v := t.value(f.nodes[at].group); v >= 0 {
			f.recount(t, v, by)
		}
	}
}

func (f *schedSim) recount(t *domainCount, v, by int) {
	t.pods[v] += by
	f.log = append(f.log, change{deed: counting, tally: t, value: v, by: by})
}

// countedIn are the domain counts that pods of the class change.
func (f *schedSim) countedIn(p *evictedPod) []*domainCount {
	for _, t := range f.domainCounts[p.known:] {
		if t.crowd.Selects(p.PodClass) {
			p.counted = append(p.counted, t)
		}
	}
	p.known = len(f.domainCounts)
	return p.counted
}

// lets reports whether one more pod may come to the domain with that value.
func (s *spread) lets(v int) bool {
	s.know(v)
	self := 0
	if s.self {
		self = 1
	}
	return s.pods[v]+self-s.least(v) <= s.skew
}

// least is the lowest count of any zone; zero while there are too few zones. A zone that a new
// node is about to open counts, too.
func (s *spread) least(v int) int {
	zones, least := 0, s.pods[v]
	if s.there[v] == 0 {
		zones++
	}
	for o, n := range s.there {
		if n > 0 {
			zones++
			least = min(least, s.pods[o])
		}
	}
	if zones < s.domains {
		return 0
	}
	return max(0, least)
}

// even reports whether the pod's spreads let it go to nodes of the group.
func (p *evictedPod) even(b *nodeGroup) bool {
	for i := range p.spreads {
		s := &p.spreads[i]
		if v := s.value(b); v < 0 || !s.lets(v) {
			return false
		}
	}
	return true
}
