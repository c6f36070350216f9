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

// variety counts the distinct values of labels.
type variety map[string]map[string]bool

func (v variety) note(labels map[string][]string) {
	for key, values := range labels {
		if v[key] == nil {
			v[key] = map[string]bool{}
		}
		for _, value := range values {
			v[key][value] = true
		}
	}
}

// short lists the labels for which the pool's minValues asks for more values than there are,
// sorted.
func (v variety) short(pool cluster.NodePool) []string {
	var out []string
	for _, r := range pool.Requirements {
		if len(v[r.Key]) < r.MinValues && !slices.Contains(out, r.Key) {
			out = append(out, r.Key)
		}
	}
	slices.Sort(out)
	return out
}

// diverse checks a launch's offerings against its pool's minValues, and what the launch says
// about them.
func (c *checker) diverse(i int, l schedule.Launch, pool cluster.NodePool, had variety) {
	short := had.short(pool)
	if len(short) > 0 && !c.Settings.RelaxMinValues {
		c.fail("launch %d has too little variety of %v for its pool", i, short)
	}
	if !slices.Equal(short, l.Relaxed) {
		c.fail("launch %d has too little variety of %v and says %v", i, short, l.Relaxed)
	}
}

// needlessly checks pods that are reported as left out because of minValues against the offerings
// without quota use, where neither other pods nor limits matter.
func (c *checker) needlessly(u schedule.Unplaced) {
	for _, f := range u.Funnels {
		if last, ok := f.Last(); !ok || last.By != reason.MinValues {
			continue
		}
		if c.Settings.RelaxMinValues {
			c.fail("%s: left out for minValues of %s, which may be relaxed", names(u.Pods), f.Pool)
			continue
		}
		pool := c.Pools[slices.IndexFunc(c.Pools, func(p cluster.NodePool) bool { return p.Name == f.Pool })]
		if len(pool.Limits) > 0 || c.anyoneChoosy() {
			continue
		}
		if i := c.pods[u.Pods[0].UID]; c.solitary(i) && len(c.suitable(i, pool).short(pool)) == 0 {
			c.fail("%s: left out for minValues of %s, but enough would hold one of them", names(u.Pods), f.Pool)
		}
	}
}

// anyoneChoosy reports whether rules about other pods may decide where some pod is placed.
func (c *checker) anyoneChoosy() bool {
	return slices.ContainsFunc(c.Pods, func(p cluster.Pod) bool { return len(p.Spreads)+len(p.AntiAffinity) > 0 })
}

// solitary reports whether the pod has no rules about other pods, no volumes and no alternative
// terms.
func (c *checker) solitary(i int) bool {
	p := c.cluster.pods[i]
	return len(p.Spreads)+len(p.Affinity)+len(p.AntiAffinity)+len(p.Volumes)+len(p.AnyOf) == 0
}

// suitable is the variety of the offerings that fit the pod alone.
func (c *checker) suitable(i int, pool cluster.NodePool) variety {
	out := variety{}
	c.onFresh(i, pool, func(at int) { out.note(c.cluster.places[at].labels) })
	return out
}

// onFresh visits the nodes, each as a place of its own, that the pool could launch without quota
// use and that fit the pod alone.
func (c *checker) onFresh(i int, pool cluster.NodePool, visit func(at int)) {
	at, before := len(c.cluster.places), c.cluster.at[i]
	defer func() { c.cluster.places, c.cluster.at[i] = c.cluster.places[:at], before }()
	seen := map[string]bool{}
	for _, t := range c.Types {
		if seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		for _, o := range t.Offerings {
			n, ok := c.sold(t, o, pool)
			if !ok {
				continue
			}
			c.cluster.places = append(c.cluster.places[:at], n)
			c.cluster.at[i] = at
			if c.cluster.unfit(i, at) == "" && c.cluster.crowded(at) == "" {
				c.cluster.at[i] = before
				visit(at)
			}
		}
	}
}

// sold makes the node that an offering becomes in a pool, if the pool allows it. A node with
// several possible values for a label does not count: which value it would have is not certain.
func (c *checker) sold(t offering.InstanceType, o offering.Offering, pool cluster.NodePool) (place, bool) {
	labels := c.labelsOf(t, o, pool)
	for _, r := range pool.Requirements {
		if !satisfies(r, labels[r.Key]) || len(labels[r.Key]) > 1 {
			return place{}, false
		}
	}
	return c.asPlace(t, pool, labels), o.Unavailable == "" && o.Price >= 0 && len(o.QuotaUses) == 0
}

// fullVariety gives pools more kinds of minValues. It has its own random source, so that the
// rest of the script does not change.
func (r *random) fullVariety(seed uint64) {
	own := &random{Rand: rand.New(rand.NewPCG(seed, 0x3a71)), s: r.s}
	for i := range r.s.Pools {
		p := &r.s.Pools[i]
		for own.often(20) {
			p.Requirements = append(p.Requirements, own.variedRule())
		}
	}
}

func (r *random) variedRule() constraint.Rule {
	rule := constraint.Rule{Key: r.oneOf(cluster.LabelInstanceType, cluster.LabelInstanceType, cluster.LabelZone, cluster.LabelCapacityType, "arch", "version", "team"), Operator: constraint.Exists, MinValues: 1 + r.IntN(4)}
	if rule.Key == cluster.LabelZone && r.often(50) {
		rule.Operator, rule.Values = constraint.NotIn, []string{fmt.Sprint(1 + r.IntN(3))}
	}
	return rule
}
