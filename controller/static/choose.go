package static

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/pack"
	"github.com/karve-dev/karve/engine/world"
)

// mostTypes is how many instance types one claim lists: upstream's MaxInstanceTypes.
const mostTypes = 600

// Decision chooses up to n machines for a static pool: fewer when quota or stock
// does not last. Limits are the caller's business.
type Decision func(w *world.World, pool string, n int) []pack.Launch

// Cheapest takes whatever meets the pool's requirements and has room for its
// DaemonSets, cheapest first, within the budgets of the World.
func Cheapest(w *world.World, pool string, n int) []pack.Launch {
	i := slices.IndexFunc(w.Markets, func(m *world.Market) bool { return m.Pool.Name == pool })
	if i < 0 || w.Markets[i].Pool.Blocked != "" {
		return nil
	}
	m, budgets := w.Markets[i], maps.Clone(w.Budgets)
	var out []pack.Launch
	for range n {
		rows := affordable(m, budgets)
		if len(rows) == 0 {
			return out
		}
		for _, d := range m.Catalog.Rows[rows[0]].Draws {
			if _, ok := budgets[d.Budget]; ok {
				budgets[d.Budget] -= d.Amount
			}
		}
		out = append(out, describe(w, m, rows))
	}
	return out
}

// affordable lists the rows that can be bought now; rows are sorted by price.
func affordable(m *world.Market, budgets map[string]int64) []int {
	var out []int
	types := map[int]bool{}
	for i := range m.Rows.All() {
		r := &m.Catalog.Rows[i]
		short := func(d offer.Draw) bool { left, ok := budgets[d.Budget]; return ok && d.Amount > left }
		if r.Unavailable != "" || !m.Catalog.Room[r.Type].Holds(&m.Daemons[i]) || slices.ContainsFunc(r.Draws, short) {
			continue
		}
		if !types[r.Type] && len(types) == mostTypes {
			continue
		}
		types[r.Type] = true
		out = append(out, i)
	}
	return out
}

func describe(w *world.World, m *world.Market, rows []int) pack.Launch {
	l := pack.Launch{
		Pool: m.Pool.Name, Taints: m.Pool.Taints, Labels: maps.Clone(m.Pool.Labels),
		Daemons: w.Resources.Amounts(m.Daemons[rows[0]]),
	}
	l.Requests = l.Daemons
	chosen := map[string][]string{}
	note := func(key, value string) {
		if !slices.Contains(chosen[key], value) {
			chosen[key] = append(chosen[key], value)
		}
	}
	for _, row := range rows {
		c := m.Catalog.Choice(row)
		l.Choices = append(l.Choices, c)
		note(world.LabelInstanceType, c.Type)
		note(world.LabelZone, c.Zone)
		note(world.LabelCapacityType, c.CapacityType)
	}
	l.Rules = rules(m, chosen)
	l.Labels = labels(l.Labels, l.Rules)
	return l
}

// rules are the pool's requirements with the choices' own values put in. What only
// the pool gives its nodes gets one definite value.
func rules(m *world.Market, chosen map[string][]string) []constraint.Rule {
	var out []constraint.Rule
	for _, q := range m.Base {
		key := q.Key.Name
		switch _, ok := chosen[key]; {
		case ok || key == world.LabelHostname:
		case m.Catalog.Carries(q.Key) || q.AdmitsAbsent():
			out = append(out, q.Rules()...)
		default:
			value, ok := q.Any()
			if !ok {
				value = q.Fresh("true")
			}
			out = append(out, constraint.Rule{Key: key, Operator: constraint.In, Values: []string{value}})
		}
	}
	for key, values := range chosen {
		out = append(out, constraint.Rule{Key: key, Operator: constraint.In, Values: values})
	}
	slices.SortStableFunc(out, func(a, b constraint.Rule) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// labels are what the rules leave no choice about, besides the template's.
func labels(have map[string]string, rules []constraint.Rule) map[string]string {
	if have == nil {
		have = map[string]string{}
	}
	for _, r := range rules {
		if r.Operator == constraint.In && len(r.Values) == 1 {
			have[r.Key] = r.Values[0]
		}
	}
	return have
}
