// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// podClass is a pod class with what it demands of other pods, as far as the simulation follows
// it. Anti-affinity on one node, and spreads over zones or the like, are followed exactly. Pods with
// affinity or anti-affinity over zones are kept in the zone that the plan chose. Pods with host
// ports, shared volumes, or spread or affinity on one node are kept on the planned node.
type podClass struct {
	*cluster.PodClass
	admission           *admission
	onlyPlannedNode     bool // they are kept on the planned node
	plannedDomains      []*constraint.Key
	spreads             []spread
	antiAffinity        []*cluster.PodSelector      // its own anti-affinity, on one node
	antiAffinityAgainst []*cluster.AntiAffinityTerm // anti-affinity of other pods against it, on one node

	countedIn  []*domainCount // of the first countsSeen domain counts: those that count its pods
	countsSeen int
	movedTo    []int // the nodes that its pods moved to
}

// limitedToDomains reports whether only some domains are allowed for a new node.
func (c *podClass) limitedToDomains() bool { return len(c.plannedDomains)+len(c.spreads) > 0 }

// inPlannedDomains reports whether the group is in the domains that the pod must be in: the zone
// or the like of its planned node.
func (c *podClass) inPlannedDomains(planned, g *nodeGroup) bool {
	for _, k := range c.plannedDomains {
		v, ok := g.value(k)
		if want, known := planned.value(k); !ok || !known || v != want {
			return false
		}
	}
	return true
}

// spreadsAdmit reports whether the pod's spreads let it go to nodes of the group.
func (c *podClass) spreadsAdmit(g *nodeGroup) bool {
	for i := range c.spreads {
		s := &c.spreads[i]
		if v := s.value(g); v < 0 || !s.admits(v) {
			return false
		}
	}
	return true
}

// mayLaunch reports whether the offering is in the domains where the pod must be, as far as
// that is known before the launch.
func (c *podClass) mayLaunch(planned *nodeGroup, catalog *cluster.PoolCatalog, row int) bool {
	for _, k := range c.plannedDomains {
		v, known := valueAtLaunch(catalog, row, k)
		if want, ok := planned.value(k); known && ok && v != want {
			return false
		}
	}
	for i := range c.spreads {
		if v, known := valueAtLaunch(catalog, row, c.spreads[i].key); known && !c.spreads[i].admits(v) {
			return false
		}
	}
	return true
}

// conflictsWith reports whether the pod and pods of the other class cannot share a node.
func (c *podClass) conflictsWith(other *cluster.PodClass) bool {
	return slices.ContainsFunc(c.antiAffinity, func(s *cluster.PodSelector) bool { return s.Selects(other) }) ||
		slices.ContainsFunc(c.antiAffinityAgainst, func(r *cluster.AntiAffinityTerm) bool { return r.OwnedBy(other) })
}

// classes compiles pod classes when their pods leave a node for the first time.
type classes struct {
	snapshot *cluster.Snapshot
	groups   *groups
	nodes    *nodes
	compiled map[*cluster.PodClass]*podClass
	atStart  map[*cluster.PodClass][]podsAt      // see runningAtStart
	against  map[int][]*cluster.AntiAffinityTerm // by the ID of the PodSelector; see antiAffinityAgainst
}

// podsAt is the pods of a class on a node, without those that terminate.
type podsAt struct{ node, pods int }

func newClasses(snapshot *cluster.Snapshot, g *groups, n *nodes) *classes {
	return &classes{snapshot: snapshot, groups: g, nodes: n, compiled: map[*cluster.PodClass]*podClass{}}
}

func (s *classes) of(c *cluster.PodClass) *podClass {
	p, known := s.compiled[c]
	if !known {
		p = s.compile(c)
		s.compiled[c] = p
	}
	return p
}

func (s *classes) compile(c *cluster.PodClass) *podClass {
	p := &podClass{PodClass: c, admission: s.groups.admissionOf(c.PodShape), onlyPlannedNode: len(c.Mounts) > 0 || len(c.Ports) > 0}
	keepDomain := func(k *constraint.Key) {
		if k.Name == cluster.LabelHostname {
			p.onlyPlannedNode = true
		} else {
			p.plannedDomains = append(p.plannedDomains, k)
		}
	}
	for i := range c.Spreads {
		switch e := &c.Spreads[i]; {
		case e.Soft:
		case e.Key.Name == cluster.LabelHostname:
			p.onlyPlannedNode = true
		default:
			p.spreads = append(p.spreads, s.spread(c, e))
		}
	}
	for _, t := range c.Affinity {
		if t.Weight == 0 {
			keepDomain(t.Key)
		}
	}
	for _, t := range c.AntiAffinity {
		switch {
		case t.Weight > 0:
		case t.Key.Name == cluster.LabelHostname:
			p.antiAffinity = append(p.antiAffinity, t.Selector)
		default:
			keepDomain(t.Key)
		}
	}
	for _, t := range s.antiAffinityAgainst(c) {
		if t.Key.Name == cluster.LabelHostname {
			p.antiAffinityAgainst = append(p.antiAffinityAgainst, t)
		} else {
			keepDomain(t.Key)
		}
	}
	return p
}

// antiAffinityAgainst lists the terms of any pods that keep pods of the class away.
func (s *classes) antiAffinityAgainst(c *cluster.PodClass) []*cluster.AntiAffinityTerm {
	if s.against == nil {
		s.against = map[int][]*cluster.AntiAffinityTerm{}
		for _, t := range s.snapshot.AntiAffinityTerms {
			id := t.Selector.ID()
			s.against[id] = append(s.against[id], t)
		}
	}
	var out []*cluster.AntiAffinityTerm
	for id := range c.Selectors().All() {
		out = append(out, s.against[id]...)
	}
	return out
}

// spread compiles a spread of the class, with the pods that it counts now.
func (s *classes) spread(c *cluster.PodClass, e *cluster.TopologySpread) spread {
	like := domainCount{key: e.Key, selector: e.Selector}
	if !e.IgnoreAffinity && c.PodShape.HasNodeConstraints() {
		like.shape = c.PodShape
	}
	if e.HonorTaints {
		like.taints = c.PodShape
	}
	count := s.nodes.domains.find(&like)
	if count == nil {
		count = &like
		s.nodes.domains.add(count, s.groups.all)
		s.countPods(count)
	}
	return spread{count, e.MaxSkew, e.MinDomains, e.Selector.Selects(c)}
}

// countPods counts the selected pods where they are.
func (s *classes) countPods(t *domainCount) {
	add := func(at, pods int) {
		n := s.nodes.at(at)
		if v := t.value(n.group); v >= 0 && n.state != drained {
			t.pods[v] += pods
		}
	}
	atStart := s.runningAtStart()
	for _, c := range t.selector.Classes() {
		for _, p := range atStart[c] {
			add(p.node, p.pods)
		}
		if p := s.compiled[c]; p != nil {
			for _, at := range p.movedTo {
				add(at, 1)
			}
		}
	}
}

// runningAtStart lists where the pods of each class were when the simulation began.
func (s *classes) runningAtStart() map[*cluster.PodClass][]podsAt {
	if s.atStart == nil {
		s.atStart = map[*cluster.PodClass][]podsAt{}
		for at := range s.nodes.all {
			for _, m := range s.nodes.at(at).running {
				s.atStart[m.Class] = append(s.atStart[m.Class], podsAt{at, m.Pods - m.Terminating})
			}
		}
	}
	return s.atStart
}
