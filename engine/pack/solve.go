package pack

import (
	"maps"

	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// Solve decides which machines to buy for the World's pending pods. It reads
// nothing but w. A pod that cannot be placed is an answer, not an error, so Solve
// has none to return.
func Solve(w *world.World) Plan {
	s := newSolver(w)
	for _, group := range s.byPriority() {
		s.fillHosts(group)
		s.fillLaunches(group)
		for _, tier := range s.tiers() {
			s.buy(tier, group)
		}
	}
	return s.plan()
}

// solver holds what one Solve changes: what is left of everything.
type solver struct {
	w        *world.World
	work     []*work
	free     []quantity.Vector // per w.Hosts
	stalls   []*stall          // per w.Markets
	budgets  map[string]int64
	launches []*launch
	nominees map[int][]world.Ref // by host index
}

// work is a class with the pods still to be placed.
type work struct {
	*world.Class
	placed int
	dims   []int // resources the class asks for
}

func (k *work) left() int { return len(k.Pods) - k.placed }

// take hands out the next n pods.
func (k *work) take(n int) []world.Ref {
	pods := k.Pods[k.placed : k.placed+n]
	k.placed += n
	return pods
}

// stall is a market during one Solve.
type stall struct {
	*world.Market
	left      quantity.Vector // of the pool's limits
	nodesLeft int             // negative means no limit
}

// launch is a machine the plan buys.
type launch struct {
	stall *stall
	row   int
	free  quantity.Vector // what is left of the row's room
	used  quantity.Vector // what pods ask for
	joint joint
	pods  []world.Ref
	// lot is shared by launches that are alike but for the names of their pods, so
	// that they are described once; nil when the launch stands alone.
	lot *lot
}

// lot is the description that alike launches share.
type lot struct{ described *Launch }

func newSolver(w *world.World) *solver {
	s := &solver{w: w, budgets: maps.Clone(w.Budgets), nominees: map[int][]world.Ref{}}
	s.free = make([]quantity.Vector, len(w.Hosts))
	for i, h := range w.Hosts {
		s.free[i] = h.Free
	}
	for _, c := range w.Classes {
		k := &work{Class: c}
		for d, n := range c.Requests {
			if n > 0 {
				k.dims = append(k.dims, d)
			}
		}
		s.work = append(s.work, k)
	}
	for _, m := range w.Markets {
		s.stalls = append(s.stalls, &stall{Market: m, left: m.Left, nodesLeft: m.NodesLeft})
	}
	return s
}

// byPriority groups the classes, urgent ones first: when limits or quota cannot
// serve everyone, what is scarce goes to them.
func (s *solver) byPriority() [][]*work {
	var out [][]*work
	for _, k := range s.work {
		if k.Refused != "" {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].Priority == k.Priority {
			out[n-1] = append(out[n-1], k)
			continue
		}
		out = append(out, []*work{k})
	}
	return out
}

// tiers groups the markets of equal pool weight, heaviest first.
func (s *solver) tiers() [][]*stall {
	var out [][]*stall
	for _, m := range s.stalls {
		if m.Pool.Blocked != "" {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].Pool.Weight == m.Pool.Weight {
			out[n-1] = append(out[n-1], m)
			continue
		}
		out = append(out, []*stall{m})
	}
	return out
}

// fillHosts puts pods on nodes that exist or are on their way.
func (s *solver) fillHosts(group []*work) {
	for _, k := range group {
		for i, h := range s.w.Hosts {
			if k.left() == 0 {
				break
			}
			n := min(k.left(), s.free[i].Fits(&k.Requests))
			if n == 0 || !h.Accepts(k.Shape) {
				continue
			}
			s.free[i] = s.free[i].Sub(k.Requests.Times(n))
			s.nominees[i] = append(s.nominees[i], k.take(n)...)
		}
	}
}

// fillLaunches puts pods into what is already being bought for more urgent ones.
func (s *solver) fillLaunches(group []*work) {
	for _, k := range group {
		for _, l := range s.launches {
			if k.left() == 0 {
				break
			}
			n := min(k.left(), l.free.Fits(&k.Requests))
			if n == 0 {
				continue
			}
			next, ok := l.joint.add(l.stall, l.row, l.stall.Fit(k.Shape, s.w), k)
			if !ok {
				continue
			}
			l.joint, l.lot = next, nil
			l.put(k, n)
		}
	}
}

func (l *launch) put(k *work, n int) {
	ask := k.Requests.Times(n)
	l.free, l.used = l.free.Sub(ask), l.used.Add(ask)
	l.pods = append(l.pods, k.take(n)...)
}

// affordable is how many copies of row the pool's limits and the region's
// budgets still allow.
func (s *solver) affordable(m *stall, row int) int {
	n := int(^uint32(0) >> 1)
	if m.nodesLeft >= 0 {
		n = min(n, m.nodesLeft)
	}
	if !m.withinLimits(row) {
		return 0
	}
	capacity := &m.Catalog.Capacity[m.Catalog.Rows[row].Type]
	for _, d := range m.Limited {
		if capacity[d] > 0 {
			n = min(n, int(min(m.left[d]/capacity[d], 1<<30)))
		}
	}
	for _, d := range m.Catalog.Rows[row].Draws {
		if left, ok := s.budgets[d.Budget]; ok && d.Amount > 0 {
			n = min(n, int(max(0, min(left/d.Amount, 1<<30))))
		}
	}
	return n
}

// withinLimits reports whether one more node of row keeps the pool within its
// limits. A pool that is over a limit buys nothing, even of types without that
// resource: upstream refuses likewise, and an operator who lowered a limit means it.
func (m *stall) withinLimits(row int) bool {
	if m.nodesLeft == 0 {
		return false
	}
	capacity := &m.Catalog.Capacity[m.Catalog.Rows[row].Type]
	for _, d := range m.Limited {
		if m.left[d] < 0 || capacity[d] > m.left[d] {
			return false
		}
	}
	return true
}

// reserve takes one node of row out of limits and budgets.
func (s *solver) reserve(m *stall, row int) {
	if m.nodesLeft > 0 {
		m.nodesLeft--
	}
	m.left = m.left.Sub(m.Catalog.Capacity[m.Catalog.Rows[row].Type])
	for _, d := range m.Catalog.Rows[row].Draws {
		if _, ok := s.budgets[d.Budget]; ok {
			s.budgets[d.Budget] -= d.Amount
		}
	}
}

// drawable reports whether the budgets have room for one of row, given back what
// the chosen row of the same launch has reserved.
func (s *solver) drawable(row *offer.Row, reserved []offer.Draw) bool {
	for _, d := range row.Draws {
		left, ok := s.budgets[d.Budget]
		if !ok {
			continue
		}
		for _, r := range reserved {
			if r.Budget == d.Budget {
				left += r.Amount
			}
		}
		if d.Amount > left {
			return false
		}
	}
	return true
}
