// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// placement is where some pods of one group will be: on an existing node, or on a launch.
type placement struct {
	group  *podGroup
	launch *launch // nil for an existing node
	node   int     // index, when launch is nil
	count  int
}

// placements records where the attempt puts pods, if a preference audit or the search for an order of
// binding may read it.
type placements struct {
	enabled bool
	all     []placement
	onNodes []placement // those of all on existing nodes
}

func (p *placements) record(at placement) {
	if !p.enabled {
		return
	}
	p.all = append(p.all, at)
	if at.launch == nil {
		p.onNodes = append(p.onNodes, at)
	}
}

// holdFirst reports whether pods of the group are on some existing node without planned pods that the
// counter counts and that need not join others.
func (p *placements) holdFirst(g *podGroup, counter int) bool {
	nodes := map[int]bool{}
	for _, at := range p.onNodes {
		if at.group == g {
			nodes[at.node] = true
		}
	}
	for _, at := range p.onNodes {
		if !at.group.follows() && slices.Contains(at.group.nodeRules.increments, counter) {
			delete(nodes, at.node)
		}
	}
	return len(nodes) > 0
}

// mayBeOutrun reports whether a required term of the group's pod affinity selects its own pods: one of them
// may be the first that it finds anywhere.
func mayBeOutrun(g *podGroup) bool {
	return g.joinsItself() || slices.ContainsFunc(g.domainRules, domainRule.joinsItself)
}

// outrun reports whether pods of the group are on launches as the first that some term of theirs over a
// domain selects, while others that it selects go to existing nodes in other domains: those are bound
// before the launches are there.
func (p *placements) outrun(g *podGroup, snapshot *cluster.Snapshot) bool {
	return slices.ContainsFunc(g.domainRules, func(r domainRule) bool {
		if !r.joinsItself() {
			return false
		}
		before := p.domainsOfEarlier(g, &r, snapshot)
		if len(before) == 0 || !p.launchesElsewhere(g, &r, before) {
			return false
		}
		_, running := r.count.countPods(snapshot)
		return running == 0
	})
}

// domainsOfEarlier are the domains of the existing nodes that get pods which the group's affinity selects,
// and which join no others.
func (p *placements) domainsOfEarlier(g *podGroup, r *domainRule, snapshot *cluster.Snapshot) []int {
	var out []int
	for _, at := range p.onNodes {
		if at.group == g || at.group.hasAffinity() || !r.count.of.includes(at.group.class) {
			continue
		}
		node := snapshot.Nodes[at.node]
		if v, ok := node.Value(r.count.key); ok && r.count.passes(node) {
			out = append(out, v)
		}
	}
	return out
}

// launchesElsewhere reports whether pods of the group are on a launch in none of the domains.
func (p *placements) launchesElsewhere(g *podGroup, r *domainRule, domains []int) bool {
	return slices.ContainsFunc(p.all, func(at placement) bool {
		return at.launch != nil && at.group == g && slices.ContainsFunc(at.launch.content, func(part portion) bool {
			c := part.allotment.cell
			return part.allotment.group == g && c != nil && !c.open && !slices.Contains(domains, c.Values[r.keyIndex])
		})
	})
}
