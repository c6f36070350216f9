// SPDX-License-Identifier: Apache-2.0

package schedule

// leadingGroups finds the groups that pods of other groups must join on a node: those with placed pods,
// and those that must join others themselves.
type leadingGroups struct {
	counters  *counters
	byCounter map[int][]*podGroup // those of them that the counter counts
}

// newLeadingGroups finds those of a plan. Before pods are placed, with soon set, each group may lead.
func newLeadingGroups(s *solver, soon bool) leadingGroups {
	needed := map[int]bool{}
	for _, g := range s.podGroups {
		for _, d := range g.nodeRules.needs {
			needed[d.counter] = true
		}
	}
	out := leadingGroups{counters: &s.counters, byCounter: map[int][]*podGroup{}}
	for _, g := range s.podGroups {
		for _, c := range g.nodeRules.increments {
			if needed[c] && (g.placed > 0 || (soon || g.follows()) && !g.excluded()) {
				out.byCounter[c] = append(out.byCounter[c], g)
			}
		}
	}
	return out
}

// of lists the groups that pods of g must join, those first that they must join themselves, and then g;
// nil when there are none.
func (lg *leadingGroups) of(g *podGroup) []*podGroup {
	var out []*podGroup
	leadsItself := false
	visited, expanded := map[*podGroup]bool{}, map[int]bool{}
	var visit func(*podGroup)
	visit = func(h *podGroup) {
		visited[h] = true
		for _, d := range h.nodeRules.needs {
			if expanded[d.counter] {
				continue
			}
			expanded[d.counter] = true
			for _, o := range lg.byCounter[d.counter] {
				leadsItself = leadsItself || o == g && h == g && lg.counters.runs(d.counter) == 0
				if !visited[o] && o.class.Virtual == g.class.Virtual {
					visit(o)
				}
			}
		}
		out = append(out, h)
	}
	visit(g)
	if len(out) == 1 && !leadsItself {
		return nil
	}
	return out
}
