package pack

import (
	"maps"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// Solve decides which machines to buy for the World's pending pods. It reads
// nothing but w. A pod that cannot be placed is an answer, not an error, so Solve
// has none to return.
//
// Pods that are constrained over zones and the like are assigned to them before
// machines are chosen. Where limits or quota then leave some of them out, the
// counts the others were placed by do not come true: Solve remembers how many
// each place really took and begins again.
//
// Virtual pods are seen by no other, so all others have their places before.
//
// What pods merely prefer is honoured as far as the World's Settings say: see bargain.
func Solve(w *world.World) Plan {
	b := newBargain(w)
	plain := b.attempt(nil, noPurse)
	if len(b.items) == 0 {
		return plain.plan()
	}
	return b.strike(plain)
}

// lessons are what attempts at one plan taught.
type lessons struct {
	caps     map[lesson]int
	hopeless map[*world.Class]bool
	// plain are classes that had better insist on nothing they merely prefer.
	plain map[*world.Class]bool
	// phantoms are domains that an attempt opened for others: they count for a
	// spread although its own pods could not have opened them.
	phantoms map[tallyKey][]int
	// thin are the markets of which launches have lost variety; see dilute.
	thin map[*world.Market]*dilution
}

// lesson names a class, what its pods insisted on, and a cell.
type lesson struct {
	class        *world.Class
	stance, cell string
}

// patience is how many attempts may teach where room ends. After that, classes
// that do not find all of theirs are left to secondLook.
const patience = 6

// learn notes which assignments did not come true; false when all that matter did.
func (l *lessons) learn(s *solver, round int) bool {
	again := false
	for _, p := range s.parts {
		if p.cell == nil || p.left()+p.short == 0 || l.hopeless[p.Class] {
			continue
		}
		key := lesson{p.Class, p.stance.name(), p.cell.name}
		if round >= patience {
			again = l.despair(p) || again
			continue
		}
		if had, ok := l.caps[key]; !ok || p.placed < had {
			l.caps[key], again = p.placed, true
		}
	}
	return s.haunt(l, round) || again
}

// despair leaves the part's class out, or what it prefers when that may be why;
// false when that was done already.
func (l *lessons) despair(p *part) bool {
	if !p.stance.firm() {
		l.hopeless[p.Class] = true
		return true
	}
	had := l.plain[p.Class]
	l.plain[p.Class] = true
	return !had
}

// haunt notes the domains that launches opened and some spread did not reckon
// with; false when there are none.
func (s *solver) haunt(l *lessons, round int) bool {
	found := false
	clear(s.reached)
	s.lineup = s.lineUp()
	defer func() { s.lineup = nil }()
	for _, m := range s.stalls {
		m.known = nil
	}
	for _, k := range s.work {
		for i := range k.rules {
			r := &k.rules[i]
			if r.kind != spreads || r.soft || k.placed == 0 {
				continue
			}
			known := usable(k.cells, r.axis)
			key := tallyKey{r.tally.key, r.tally.of, r.tally.filter}
			for _, v := range s.opened(r.tally) {
				if r.tally.domains[v] || slices.Contains(r.tally.opened, v) || slices.Contains(known, v) || slices.Contains(l.phantoms[key], v) {
					continue
				}
				found = true
				if round >= patience {
					l.hopeless[k.Class] = true
					break
				}
				l.phantoms[key] = append(l.phantoms[key], v)
			}
		}
	}
	return found
}

// counting are the rows of the market whose nodes the tally's filter looks at.
func (s *solver) counting(t *tally, m *stall) bitset.Set {
	if !t.filter.tolerates(m.Pool.Taints) {
		return nil
	}
	if t.filter.affinity != nil {
		return m.Meeting(t.filter.affinity)
	}
	return m.Rows
}

// opened lists the values of the tally's label that nodes to be launched have,
// as far as they count for it.
func (s *solver) opened(t *tally) []int {
	if out, ok := s.reached[t]; ok {
		return out
	}
	bought := s.lineup
	if bought == nil {
		bought = s.lineUp()
	}
	var out []int
	for _, m := range s.stalls {
		set := bought.rows[m].And(s.counting(t, m))
		for _, c := range m.Cells([]*constraint.Key{t.key}) {
			if v := c.Values[0]; v >= 0 && c.Rows.Meets(set) && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	for _, v := range insisted(bought.launches, t.key) {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	s.reached[t] = out
	return out
}

// lineup is what there is of different kinds among the launches.
type lineup struct {
	rows     map[*stall]bitset.Set
	launches []*launch // one of each joint
}

func (s *solver) lineUp() *lineup {
	d := &lineup{rows: map[*stall]bitset.Set{}}
	seen := map[*joint]bool{}
	for _, l := range s.launches {
		if !d.rows[l.stall].Has(l.row) {
			set := d.rows[l.stall]
			set.Put(l.row)
			d.rows[l.stall] = set
		}
		if !seen[l.joint] {
			seen[l.joint] = true
			d.launches = append(d.launches, l)
		}
	}
	return d
}

// insisted lists the values that pods ask for of a label that only pools give and
// leave open: cells know one value of such a label, nodes may have any.
func insisted(launches []*launch, k *constraint.Key) []int {
	var out []int
	for _, l := range launches {
		if l.stall.Catalog.Carries(k) {
			continue
		}
		q, ok := l.joint.set.Get(k)
		if !ok {
			continue
		}
		values, _ := q.Values()
		for _, v := range values {
			out = append(out, k.ID(v))
		}
	}
	return out
}

// solver holds what one attempt changes: what is left of everything.
type solver struct {
	w         *world.World
	lessons   *lessons
	work      []*work
	parts     []*part
	used      map[int]*quantity.Vector      // room left, by host that pods were promised
	indexed   map[*world.Index]*world.Rooms // the same, as copies of the World's indexes; see rooms
	many      bool                          // pods to be placed
	mounts    map[int]map[world.Mount]bool
	stalls    []*stall // per w.Markets
	budgets   map[string]int64
	launches  []*launch
	purchased []Launch            // see purchases
	nominees  map[int][]world.Ref // by host index
	// spent is what the launches cost as planned. An attempt that would spend more
	// than its purse is broke: it stops buying and comes to nothing.
	spent, purse offer.Price
	broke        bool
	bargain      *bargain
	deal         deal
	homes        []home

	counters   counters
	tallies    map[tallyKey]*tally
	tallyOrder []*tally
	fits       map[fitKey]*world.Fit
	joints     map[step]*joint
	interned   map[string][]*joint
	reached    map[*tally][]int   // see opened
	lineup     *lineup            // while launches stay as they are
	sales      map[saleKey][]cell // see onSale
	freed      bool               // machines were given back, with the limits and quota that they took
	confined   bool               // nothing is bought where a spread does not reckon with it
	draws      map[string]int64   // see largestDraw
	sieves     map[nodeFilter]*sieve
	lookedAt   map[throughKey][]bitset.Set // see through
	labels     map[describedKey]*described
	rivals     map[runnersUpKey][]RunnerUp // see runnersUp
	numbers    map[*world.Shape]int        // see number

	key     []byte     // scratch: of a set of rows
	rows    bitset.Set // scratch: see choices
	held    bitset.Set // scratch: the rows that hold a launch's pods
	company []int      // scratch: the shapes on a launch

	orders   int          // changes of limits and quota so far
	relaxing bool         // what is bought may have less variety than minValues ask for
	kept     bitset.Set   // scratch: see holding
	spare    bitset.Set   // scratch: see choices
	seen     []bitset.Set // scratch: see values
	had      []int        // scratch: see values
}

// work is a class with the pods still to be placed. Pods that no longer insist on
// what others of their class still do are work of their own.
type work struct {
	*world.Class
	*world.Shape             // the class's, narrowed by what the stance insists on
	Pods         []world.Ref // of the class, as far as this work is about them
	stance       stance
	placed       int
	promised     int // pods in parts that are to be bought for
	local        local
	keys         []*constraint.Key // labels but the hostname over which places differ for it
	rules        []domainRule
	bumps        []bump
	sieves       []*sieve
	cells        []*cell
}

// left is how many pods have no place yet, not even an intended one.
func (k *work) left() int { return len(k.Pods) - k.placed - k.promised }

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
	bought    bitset.Set      // rows of which a machine is being bought
	// pods counts those that are bought room for, by shape, and crowded those of them
	// that keep apart, by counter: see lowerBound.
	pods    map[*world.Shape]int
	crowded map[int]apartness
	base    *joint
	known   bitset.Set             // see known
	sale    bitset.Set             // see onSale
	scarce  bitset.Set             // see scarce
	bySize  map[quantity.Dim][]int // see descending
	haggle  *haggle                // nil without minValues
}

// launch is a machine the plan buys.
type launch struct {
	stall *stall
	row   int
	free  quantity.Vector // what is left of the row's room
	used  quantity.Vector // what pods ask for
	joint *joint
	pods  []world.Ref
	loads []load  // the same pods, in order
	kinds []*work // that pods are of, each once
	first int     // the row of the first choice, once described

	counts map[int]int // counters above zero
	mounts map[world.Mount]bool
	// least is the variety it must keep, and claim what it takes of its pool's limits; nil without minValues.
	least []int
	claim *quantity.Vector
}

func newWork(c *world.Class, pods []world.Ref, t stance) *work {
	return &work{Class: c, Shape: c.Insisting(t.terms, t.offTaints), Pods: pods, stance: t}
}

func newSolver(b *bargain, l *lessons, d deal, purse offer.Price) *solver {
	w := b.w
	s := &solver{bargain: b, deal: d, w: w, lessons: l, purse: purse, budgets: maps.Clone(w.Budgets), nominees: map[int][]world.Ref{}, mounts: map[int]map[world.Mount]bool{},
		fits: map[fitKey]*world.Fit{}, joints: map[step]*joint{}, interned: map[string][]*joint{}, reached: map[*tally][]int{}, sales: map[saleKey][]cell{},
		draws: map[string]int64{}, sieves: map[nodeFilter]*sieve{}, lookedAt: map[throughKey][]bitset.Set{}, labels: map[describedKey]*described{},
		rivals: map[runnersUpKey][]RunnerUp{}, numbers: map[*world.Shape]int{}}
	s.used, s.indexed, s.many = map[int]*quantity.Vector{}, map[*world.Index]*world.Rooms{}, w.Pending() > few
	for _, c := range w.Classes {
		var t stance
		if honour := d[c]; len(honour) > 0 && !l.plain[c] && !l.hopeless[c] {
			t = b.stance(c, honour)
		}
		s.work = append(s.work, newWork(c, c.Pods, t))
	}
	for _, m := range w.Markets {
		s.stalls = append(s.stalls, &stall{Market: m, left: m.Left, nodesLeft: m.NodesLeft, base: s.intern(m.Base, m.Rows), pods: map[*world.Shape]int{}, crowded: map[int]apartness{}})
		s.stalls[len(s.stalls)-1].haggle = s.haggle(s.stalls[len(s.stalls)-1])
	}
	s.localRules()
	s.domainRules()
	return s
}

// run finds homes for all virtual pods, or for all others; false when there are none.
func (s *solver) run(virtual bool) bool {
	groups := slices.DeleteFunc(s.byPriority(), func(g []*work) bool { return g[0].Virtual != virtual })
	s.runAll(groups)
	return len(groups) > 0
}

func (s *solver) runAll(groups [][]*work) {
	for i, group := range groups {
		groups[i] = s.place(group)
	}
	// Urgent pods may have to join pods that are less urgent.
	for {
		var late []*work
		before := 0
		for _, group := range groups {
			for _, k := range group {
				if k.left() > 0 && k.follows() {
					late, before = append(late, k), before+k.placed
				}
			}
		}
		s.place(late)
		for _, k := range late {
			before -= k.placed
		}
		if before == 0 {
			return
		}
	}
}

// place finds homes for a group: on hosts, in what is being bought, and in what is
// bought for it. Pods that find none give up what they merely prefer, one thing at
// a time. It returns the group with the work that this made.
func (s *solver) place(group []*work) []*work {
	var all []*work
	for len(group) > 0 {
		parts, met := s.assign(group)
		all = append(all, met...)
		s.parts = append(s.parts, parts...)
		s.buyAll(parts)
		s.fillLaunches(parts)
		s.comeBack(parts)
		group = s.unhoused(parts)
	}
	return all
}

// buyAll puts pods into what is being bought, and buys more for the others.
func (s *solver) buyAll(parts []*part) {
	s.fillLaunches(parts)
	for _, tier := range s.tiers() {
		s.buyFrom(tier, parts)
	}
}

// comeBack looks at the hosts again for pods that must join others there: those
// may have come after them.
func (s *solver) comeBack(parts []*part) {
	for _, p := range parts {
		n := p.left()
		if n == 0 || p.cell != nil || len(p.local.needs) == 0 {
			continue
		}
		p.want, p.promised = p.want-n, p.promised-n
		s.fillHosts(p.work)
		p.want, p.promised = p.want+p.work.left(), p.promised+p.work.left()
	}
}

// byPriority groups the classes, urgent ones first: when limits or quota cannot
// serve everyone, what is scarce goes to them.
func (s *solver) byPriority() [][]*work {
	var out [][]*work
	for _, k := range s.work {
		if k.Class.Refused != "" || s.lessons.hopeless[k.Class] {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].Priority == k.Priority && out[n-1][0].Virtual == k.Virtual {
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
		if m.Pool.Blocked != "" || m.Pool.Static {
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

// fillLaunches puts pods into what is being bought already.
func (s *solver) fillLaunches(parts []*part) {
	for _, p := range parts {
		for _, l := range s.launches {
			if p.left() == 0 {
				break
			}
			n := min(p.left(), l.takes(s, p.work))
			if n == 0 {
				continue
			}
			next, ok := s.join(l.joint, l.stall, l.row, s.fit(l.stall, p), p)
			if !ok {
				continue
			}
			if n = l.diverse(s, next, p.work, n); n > 0 {
				l.joint = next
				l.put(s, p, n)
			}
		}
	}
}

// takes is how many pods of the class the launch has room for.
func (l *launch) takes(s *solver, k *work) int {
	n := k.fits(&l.free)
	if n > 0 && k.evens() {
		for _, o := range l.kinds {
			n = min(n, k.ahead(o, func(c int) int { return l.counts[c] }))
		}
	}
	if n == 0 || !k.local.restricted() {
		return n
	}
	n = min(n, k.local.room(s.counters.all, func(c int) int { return l.counts[c] }))
	if n > 0 && len(k.local.mounts) > 0 {
		left, ok := mounted(l.free, k.local.mounts, func(m world.Mount) bool { return l.mounts[m] })
		if !ok {
			return 0
		}
		n = min(n, k.fits(&left))
	}
	return n
}

// note counts pods that the market's machines are bought for.
func (m *stall) note(k *work, n int) {
	m.pods[k.Class.Shape] += n
	for _, c := range k.local.caps {
		if c.own {
			a := m.crowded[c.counter]
			m.crowded[c.counter] = apartness{pods: a.pods + n, most: max(a.most, c.most)}
		}
	}
}

func (l *launch) put(s *solver, p *part, n int) {
	for _, c := range p.local.bumps {
		s.counters.all[c].total += n
	}
	p.placed += n
	p.work.promised -= n
	l.stall.note(p.work, n)
	s.house(home{work: p.work, launch: l, pods: n})
	l.hold(p, p.take(n))
}

// hold takes the pods in.
func (l *launch) hold(p *part, pods []world.Ref) {
	n := len(pods)
	for _, d := range p.Dims {
		l.free[d] -= int64(n) * p.Requests[d]
		l.used[d] += int64(n) * p.Requests[d]
	}
	for _, m := range p.local.mounts {
		if l.mounts[m] {
			continue
		}
		if l.mounts == nil {
			l.mounts = map[world.Mount]bool{}
		}
		l.mounts[m] = true
		l.free[m.Dim]--
		l.used[m.Dim]++
	}
	for _, c := range p.local.bumps {
		if l.counts == nil {
			l.counts = map[int]int{}
		}
		l.counts[c] += n
	}
	if !slices.Contains(l.kinds, p.work) {
		l.kinds = append(l.kinds, p.work)
	}
	l.loads = append(l.loads, load{p, n})
	if l.pods == nil {
		l.pods = pods[:len(pods):len(pods)]
		return
	}
	l.pods = append(l.pods, pods...)
}

// fits is Vector.Fits looking only at the resources the class asks for.
func (k *work) fits(room *quantity.Vector) int {
	most := int64(math.MaxInt32)
	for _, d := range k.Dims {
		if room[d] < k.Requests[d] {
			return 0
		}
		most = min(most, room[d]/k.Requests[d])
	}
	return int(max(0, most))
}

// fitKey names what a shape can use of a market within a cell.
type fitKey struct {
	market *world.Market
	shape  *world.Shape
	cell   string
}

// fit is Market.Fit narrowed to the part's cell.
func (s *solver) fit(m *stall, p *part) *world.Fit {
	whole := m.Fit(p.Shape, s.w)
	if p.cell == nil {
		return whole
	}
	key, fits := fitKey{m.Market, p.Shape, p.cell.key}, s.fits
	if len(p.sieves) == 0 {
		fits = s.bargain.fits
	}
	if f := fits[key]; f != nil {
		return f
	}
	var here bitset.Set
	for _, c := range m.Cells(p.cell.Keys) {
		if !equal(c.Values, p.cell.Values) {
			continue
		}
		for _, at := range s.sides(p.work, m, c.Rows) {
			if at.name == p.cell.side {
				here = at.rows
			}
		}
	}
	f := &world.Fit{All: whole.All.And(here), Shut: whole.Shut}
	for i := range whole.Rows {
		f.Rows = append(f.Rows, whole.Rows[i].And(here))
		f.Admitted = append(f.Admitted, whole.Admitted[i].And(here))
	}
	fits[key] = f
	return f
}

func equal(a, b []int) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// affordable is how many copies of row the pool's limits and the region's
// budgets still allow.
func (s *solver) affordable(m *stall, row int) int {
	n := s.payable(m.Catalog.Rows[row].Price)
	if m.nodesLeft >= 0 {
		n = min(n, m.nodesLeft)
	}
	if m.varied() && m.haggle.most >= 0 {
		n = min(n, m.haggle.most)
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
	s.pay(m.Catalog.Rows[row].Price)
	if m.nodesLeft > 0 {
		m.nodesLeft--
	}
	m.bought.Put(row)
	m.left = m.left.Sub(m.Catalog.Capacity[m.Catalog.Rows[row].Type])
	s.draw(&m.Catalog.Rows[row], 1)
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
