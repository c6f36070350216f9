// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// preferences compares the preferences that the plan reports as honoured with those that hold
// where its pods are: it must not report more.
func (c *checker) preferences() {
	p := c.plan.Preferences
	if p.Honoured > p.Asked || p.Cost < 0 {
		c.fail("%d of %d preferences are honoured, at %s", p.Honoured, p.Asked, p.Cost)
	}
	if c.Settings.Preferences == cluster.Ignore && p != (schedule.Preferences{}) {
		c.fail("preferences are ignored, yet the plan says %+v of them", p)
	}
	if p.Honoured == 0 || len(c.errs) > 0 {
		return
	}
	holds := 0
	for i := c.cluster.bound; i < len(c.cluster.pods); i++ {
		if c.cluster.nodeOf[i] >= 0 {
			holds += c.honoured(i)
		}
	}
	if p.Honoured > holds {
		c.fail("the plan claims to honour %d preferences, of which %d hold", p.Honoured, holds)
	}
}

// honoured counts the preferences of the pod that hold.
func (c *checker) honoured(i int) int {
	p, at, n := c.cluster.pods[i], c.cluster.nodeOf[i], 0
	count := func(ok bool) {
		if ok {
			n++
		}
	}
	for _, t := range p.Preferred {
		count(t.Weight > 0 && len(t.Term) > 0 && matchesTerms(t.Term, nil, c.cluster.nodes[at].labels))
	}
	for _, t := range p.Affinity {
		count(t.Weight > 0 && c.affinityHonoured(i, at, t))
	}
	for _, t := range p.AntiAffinity {
		count(t.Weight > 0 && !c.cluster.selectedInDomain(i, podTerm{key: t.Key, selects: c.selected(t.Selector, c.cluster.pods)}, at))
	}
	for _, t := range p.Spreads {
		count(t.Soft && c.spreadHonoured(i, at, t))
	}
	count(c.anyPreferNoSchedule(p) && !untoleratedPreference(p, c.cluster.nodes[at].taints))
	return n
}

// affinityHonoured reports whether a pod that the term selects is in the domain, or the pod is the
// first of its kind.
func (c *checker) affinityHonoured(i, at int, t cluster.PodAffinityTerm) bool {
	picks := c.selected(t.Selector, c.cluster.pods)
	if c.cluster.selectedInDomain(i, podTerm{key: t.Key, selects: picks}, at) {
		return true
	}
	for j := range picks {
		if j == i || !picks[j] || c.cluster.nodeOf[j] < 0 || !c.cluster.sees(i, j) {
			continue
		}
		if _, ok := c.cluster.nodes[c.cluster.nodeOf[j]].value(t.Key); ok {
			return false
		}
	}
	return picks[i]
}

// spreadHonoured reports whether the domain has at most maxSkew more pods than the domain with the
// fewest. For hostnames the fewest is zero, as there can always be an empty node.
func (c *checker) spreadHonoured(i, at int, t cluster.TopologySpreadConstraint) bool {
	own, ok := c.cluster.nodes[at].value(t.Key)
	counts := map[string]int{}
	soft := podTerm{t.Key, c.selected(t.Selector, c.cluster.pods), t}
	p := c.cluster.pods[i]
	for n := range c.cluster.nodes {
		node := &c.cluster.nodes[n]
		v, has := node.value(t.Key)
		_, tolerated := cluster.Tolerates(p.Tolerations, node.taints)
		if has && (t.IgnoreAffinity || matchesTerms(p.Required, p.AnyOf, node.labels)) && (tolerated || !t.HonorTaints) {
			counts[v] += c.cluster.countPods(i, soft, n)
		}
	}
	least := 0
	if t.Key != cluster.LabelHostname {
		least = 1 << 30
		for _, n := range counts {
			least = min(least, n)
		}
	}
	return ok && counts[own]-least <= int(t.MaxSkew)
}

// anyPreferNoSchedule reports whether some pool or node has a PreferNoSchedule taint against the
// pod.
func (c *checker) anyPreferNoSchedule(p *cluster.Pod) bool {
	return slices.ContainsFunc(c.Pools, func(o cluster.NodePool) bool { return untoleratedPreference(p, o.Taints) }) ||
		slices.ContainsFunc(c.Nodes, func(n cluster.Node) bool { return untoleratedPreference(p, n.Taints) })
}

func untoleratedPreference(p *cluster.Pod, taints []cluster.Taint) bool {
	return slices.ContainsFunc(taints, func(t cluster.Taint) bool {
		if t.Effect != cluster.PreferNoSchedule {
			return false
		}
		// Tolerates ignores this effect, which tolerations may name too.
		t.Effect = cluster.NoSchedule
		var matching []cluster.Toleration
		for _, o := range p.Tolerations {
			if o.Effect == "" || o.Effect == cluster.PreferNoSchedule {
				o.Effect = ""
				matching = append(matching, o)
			}
		}
		_, ok := cluster.Tolerates(matching, []cluster.Taint{t})
		return !ok
	})
}
