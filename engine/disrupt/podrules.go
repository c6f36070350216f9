package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// podRules are what a pod class demands of other pods, as far as the simulation follows it.
// Rules within a node, and spreads over zones or the like, are followed exactly. For other rules
// the pods stay in the zone that the plan chose; where that is not enough they stay on the
// planned node.
type podRules struct {
	fixed   bool
	within  []*constraint.Key
	spreads []spread
	avoids  []*cluster.PodSelector      // its own anti-affinity, on one node
	shunned []*cluster.AntiAffinityTerm // anti-affinity of other pods against it, on one node
	counted []*domainCount              // of the first known counts: those that count its pods
	known   int
	door    *door
	seats   []int // the nodes that its pods came to
}

func (f *schedSim) podRulesOf(c *cluster.PodClass) *podRules {
	m, known := f.podRules[c]
	if !known {
		m = f.learn(c)
		f.podRules[c] = m
	}
	return m
}

func (f *schedSim) learn(c *cluster.PodClass) *podRules {
	m := &podRules{fixed: len(c.Mounts) > 0 || len(c.Ports) > 0, door: f.doorOf(c.PodShape)}
	keep := func(k *constraint.Key) {
		if k.Name == cluster.LabelHostname {
			m.fixed = true
		} else {
			m.within = append(m.within, k)
		}
	}
	for i := range c.Spreads {
		switch e := &c.Spreads[i]; {
		case e.Soft:
		case e.Key.Name == cluster.LabelHostname:
			m.fixed = true
		default:
			m.spreads = append(m.spreads, f.spreadOf(c, e))
		}
	}
	for _, n := range c.Affinity {
		if n.Weight == 0 {
			keep(n.Key)
		}
	}
	for _, n := range c.AntiAffinity {
		switch {
		case n.Weight > 0:
		case n.Key.Name == cluster.LabelHostname:
			m.avoids = append(m.avoids, n.Crowd)
		default:
			keep(n.Key)
		}
	}
	for _, r := range f.w.AntiAffinityAgainst(c) {
		switch {
		case r.Key.Name == cluster.LabelHostname:
			m.shunned = append(m.shunned, r)
		default:
			keep(r.Key)
		}
	}
	return m
}

// near reports whether the group is where the pod must stay: in the zone or the like of the node
// that the plan has for it.
func (f *schedSim) near(p *evictedPod, b *nodeGroup) bool {
	meant := f.nodes[p.meant].group
	for _, k := range p.within {
		v, ok := b.value(k)
		if want, known := meant.value(k); !ok || !known || v != want {
			return false
		}
	}
	return true
}

// suits reports whether the anti-affinity of the pods there lets the pod in.
func (s *simNode) suits(p *evictedPod) bool {
	if len(p.avoids)+len(p.shunned) == 0 {
		return true
	}
	for _, m := range s.running {
		if p.clashes(m.Class) {
			return false
		}
	}
	return !slices.ContainsFunc(s.arrived, p.clashes)
}

// clashes reports whether the pod and pods of the class cannot share a node.
func (p *evictedPod) clashes(c *cluster.PodClass) bool {
	return slices.ContainsFunc(p.avoids, func(g *cluster.PodSelector) bool { return g.Selects(c) }) ||
		slices.ContainsFunc(p.shunned, func(r *cluster.AntiAffinityTerm) bool { return r.OwnedBy(c) })
}
