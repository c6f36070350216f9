// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// labelValues counts the distinct values of labels.
type labelValues map[string]map[string]bool

func (v labelValues) add(labels map[string][]string) {
	for key, values := range labels {
		if v[key] == nil {
			v[key] = map[string]bool{}
		}
		for _, value := range values {
			v[key][value] = true
		}
	}
}

// tooFew lists the labels for which the pool's minValues asks for more values than there are,
// sorted.
func (v labelValues) tooFew(pool cluster.NodePool) []string {
	var out []string
	for _, r := range pool.Requirements {
		if len(v[r.Key]) < r.MinValues && !slices.Contains(out, r.Key) {
			out = append(out, r.Key)
		}
	}
	slices.Sort(out)
	return out
}

// minValues checks a launch's offerings against its pool's minValues, and what the launch says
// about them.
func (c *checker) minValues(i int, l schedule.Launch, pool cluster.NodePool, had labelValues) {
	short := had.tooFew(pool)
	if len(short) > 0 && !c.Settings.RelaxMinValues {
		c.fail("launch %d has too few values of %v for its pool", i, short)
	}
	if !slices.Equal(short, l.Relaxed) {
		c.fail("launch %d has too few values of %v and says %v", i, short, l.Relaxed)
	}
}

// minValuesNeedlessly checks pods that are reported as left out because of minValues against the
// offerings without quota use, where neither other pods nor limits matter.
func (c *checker) minValuesNeedlessly(u schedule.Unplaced) {
	for _, f := range u.Funnels {
		if last, ok := f.Last(); !ok || last.By != reason.MinValues {
			continue
		}
		if c.Settings.RelaxMinValues {
			c.fail("%s: left out for minValues of %s, which may be relaxed", names(u.Pods), f.Pool)
			continue
		}
		pool := c.Pools[slices.IndexFunc(c.Pools, func(p cluster.NodePool) bool { return p.Name == f.Pool })]
		if len(pool.Limits) > 0 || c.anyPodTerms() {
			continue
		}
		if i := c.pods[u.Pods[0].UID]; c.simple(i) && len(c.valuesFor(i, pool).tooFew(pool)) == 0 {
			c.fail("%s: left out for minValues of %s, but enough would hold one of them", names(u.Pods), f.Pool)
		}
	}
}

// anyPodTerms reports whether rules about other pods may decide where some pod is placed.
func (c *checker) anyPodTerms() bool {
	return slices.ContainsFunc(c.Pods, func(p cluster.Pod) bool { return len(p.Spreads)+len(p.AntiAffinity) > 0 })
}

// simple reports whether the pod has no rules about other pods, no volumes and no alternative
// terms.
func (c *checker) simple(i int) bool {
	p := c.cluster.pods[i]
	return len(p.Spreads)+len(p.Affinity)+len(p.AntiAffinity)+len(p.Volumes)+len(p.AnyOf) == 0
}

// valuesFor is the values of the offerings that fit the pod alone.
func (c *checker) valuesFor(i int, pool cluster.NodePool) labelValues {
	out := labelValues{}
	c.eachNewNode(i, pool, func(at int) { out.add(c.cluster.nodes[at].labels) })
	return out
}

// eachNewNode visits the nodes, each alone, that the pool could launch without
// quota use and that fit the pod alone.
func (c *checker) eachNewNode(i int, pool cluster.NodePool, visit func(at int)) {
	at, before := len(c.cluster.nodes), c.cluster.nodeOf[i]
	defer func() { c.cluster.nodes, c.cluster.nodeOf[i] = c.cluster.nodes[:at], before }()
	seen := map[string]bool{}
	for _, t := range c.Types {
		if seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		for _, o := range t.Offerings {
			n, ok := c.newNodeOf(t, o, pool)
			if !ok {
				continue
			}
			c.cluster.nodes = append(c.cluster.nodes[:at], n)
			c.cluster.nodeOf[i] = at
			if c.cluster.neverFits(i, at) == "" && c.cluster.overcommitted(at) == "" {
				c.cluster.nodeOf[i] = before
				visit(at)
			}
		}
	}
}

// newNodeOf makes the node that an offering becomes in a pool, if the pool allows it. A node with
// several possible values for a label does not count: which value it would have is not certain.
func (c *checker) newNodeOf(t offering.InstanceType, o offering.Offering, pool cluster.NodePool) (refNode, bool) {
	labels := c.labelsOf(t, o, pool)
	for _, r := range pool.Requirements {
		if !satisfies(r, labels[r.Key]) || len(labels[r.Key]) > 1 {
			return refNode{}, false
		}
	}
	return c.newNode(t, pool, labels), o.Unavailable == "" && o.Price >= 0 && len(o.QuotaUses) == 0
}

// fullVariety gives pools more kinds of minValues. It has its own random source, so that the
// rest of the script does not change.
func (r *random) fullVariety(seed uint64) {
	own := &random{Rand: rand.New(rand.NewPCG(seed, 0x3a71)), s: r.s}
	for i := range r.s.Pools {
		p := &r.s.Pools[i]
		for own.chance(20) {
			p.Requirements = append(p.Requirements, own.variedRule())
		}
	}
}

func (r *random) variedRule() constraint.Rule {
	rule := constraint.Rule{Key: r.oneOf(cluster.LabelInstanceType, cluster.LabelInstanceType, cluster.LabelZone, cluster.LabelCapacityType, "arch", "version", "team"), Operator: constraint.Exists, MinValues: 1 + r.IntN(4)}
	if rule.Key == cluster.LabelZone && r.chance(50) {
		rule.Operator, rule.Values = constraint.NotIn, []string{fmt.Sprint(1 + r.IntN(3))}
	}
	return rule
}
