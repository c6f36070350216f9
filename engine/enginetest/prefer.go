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
		if c.cluster.at[i] >= 0 {
			holds += c.granted(i)
		}
	}
	if p.Honoured > holds {
		c.fail("the plan claims to honour %d preferences, of which %d hold", p.Honoured, holds)
	}
}

// granted counts the preferences of the pod that hold.
func (c *checker) granted(i int) int {
	p, at, n := c.cluster.pods[i], c.cluster.at[i], 0
	count := func(ok bool) {
		if ok {
			n++
		}
	}
	for _, t := range p.Preferred {
		count(t.Weight > 0 && len(t.Term) > 0 && meets(t.Term, nil, c.cluster.places[at].labels))
	}
	for _, t := range p.Affinity {
		count(t.Weight > 0 && c.joined(i, at, t))
	}
	for _, t := range p.AntiAffinity {
		count(t.Weight > 0 && !c.cluster.meetsIn(i, counted{key: t.Key, picks: c.picked(t.Select, c.cluster.pods)}, at))
	}
	for _, t := range p.Spreads {
		count(t.Soft && c.even(i, at, t))
	}
	count(c.bothered(p) && !shuns(p, c.cluster.places[at].taints))
	return n
}

// joined reports whether a pod that the term selects is in the domain, or the pod is the first
// of its kind.
func (c *checker) joined(i, at int, t cluster.PodAffinityTerm) bool {
	picks := c.picked(t.Select, c.cluster.pods)
	if c.cluster.meetsIn(i, counted{key: t.Key, picks: picks}, at) {
		return true
	}
	for j := range picks {
		if j == i || !picks[j] || c.cluster.at[j] < 0 || !c.cluster.sees(i, j) {
			continue
		}
		if _, ok := c.cluster.places[c.cluster.at[j]].value(t.Key); ok {
			return false
		}
	}
	return picks[i]
}

// even reports whether the domain has at most maxSkew more pods than the domain with the fewest.
// For hostnames the fewest is zero, as there can always be an empty node.
func (c *checker) even(i, at int, t cluster.TopologySpreadConstraint) bool {
	own, ok := c.cluster.places[at].value(t.Key)
	counts := map[string]int{}
	soft := counted{t.Key, c.picked(t.Select, c.cluster.pods), t}
	p := c.cluster.pods[i]
	for n := range c.cluster.places {
		place := &c.cluster.places[n]
		v, has := place.value(t.Key)
		_, tolerated := cluster.Tolerates(p.Tolerations, place.taints)
		if has && (t.IgnoreAffinity || meets(p.Required, p.AnyOf, place.labels)) && (tolerated || !t.HonorTaints) {
			counts[v] += c.cluster.crowd(i, soft, n)
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

// bothered reports whether some pool or node has a PreferNoSchedule taint against the pod.
func (c *checker) bothered(p *cluster.Pod) bool {
	return slices.ContainsFunc(c.Pools, func(o cluster.NodePool) bool { return shuns(p, o.Taints) }) ||
		slices.ContainsFunc(c.Nodes, func(n cluster.Node) bool { return shuns(p, n.Taints) })
}

func shuns(p *cluster.Pod, taints []cluster.Taint) bool {
	return slices.ContainsFunc(taints, func(t cluster.Taint) bool {
		if t.Effect != cluster.PreferNoSchedule {
			return false
		}
		// Tolerates ignores this effect, which tolerations may name too.
		t.Effect = cluster.NoSchedule
		var heard []cluster.Toleration
		for _, o := range p.Tolerations {
			if o.Effect == "" || o.Effect == cluster.PreferNoSchedule {
				o.Effect = ""
				heard = append(heard, o)
			}
		}
		_, ok := cluster.Tolerates(heard, []cluster.Taint{t})
		return !ok
	})
}
