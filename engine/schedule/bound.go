package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// lowerBound sums up, over the weights of pools, the least that the pods of launches at that
// weight can cost there.
func (s *solver) lowerBound() offering.Price {
	var sum float64
	for _, tier := range s.tiers() {
		sum += s.covering(tier)
	}
	// The simplex method rounds; a bound must not be rounded up.
	return offering.Price(math.Floor(min(sum*(1-1e-9)*1e9, math.MaxInt64/2)))
}

// demandGroup is pods that labels and taints admit to the same offerings, and what they ask
// for of the nodes to be launched from one tier.
type demandGroup struct {
	rows   []bitset.Set // by pool of the tier; only those that one of the pods fits on
	demand quantity.Vector
	prices [quantity.Dims]float64
	worth  float64
}

// covering is the larger of two bounds for the launches of a tier. One is the fractional
// covering of all demand together, by as many nodes as the pods limited per node need. The
// other takes into account which offerings each pod may use.
func (s *solver) covering(tier []*poolState) float64 {
	factions := s.demandGroups(tier)
	if len(factions) == 0 {
		return 0
	}
	rows := make([]bitset.Set, len(tier))
	for _, f := range factions {
		for i := range rows {
			rows[i].Merge(f.rows[i])
		}
	}
	var demand quantity.Vector // shared volumes included, each once per node
	for _, l := range s.launches {
		if slices.Contains(tier, l.pool) {
			demand = demand.Add(l.used)
		}
	}
	together, _, _ := shadow(demand, s.machines(tier), shapes(tier, rows, &demand))
	if len(factions) == 1 {
		return together
	}
	return max(together, apart(tier, factions, demand))
}

// apart prices each group's demand by its own covering problem, but never above a group
// before it that may use some of the same offerings. For every offering, the prices of all
// groups that may use it are then at most those of the first of them, and under those no
// content of the offering is worth more than the offering costs. So the prices are a feasible
// solution of the dual, and the worth of the demand under them is a bound.
func apart(tier []*poolState, factions []*demandGroup, demand quantity.Vector) float64 {
	for _, f := range factions {
		_, f.prices, _ = shadow(f.demand, 0, shapes(tier, f.rows, &demand))
		f.worth = worth(&demand, &f.prices)
	}
	slices.SortStableFunc(factions, func(x, y *demandGroup) int { return cmp.Compare(y.worth, x.worth) })
	var sum float64
	for i, f := range factions {
		for _, before := range factions[:i] {
			f.cut(before)
		}
		sum += worth(&f.demand, &f.prices)
	}
	return sum
}

func worth(demand *quantity.Vector, prices *[quantity.Dims]float64) float64 {
	var sum float64
	for d, n := range demand {
		sum += float64(float64(max(0, n)) * prices[d])
	}
	return sum
}

// cut lowers prices that are above those of another group to them, if the groups share
// offerings.
func (f *demandGroup) cut(by *demandGroup) {
	if !f.shares(by) {
		return
	}
	for d := range f.prices {
		f.prices[d] = min(f.prices[d], by.prices[d])
	}
}

// newDemandGroup makes a group without pods.
func newDemandGroup(tier []*poolState) *demandGroup {
	return &demandGroup{rows: make([]bitset.Set, len(tier))}
}

// admit adds the offerings on which pods of the shape fit.
func (f *demandGroup) admit(tier []*poolState, of *cluster.PodShape) {
	for i, m := range tier {
		f.rows[i].Merge(m.Compatible(of).All.And(m.onSale()))
	}
}

func (f *demandGroup) shares(o *demandGroup) bool {
	for i := range f.rows {
		if f.rows[i].Meets(o.rows[i]) {
			return true
		}
	}
	return false
}

// demandGroups groups the pods of launches by the offerings that they may use. It ignores
// preferences: they add cost, but do not exclude offerings.
func (s *solver) demandGroups(tier []*poolState) []*demandGroup {
	by, seen := map[string]*demandGroup{}, map[*cluster.PodShape]bool{}
	var out []*demandGroup
	for _, k := range s.podGroups {
		of := k.PodClass.PodShape
		n := 0
		for _, m := range tier {
			n += m.pods[of]
		}
		if n == 0 || seen[of] {
			continue
		}
		seen[of] = true
		s.key = s.key[:0]
		for _, m := range tier {
			s.key = append(m.Admitting(of).And(m.onSale()).Append(s.key), '|')
		}
		f := by[string(s.key)]
		if f == nil {
			f = newDemandGroup(tier)
			by[string(s.key)], out = f, append(out, f)
		}
		f.demand = f.demand.Add(of.Requests.Times(n))
		f.admit(tier, of)
	}
	return out
}

// machines is how many nodes of the tier the pods limited per node need at least.
func (s *solver) machines(tier []*poolState) int {
	n := 0
	for c := range s.counters.all {
		var sum apartness
		for _, m := range tier {
			if a := m.crowded[c]; a.pods > 0 {
				sum.pods, sum.most = sum.pods+a.pods, max(sum.most, a.most)
			}
		}
		if sum.pods > 0 {
			n = max(n, (sum.pods+sum.most-1)/max(1, sum.most))
		}
	}
	return n
}

// shapes lists the offerings of a tier's pools as covering shapes. Capacity beyond all of the
// demand is left out: nodes are whole, so the bound stays a bound, and numbers that stand for
// "no limit" would swamp the others.
func shapes(tier []*poolState, rows []bitset.Set, demand *quantity.Vector) []shape {
	var out []shape
	for i, m := range tier {
		out = append(out, m.distinctShapes(rows[i], demand)...)
	}
	return out
}

// distinctShapes leaves out offerings of an instance type that is listed at a lower price
// already.
func (m *poolState) distinctShapes(rows bitset.Set, demand *quantity.Vector) []shape {
	var out []shape
	at := make([]int, len(m.Catalog.Types)) // one more than the index in out
	for row := range rows.All() {
		room := capped(m.Allocatable[row], demand)
		t := m.Catalog.Offerings[row].Type
		if at[t] > 0 && out[at[t]-1].room == room {
			continue
		}
		out = append(out, shape{room, m.Catalog.Offerings[row].Price.USD()})
		at[t] = len(out)
	}
	return out
}

// capped limits room to the demand.
func capped(room quantity.Vector, demand *quantity.Vector) quantity.Vector {
	for d, n := range demand {
		room[d] = min(room[d], n)
	}
	return room
}

// shape is one node as the covering problem sees it.
type shape struct {
	room  quantity.Vector
	price float64 // per hour, any unit
}

// shadow solves the fractional covering problem: launch any fractions of shapes so that their
// capacities add up to demand and the fractions to a number of nodes, at the least cost. It
// returns that cost, a lower bound for any real plan, and the shadow prices of one base unit
// of each resource and of one node. The planner is steered by these prices.
//
// It solves the dual linear program, max Σ demand·λ + machines·μ so that room·λ + μ ≤
// price for every shape and λ, μ ≥ 0, by the simplex method in dictionary form with
// Bland's rule (Chvátal, Linear Programming, chapters 2 and 3). The slack basis is
// feasible as prices are not negative. Every product is rounded before it is added, so
// that no CPU may fuse the two operations and compute a different result.
func shadow(demand quantity.Vector, machines int, shapes []shape) (cost float64, lambda [quantity.Dims]float64, mu float64) {
	var dims []int
	for d, n := range demand {
		if n > 0 {
			dims = append(dims, d)
		}
	}
	if len(dims) == 0 || len(shapes) == 0 {
		return 0, lambda, 0
	}
	t := newTableau(demand, machines, shapes, dims)
	if !t.solve() {
		return 0, lambda, 0 // no shape offers some resource: no bound
	}
	for row, v := range t.basic {
		switch {
		case v < len(dims):
			d := dims[v]
			lambda[d] = t.rhs[row] / float64(demand[d])
		case v == len(dims):
			mu = t.rhs[row] / float64(max(1, machines))
		}
	}
	return t.value, lambda, mu
}

// tableau is a simplex dictionary: each basic variable is rhs minus a combination of the free
// ones. Variables below the number of dims are the (scaled) shadow prices of resources, the
// next one is that of nodes, the others are the slacks of shapes.
type tableau struct {
	basic, free []int
	a           [][]float64 // [basic][free]
	rhs         []float64
	gain        []float64 // of the objective, per free variable
	value       float64
}

// newTableau scales each λ by the demand, so that every gain starts as 1.
func newTableau(demand quantity.Vector, machines int, shapes []shape, dims []int) *tableau {
	t := &tableau{}
	width := len(dims)
	if machines > 0 {
		width++
	}
	for i := range width {
		t.free = append(t.free, i)
		t.gain = append(t.gain, 1)
	}
	cells := make([]float64, len(shapes)*width)
	for i, s := range shapes {
		row := cells[i*width : (i+1)*width]
		for j, d := range dims {
			row[j] = float64(max(0, s.room[d])) / float64(demand[d])
		}
		if machines > 0 {
			row[len(dims)] = 1 / float64(machines)
		}
		t.basic = append(t.basic, len(dims)+1+i)
		t.a = append(t.a, row)
		t.rhs = append(t.rhs, s.price)
	}
	return t
}

const tiny = 1e-12

// solve pivots to the optimum; false means that it is unbounded.
func (t *tableau) solve() bool {
	for {
		col := t.entering()
		if col < 0 {
			return true
		}
		row := t.leaving(col)
		if row < 0 {
			return false
		}
		t.pivot(row, col)
	}
}

// entering picks the free variable of the lowest number that still gains: with
// the same rule in leaving no cycle is possible.
func (t *tableau) entering() int {
	best := -1
	for j, g := range t.gain {
		if g > tiny && (best < 0 || t.free[j] < t.free[best]) {
			best = j
		}
	}
	return best
}

func (t *tableau) leaving(col int) int {
	best, least := -1, math.Inf(1)
	for i := range t.a {
		if t.a[i][col] <= tiny {
			continue
		}
		ratio := t.rhs[i] / t.a[i][col]
		if ratio < least || ratio == least && t.basic[i] < t.basic[best] {
			best, least = i, ratio
		}
	}
	return best
}

func (t *tableau) pivot(row, col int) {
	p := t.a[row][col]
	for j := range t.a[row] {
		t.a[row][j] /= p
	}
	t.a[row][col] = 1 / p
	t.rhs[row] /= p
	for i := range t.a {
		if i == row || t.a[i][col] == 0 {
			continue
		}
		f := t.a[i][col]
		for j := range t.a[i] {
			t.a[i][j] -= float64(f * t.a[row][j])
		}
		t.a[i][col] = -f / p
		t.rhs[i] = math.Max(0, t.rhs[i]-float64(f*t.rhs[row]))
	}
	g := t.gain[col]
	for j := range t.gain {
		t.gain[j] -= float64(g * t.a[row][j])
	}
	t.gain[col] = -g / p
	t.value += float64(g * t.rhs[row])
	t.basic[row], t.free[col] = t.free[col], t.basic[row]
}
