// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/reason"
)

// apart reports whether other pods decide where the group may go.
func (g *podGroup) apart() bool { return len(g.domainKeys) > 0 || g.nodeRules.restricted() }

// explainTopology cuts every offering that is left, each by the rule about other pods that
// excludes it: first the rules over zones and other domains in their order, then those over
// single nodes.
func (e *explainer) explainTopology(v *funnelBuilder, pool *poolState, g *podGroup) {
	cells := g.cells
	if cells == nil && len(g.domainKeys) > 0 {
		cells = e.cells.find(g)
	}
	for i := range g.domainRules {
		r := &g.domainRules[i]
		domains := usable(cells, r.axis)
		v.cut(reason.Topology, e.forbidden(pool, g, r, domains), func(bitset.Set) (string, map[string]any) { return r.explain(domains) })
	}
	for _, n := range g.nodeRules.needs {
		if total := e.counters.total(n.counter); total > 0 || !n.own {
			v.cut(reason.Topology, v.rows, func(bitset.Set) (string, map[string]any) { return explainNeed(total) })
		}
	}
	v.cut(reason.Topology, v.rows, func(bitset.Set) (string, map[string]any) { return g.explainRest() })
}

// forbidden returns the offerings in whose cells the rule allows no further pod.
func (e *explainer) forbidden(pool *poolState, g *podGroup, r *domainRule, domains []int) bitset.Set {
	var universe []int
	if r.kind == spreads {
		universe = domains
	}
	var out bitset.Set
	for _, c := range pool.Cells(g.domainKeys) {
		if !r.allows(c.Values[r.axis], universe) {
			out.Merge(c.Offerings)
		}
	}
	return out
}

// explain gives the counts as they stand. domains are the values that the group could use at
// all.
func (r *domainRule) explain(domains []int) (string, map[string]any) {
	t := r.count
	counts := map[string]int64{}
	for v := range t.counts {
		counts[t.key.Value(v)] = int64(t.counts[v])
	}
	for v := range t.domains {
		counts[t.key.Value(v)] = int64(t.counts[v])
	}
	facts := map[string]any{
		"type": r.kind.String(), "key": t.key.Name, "counts": counts, "podDomains": named(t.key, domains), "nodeDomains": named(t.key, slices.Collect(maps.Keys(t.domains))),
	}
	detail := fmt.Sprintf("%s over %s", r.kind, t.key.Name)
	if r.kind == spreads {
		facts["maxSkew"], facts["minDomains"], facts["least"] = r.skew, r.minDomains, r.least(domains)
		detail += fmt.Sprintf(", maxSkew %d", r.skew)
	}
	if r.kind == joins && t.total == 0 {
		return detail + ": no pod that it must join runs anywhere", facts
	}
	return detail + ": " + reason.FactsOf(map[string]any{"counts": counts}).Text("counts"), facts
}

// named lists values by name, sorted.
func named(k *constraint.Key, values []int) []string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		out = append(out, k.Value(v))
	}
	slices.Sort(out)
	return out
}

// explainNeed is about pods that must join others on one node.
func explainNeed(total int) (string, map[string]any) {
	facts := map[string]any{"type": joins.String(), "key": cluster.LabelHostname, "matching": total}
	if total == 0 {
		return "pod affinity over " + cluster.LabelHostname + ": no pod that it must join runs anywhere", facts
	}
	return "pod affinity over " + cluster.LabelHostname + ": no room beside those to join", facts
}

// explainRest is about offerings that no single rule excludes.
func (g *podGroup) explainRest() (string, map[string]any) {
	if len(g.domainRules) > 0 {
		r := &g.domainRules[0]
		return fmt.Sprintf("%s over %s: the domains that the other pods of the group need are not available", r.kind, r.count.key.Name),
			map[string]any{"type": r.kind.String(), "key": r.count.key.Name}
	}
	return "host ports, hostname spread or anti-affinity leave no node for it", map[string]any{"type": "pods on one node", "key": cluster.LabelHostname}
}

// String names the kind as Karpenter's messages do.
func (r ruleKind) String() string {
	switch r {
	case avoids:
		return "pod anti-affinity"
	case joins:
		return "pod affinity"
	}
	return "topology spread"
}
