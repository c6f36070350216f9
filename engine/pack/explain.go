package pack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/world"
)

// unplaced says why the rest of a class has no home.
func (s *solver) unplaced(k *work) Unplaced {
	u := Unplaced{Pods: k.Pods[k.placed:], Because: k.Refused, Detail: k.Detail}
	if k.Refused != "" {
		return u
	}
	if len(s.stalls) == 0 {
		u.Because, u.Detail = reason.NoPools, "there is no NodePool to buy from"
		return u
	}
	best := -1
	if s.lessons.hopeless[k.Class] {
		u.Detail = "places that the other pods need are not to be had, so none of them can be placed"
	}
	for _, m := range s.stalls {
		f := s.funnel(m, k)
		u.Funnels = append(u.Funnels, f)
		if rank := furthest(f); rank > best {
			best, u.Because = rank, because(f)
		}
	}
	return u
}

func because(f reason.Funnel) reason.Reason {
	if cut, ok := f.Last(); ok {
		return cut.By
	}
	return f.Blocked
}

// furthest ranks a funnel by how late its last candidate fell out: the pool that
// came closest explains the pod best.
func furthest(f reason.Funnel) int {
	for i, r := range []reason.Reason{reason.Static, reason.PoolNotReady, reason.Unsupported, reason.NoOffers, reason.Taints, reason.Requirements, reason.Resources, reason.Volumes, reason.Limits, reason.Quota, reason.Availability, reason.Topology} {
		if because(f) == r {
			return i
		}
	}
	return 0
}

// funnel follows one pool's offers through the filters, as things stand at the
// end of the decision.
func (s *solver) funnel(m *stall, k *work) reason.Funnel {
	f := reason.Funnel{Pool: m.Pool.Name, Offers: len(m.Catalog.Rows), Blocked: m.Pool.Blocked, Detail: m.Pool.BlockedDetail}
	if f.Blocked == "" && m.Pool.Static {
		f.Blocked, f.Detail = reason.Static, "the pool keeps a fixed number of nodes"
	}
	if f.Blocked == "" && f.Offers == 0 {
		f.Blocked, f.Detail = reason.NoOffers, fmt.Sprintf("nothing is on sale for node class %q", m.Pool.Class)
	}
	if f.Blocked != "" {
		return f
	}
	fit := m.Fit(k.Shape, s.w)
	f.Cuts = append(f.Cuts, fit.Cuts...)
	rows := fit.All
	rows = s.sift(&f, rows, reason.Limits, m.withinLimits, func() string { return m.explainLimits(s.w) })
	rows = s.sift(&f, rows, reason.Quota, func(row int) bool { return s.drawable(&m.Catalog.Rows[row], nil) }, func() string { return s.explainQuota(m, fit.All) })
	rows = s.sift(&f, rows, reason.Availability, func(row int) bool { return m.Catalog.Rows[row].Unavailable == "" }, func() string { return m.explainAvailability(fit.All) })
	if k.apart() {
		s.sift(&f, rows, reason.Topology, func(int) bool { return false }, func() string { return s.explainTopology(k) })
	}
	return f
}

// apart reports whether neighbours decide where the class may go.
func (k *work) apart() bool { return len(k.keys) > 0 || k.local.restricted() }

// explainTopology names the constraints over which the class found no place, with
// the counts as they stand, in the words that runbooks search for.
func (s *solver) explainTopology(k *work) string {
	var parts []string
	for i := range k.rules {
		r := &k.rules[i]
		parts = append(parts, fmt.Sprintf("unsatisfiable topology constraint for %s, key=%s (counts = %s)", r.kind, r.tally.key.Name, r.tally))
	}
	for _, n := range k.local.needs {
		if s.counters.all[n.counter].total == 0 {
			parts = append(parts, "unsatisfiable topology constraint for pod affinity, key="+world.LabelHostname+" (nobody to join runs anywhere)")
		} else {
			parts = append(parts, "unsatisfiable topology constraint for pod affinity, key="+world.LabelHostname+" (no room beside those to join)")
		}
	}
	if len(parts) == 0 {
		return "unsatisfiable topology constraint on one machine: host ports, hostname spread or anti-affinity"
	}
	return strings.Join(parts, "; ")
}

// String names the kind as upstream's messages do.
func (r ruleKind) String() string {
	switch r {
	case avoids:
		return "pod anti-affinity"
	case joins:
		return "pod affinity"
	}
	return "topology spread"
}

// String lists the counts by value, sorted.
func (t *tally) String() string {
	ids := map[int]bool{}
	for v := range t.counts {
		ids[v] = true
	}
	for v := range t.domains {
		ids[v] = true
	}
	var parts []string
	for v := range ids {
		parts = append(parts, fmt.Sprintf("%s:%d", t.key.Value(v), t.counts[v]))
	}
	slices.Sort(parts)
	return "[" + strings.Join(parts, " ") + "]"
}

// sift drops the rows that do not pass and notes how many they were.
func (s *solver) sift(f *reason.Funnel, rows bitset.Set, by reason.Reason, pass func(int) bool, detail func() string) bitset.Set {
	kept := rows.Clone()
	for row := range rows.All() {
		if !pass(row) {
			kept.Drop(row)
		}
	}
	if removed := rows.Len() - kept.Len(); removed > 0 {
		f.Cuts = append(f.Cuts, reason.Cut{By: by, Removed: removed, Detail: detail()})
	}
	return kept
}

// explainLimits names the limit that is closest to being used up.
func (m *stall) explainLimits(w *world.World) string {
	if m.nodesLeft == 0 {
		return fmt.Sprintf("limits.nodes of %d is reached", m.Pool.Limits[quantity.NameNodes])
	}
	worst, least := "", 2.0
	for _, d := range m.Limited {
		name := w.Resources.Name(d)
		limit := m.Pool.Limits[name]
		share := float64(m.left[d]) / float64(max(1, limit))
		if share < least {
			least = share
			worst = fmt.Sprintf("limits.%s is %s, %s of it left", name, quantity.Format(name, limit), quantity.Format(name, max(0, m.left[d])))
		}
	}
	return worst
}

// explainQuota names the budget that most rows need more of.
func (s *solver) explainQuota(m *stall, rows bitset.Set) string {
	short := map[string]int{}
	for row := range rows.All() {
		for _, d := range m.Catalog.Rows[row].Draws {
			if left, ok := s.budgets[d.Budget]; ok && d.Amount > left {
				short[d.Budget]++
			}
		}
	}
	worst := ""
	for name, n := range short {
		if worst == "" || n > short[worst] || n == short[worst] && name < worst {
			worst = name
		}
	}
	if worst == "" {
		return ""
	}
	return fmt.Sprintf("quota %s has %d left", worst, max(0, s.budgets[worst]))
}

// explainAvailability quotes the first reason given.
func (m *stall) explainAvailability(rows bitset.Set) string {
	for row := range rows.All() {
		if r := m.Catalog.Rows[row]; r.Unavailable != "" {
			return fmt.Sprintf("%s in %s (%s): %s", m.Catalog.Types[r.Type].Name, r.Zone, r.CapacityType, r.Unavailable)
		}
	}
	return ""
}
