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

// restrictedByPods reports whether other pods decide where the group may go.
func (g *podGroup) restrictedByPods() bool { return len(g.domainKeys) > 0 || g.nodeRules.restricted() }

// explainTopology cuts every offering that is left, each by the rule about other pods that
// excludes it: first the rules over zones and other domains in their order, then those over
// single nodes.
func (e *explainer) explainTopology(fb *funnelBuilder, pool *poolState, g *podGroup) {
	cells := g.cells
	if cells == nil && len(g.domainKeys) > 0 {
		cells = e.cells.find(g)
	}
	for i := range g.domainRules {
		r := &g.domainRules[i]
		domains := g.usableValues(nil, r, cells, g.noneToJoin(e.counters))
		fb.cut(reason.Topology, e.forbidden(pool, g, r, domains), func(bitset.Set) (string, map[string]any) { return r.explain(domains) })
	}
	for _, n := range g.nodeRules.needs {
		if total := e.counters.total(n.counter); total > 0 || !n.selfSelecting {
			fb.cut(reason.Topology, fb.passed, func(bitset.Set) (string, map[string]any) { return explainNeed(total) })
		}
	}
	fb.cut(reason.Topology, fb.passed, func(bitset.Set) (string, map[string]any) { return g.explainRest() })
}

// forbidden returns the offerings in whose cells the rule allows no further pod.
func (e *explainer) forbidden(pool *poolState, g *podGroup, r *domainRule, domains []int) bitset.Set {
	var usable []int
	if r.kind == spreadRule {
		usable = domains
	}
	var out bitset.Set
	for _, c := range pool.Cells(g.domainKeys) {
		if !r.allows(c.Values[r.keyIndex], usable, g.noneToJoin(e.counters)) {
			out.Merge(c.Offerings)
		}
	}
	return out
}

// explain gives the counts as they stand. domains are the values that the group could use at
// all.
func (r *domainRule) explain(domains []int) (string, map[string]any) {
	dc := r.count
	counts := map[string]int64{}
	for v := range dc.countedValues() {
		counts[dc.key.Value(v)] = int64(dc.count(v))
	}
	for v := range dc.domains {
		counts[dc.key.Value(v)] = int64(dc.count(v))
	}
	facts := map[string]any{
		"type": r.kind.String(), "key": dc.key.Name, "counts": counts, "podDomains": valueNames(dc.key, domains), "nodeDomains": valueNames(dc.key, slices.Collect(maps.Keys(dc.domains))),
	}
	detail := fmt.Sprintf("%s over %s", r.kind, dc.key.Name)
	if r.kind == spreadRule {
		facts["maxSkew"], facts["minDomains"], facts["least"] = r.maxSkew, r.minDomains, r.least(domains)
		detail += fmt.Sprintf(", maxSkew %d", r.maxSkew)
	}
	if r.kind == affinityRule && dc.total() == 0 {
		return detail + ": no pod that it must join runs anywhere", facts
	}
	return detail + ": " + reason.FactsOf(map[string]any{"counts": counts}).Text("counts"), facts
}

// valueNames lists values by name, sorted.
func valueNames(k *constraint.Key, values []int) []string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		out = append(out, k.Value(v))
	}
	slices.Sort(out)
	return out
}

// explainNeed is about pods that must join others on one node.
func explainNeed(total int) (string, map[string]any) {
	facts := map[string]any{"type": affinityRule.String(), "key": cluster.LabelHostname, "matching": total}
	if total == 0 {
		return "pod affinity over " + cluster.LabelHostname + ": no pod that it must join runs anywhere", facts
	}
	return "pod affinity over " + cluster.LabelHostname + ": no room beside those to join", facts
}

// explainRest is about offerings that no single rule excludes.
func (g *podGroup) explainRest() (string, map[string]any) {
	if len(g.domainRules) > 0 {
		r := &g.domainRules[0]
		return fmt.Sprintf("%s over %s: the domains that the other pods with the same constraints need are not available", r.kind, r.count.key.Name),
			map[string]any{"type": r.kind.String(), "key": r.count.key.Name}
	}
	return "host ports, hostname spread or anti-affinity leave no node for it", map[string]any{"type": "pods on one node", "key": cluster.LabelHostname}
}
