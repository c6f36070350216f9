package pack

import (
	"fmt"
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/world"
)

// haggle is what a market with minValues remembers besides; nil for all others.
//
// Every launch of such a market must list several values of some labels among its
// choices, so a pod may join a machine only while enough rows are left that would hold
// all of its pods, are on sale, and are within limits and quota. Which row is the
// one bought does not matter for that: the room of a row is used as far as
// enough other rows have as much.
type haggle struct {
	// least is how many values of each varied label a launch lists if it is strict.
	least []int
	// may reports whether one more machine of a row could be bought now.
	may func(row int) bool
	// most is how many more machines may be bought, since earlier attempts bought
	// more than could keep their variety; negative means as many as one likes.
	most int
	// within are the rows that earlier attempts found to be known in the end; nil for all.
	within bitset.Set
}

// varied reports whether the market's launches must keep some variety.
func (m *stall) varied() bool { return m.haggle != nil }

func (s *solver) haggle(m *stall) *haggle {
	if len(m.Varied) == 0 {
		return nil
	}
	h := &haggle{most: -1}
	for _, v := range m.Varied {
		h.least = append(h.least, v.Min)
	}
	if t := s.lessons.thin[m.Market]; t != nil {
		h.most, h.within = t.most, t.known
	}
	h.may = func(row int) bool {
		return m.withinLimits(row) && s.drawable(&m.Catalog.Rows[row], nil) && (h.within == nil || h.within.Has(row)) && (!s.confined || s.known(m).Has(row))
	}
	return h
}

// values counts the values of each varied label that rows leave possible to a launch
// that requires set, each up to least. Rows that may does not admit are left out; nil
// admits all. The answer is good until the next call.
func (s *solver) values(m *stall, set constraint.Set, rows bitset.Set, least []int, may func(int) bool) []int {
	s.had = append(s.had[:0], make([]int, len(least))...)
	for len(s.seen) < len(least) {
		s.seen = append(s.seen, nil)
	}
	short := 0
	for i, n := range least {
		clear(s.seen[i])
		if n > 0 {
			short++
		}
	}
	for row := range rows.All() {
		if short == 0 {
			break
		}
		if may != nil && !may(row) {
			continue
		}
		for i := range m.Varied {
			if s.had[i] >= least[i] {
				continue
			}
			s.had[i] += s.unseen(&m.Varied[i], set, row, &s.seen[i])
			if s.had[i] >= least[i] {
				s.had[i] = least[i]
				short--
			}
		}
	}
	return s.had
}

// unseen adds the row's values of a label to those seen, and returns how many are new.
func (s *solver) unseen(v *world.Variety, set constraint.Set, row int, seen *bitset.Set) int {
	n, values := 0, v.Values(row)
	for _, id := range values {
		if seen.Has(id) {
			continue
		}
		if len(values) > 1 {
			// One of several: the launch takes a value that its pods agree on.
			if q, asked := set.Get(v.Key); asked && !q.Admits(id) {
				continue
			}
		}
		seen.Put(id)
		n++
	}
	return n
}

// enough reports whether the rows leave at least so many values possible.
func (s *solver) enough(m *stall, set constraint.Set, rows bitset.Set, least []int, may func(int) bool) bool {
	return slices.Equal(s.values(m, set, rows, least, may), least)
}

// holding are the rows that are on sale, meet the joint requirements and hold what
// is used. The set is good until the next call.
func (s *solver) holding(m *stall, j *joint, used *quantity.Vector) bitset.Set {
	if j.offered == nil {
		j.offered = j.rows.And(m.Admitted(j.set)).And(m.onSale())
	}
	s.kept.Copy(j.offered)
	m.Sieve(s.kept, used)
	return s.kept
}

// addable is the largest number up to n of pods of the class that can be added to what
// is used while keeps holds of the sum.
func addable(n int, k *work, used quantity.Vector, attached func(world.Mount) bool, keeps func(*quantity.Vector) bool) int {
	for _, m := range k.local.mounts {
		if !attached(m) {
			used[m.Dim]++
		}
	}
	with := func(n int) bool {
		sum := used
		for _, d := range k.Dims {
			sum[d] += int64(n) * k.Requests[d]
		}
		return keeps(&sum)
	}
	if n > 0 && with(n) {
		return n
	}
	return max(0, sort.Search(n, func(i int) bool { return !with(i + 1) }))
}

// diverse is how many of n more pods the filling can take with the variety it needs.
// A market that may do with less keeps what the first pod leaves.
func (b *buyer) diverse(c *candidate, j *joint, p *part, n int) int {
	f, m := &b.scratch, c.stall
	used := f.whole.Sub(f.room)
	attached := func(m world.Mount) bool { return f.mounts[m] }
	if len(f.order) == 0 {
		f.least = m.haggle.least
		if b.relaxing {
			addable(1, p.work, used, attached, func(sum *quantity.Vector) bool {
				f.least = slices.Clone(b.values(m, j.set, b.holding(m, j, sum), m.haggle.least, m.haggle.may))
				return true
			})
		}
	}
	return addable(n, p.work, used, attached, func(sum *quantity.Vector) bool { return b.keeps(m, j, sum, f.least) })
}

// keeps reports whether one more machine with those requirements that holds so much
// could be bought with the variety needed.
func (s *solver) keeps(m *stall, j *joint, used *quantity.Vector, least []int) bool {
	if s.relaxing {
		return s.enough(m, j.set, s.holding(m, j, used), least, m.haggle.may)
	}
	t := &j.tried
	if t.orders != s.orders || t.confined != s.confined {
		*t = trials{orders: s.orders, confined: s.confined, good: t.good[:0], bad: t.bad[:0]}
	}
	if slices.ContainsFunc(t.good, func(v quantity.Vector) bool { return within(used, &v) }) {
		return true
	}
	if slices.ContainsFunc(t.bad, func(v quantity.Vector) bool { return within(&v, used) }) {
		return false
	}
	if s.enough(m, j.set, s.holding(m, j, used), least, m.haggle.may) {
		t.good = append(t.good[max(0, len(t.good)-mostTrials):], *used)
		return true
	}
	t.bad = append(t.bad[max(0, len(t.bad)-mostTrials):], *used)
	return false
}

// trials are what machines with the same requirements were found to be able to hold
// with the variety needed, and what not, until something is bought.
type trials struct {
	orders    int
	confined  bool
	good, bad []quantity.Vector
}

// mostTrials bounds how many are remembered.
const mostTrials = 16

func within(a, b *quantity.Vector) bool {
	for d := range a {
		if a[d] > b[d] {
			return false
		}
	}
	return true
}

// diverse is how many of n more pods the launch can take, if it comes to require
// next, without listing less variety than it was bought with.
func (l *launch) diverse(s *solver, next *joint, k *work, n int) int {
	if !l.stall.varied() {
		return n
	}
	return addable(n, k, l.used, func(m world.Mount) bool { return l.mounts[m] }, func(sum *quantity.Vector) bool {
		return s.enough(l.stall, next.set, s.holding(l.stall, next, sum), l.least, func(row int) bool { return s.exchangeable(l, row) })
	})
}

// exchangeable reports whether limits and quota let the launch become the row in place of its own.
func (s *solver) exchangeable(l *launch, row int) bool {
	m := l.stall
	if l.claim == nil { // not ordered yet
		return m.haggle.may(row)
	}
	if !m.claimed(l, row) {
		return false
	}
	if m.haggle.within != nil && !m.haggle.within.Has(row) {
		return false
	}
	// What is dearer need not be drawable any more; see putBack.
	return row > l.row && s.onceDrawable(&m.Catalog.Rows[row]) || s.drawable(&m.Catalog.Rows[row], m.Catalog.Rows[l.row].Draws)
}

// claimed reports whether the row is no larger than what the launch takes of the pool's limits.
func (m *stall) claimed(l *launch, row int) bool {
	return !slices.ContainsFunc(m.Limited, func(d quantity.Dim) bool { return m.capacity(row)[d] > l.claim[d] })
}

// onceDrawable reports whether there was quota for the row before anything was bought.
func (s *solver) onceDrawable(row *offer.Row) bool {
	return !slices.ContainsFunc(row.Draws, func(d offer.Draw) bool {
		left, ok := s.w.Budgets[d.Budget]
		return ok && d.Amount > left
	})
}

// putBack adds to the choices as many rows of before as the launch needs for its variety: there
// was quota for them when it was planned, though other machines of the plan took it since, and
// it has claimed as much of the limits.
func (s *solver) putBack(l *launch, rows *bitset.Set, before bitset.Set) {
	m := l.stall
	if s.enough(m, l.joint.set, *rows, l.least, nil) {
		return
	}
	first := rows.First() // there must be quota for what is tried first
	for row := range before.Minus(*rows).All() {
		if row < first || !s.onceDrawable(&m.Catalog.Rows[row]) || !m.claimed(l, row) {
			continue
		}
		for i := range m.Varied {
			if s.had[i] >= l.least[i] {
				continue
			}
			if n := s.unseen(&m.Varied[i], l.joint.set, row, &s.seen[i]); n > 0 {
				s.had[i] += n
				rows.Put(row)
			}
		}
	}
}

// order reserves what a launch for so much takes out of limits and quota; false when
// these do not leave it the variety it needs any more.
func (s *solver) order(l *launch, used *quantity.Vector) bool {
	m := l.stall
	if m.varied() {
		claim, ok := s.claim(l, used)
		if !ok {
			return false
		}
		l.claim = &claim
	}
	s.take(l)
	return true
}

// take takes what the launch claims out of limits and quota.
func (s *solver) take(l *launch) {
	m := l.stall
	s.orders++
	s.reserve(m, l.row)
	if l.claim != nil {
		m.left = m.left.Add(*m.capacity(l.row)).Sub(*l.claim)
		if m.haggle.most > 0 {
			m.haggle.most--
		}
	}
}

// release undoes take.
func (s *solver) release(l *launch) {
	m := l.stall
	s.orders++
	s.unreserve(m, l.row)
	if l.claim != nil {
		m.left = m.left.Sub(*m.capacity(l.row)).Add(*l.claim)
		if m.haggle.most >= 0 {
			m.haggle.most++
		}
	}
}

// claim is what a machine takes of its pool's limits: the capacity of its row, and
// where it must keep variety as much more as the rows have that it needs for that.
// False when the limits and quota that are left do not leave it the variety.
func (s *solver) claim(l *launch, used *quantity.Vector) (quantity.Vector, bool) {
	m := l.stall
	claim := *m.capacity(l.row)
	rows := s.holding(m, l.joint, used).Clone()
	if !s.enough(m, l.joint.set, rows, l.least, m.haggle.may) {
		return claim, false
	}
	for _, d := range m.Limited {
		sizes := m.sizes(d)
		upTo := func(n int64) func(int) bool {
			return func(row int) bool { return m.capacity(row)[d] <= n && m.haggle.may(row) }
		}
		at := sort.Search(len(sizes), func(i int) bool { return s.enough(m, l.joint.set, rows, l.least, upTo(sizes[i])) })
		if at < len(sizes) {
			claim[d] = max(claim[d], sizes[at])
		}
		for row := range rows.All() {
			if m.capacity(row)[d] > claim[d] {
				rows.Drop(row)
			}
		}
	}
	return claim, true
}

// sizes lists the capacities of one resource, ascending.
func (m *stall) sizes(d quantity.Dim) []int64 {
	var out []int64
	for _, row := range slices.Backward(m.descending(d)) {
		if n := m.capacity(row)[d]; len(out) == 0 || out[len(out)-1] != n {
			out = append(out, n)
		}
	}
	return out
}

// assorted are those of the rows of a place that can be bought for one pod of the
// work with the variety needed.
func (s *solver) assorted(m *stall, k *work, values []int, at side) bitset.Set {
	if !m.varied() || s.w.Settings.RelaxMinValues {
		return at.rows
	}
	here := (&world.Cell{Keys: k.keys, Values: values}).Set().And(at.set)
	f := m.Fit(k.Shape, s.w)
	var out bitset.Set
	for i, alt := range k.Shape.Alternatives {
		out.Merge(s.suiting(m, f, i, m.Base.And(alt).And(here), at.rows))
	}
	return out
}

// suiting are those of the rows on which alternative i of the shape holds, nil when
// they have too little variety.
func (s *solver) suiting(m *stall, f *world.Fit, i int, set constraint.Set, rows bitset.Set) bitset.Set {
	own := f.Rows[i].And(rows).And(m.onSale())
	if m.haggle.most == 0 || !s.enough(m, set, own, m.haggle.least, m.haggle.may) {
		return nil
	}
	return own
}

// offered is fit without alternatives that leave too little variety to one pod.
func (s *solver) offered(m *stall, p *part) *world.Fit {
	f := s.fit(m, p)
	if !m.varied() || s.relaxing {
		return f
	}
	out := &world.Fit{Rows: make([]bitset.Set, len(f.Rows)), Admitted: f.Admitted, Shut: f.Shut}
	for i, alt := range p.Alternatives {
		set := m.Base.And(alt)
		if p.cell != nil {
			set = set.And(p.cell.set)
		}
		out.Rows[i] = s.suiting(m, f, i, set, f.Rows[i])
		out.All.Merge(out.Rows[i])
	}
	return out
}

// refit looks again at what piles can use of markets with minValues: limits and quota
// shrink.
func (b *buyer) refit() {
	for i, m := range b.tier {
		if !m.varied() {
			continue
		}
		for _, l := range b.piles {
			if l.left > 0 {
				l.fits[i] = b.offered(m, l.parts[0])
			}
		}
	}
}

// diluted reports whether purchases may have left candidates without the variety that
// they had when they were taken for as good as others.
func (b *buyer) diluted() bool {
	return b.gathered < b.purchases && slices.ContainsFunc(b.tier, (*stall).varied)
}

// ceiling is the most that a machine for the group can hold of each resource with
// the variety needed; nil when there is no such need.
func (b *buyer) ceiling(i int, g *group) *quantity.Vector {
	m := b.tier[i]
	if !m.varied() || b.relaxing {
		return nil
	}
	var out, rows = quantity.Vector{}, bitset.Set(nil)
	for _, l := range g.piles {
		rows.Merge(l.fits[i].All)
	}
	for d, n := range b.whole {
		if n == 0 {
			out[d] = quantity.Most
			continue
		}
		out[d], _ = m.Most(quantity.Dim(d), func(much bitset.Set) bool {
			return b.enough(m, m.Base, rows.And(much), m.haggle.least, m.haggle.may)
		})
	}
	return &out
}

func lesser(a, b *quantity.Vector) quantity.Vector {
	out := *a
	for d := range out {
		out[d] = min(out[d], b[d])
	}
	return out
}

// buyFrom buys for the parts from one tier. Where the settings allow it, pods that find
// no home with the variety that minValues ask for get one with less, before the
// next tier is asked: heavier pools go first.
func (s *solver) buyFrom(tier []*stall, parts []*part) {
	s.buy(tier, parts)
	if !s.w.Settings.RelaxMinValues || !slices.ContainsFunc(tier, (*stall).varied) {
		return
	}
	s.relaxing = true
	s.buy(tier, parts)
	s.relaxing = false
}

// more is the larger of two needs, label by label.
func more(a, b []int) []int {
	out := slices.Clone(a)
	for i, n := range b {
		out[i] = max(out[i], n)
	}
	return out
}

// shortOf lists the labels of which the launch's choices have less variety than the
// pool asks for, sorted.
func (s *solver) shortOf(l *launch, rows bitset.Set) []string {
	m := l.stall
	if !m.varied() {
		return nil
	}
	var out []string
	for i, had := range s.values(m, l.joint.set, rows, m.haggle.least, nil) {
		if had < m.haggle.least[i] {
			out = append(out, m.Varied[i].Key.Name)
		}
	}
	slices.Sort(out)
	return out
}

// dilution is what an attempt taught about a market with minValues.
type dilution struct {
	known bitset.Set // see haggle.within
	most  int        // see haggle.most
	// had is what one launch was left with.
	had shortage
}

// shortage is a label of which too few values are left.
type shortage struct {
	key        string
	asked, had int
}

// dilute notes the markets of which some launches have lost variety that they were
// bought with, as limits or places to be went to others; false when there are none.
// First such a market is told where machines may stand, then it buys less and less.
func (l *lessons) dilute(s *solver) bool {
	again := false
	if s.broke || s.w.Settings.RelaxMinValues {
		return false
	}
	for _, m := range s.stalls {
		if !m.varied() {
			continue
		}
		bought, poor, had := s.poor(m)
		if poor == 0 {
			continue
		}
		again = true
		known := s.known(m)
		if t := l.thin[m.Market]; t != nil || known.Equal(m.Rows) {
			l.thin[m.Market] = &dilution{known: known, most: bought - poor, had: had}
			continue
		}
		l.thin[m.Market] = &dilution{known: known, most: -1, had: had}
	}
	return again
}

// poor counts the market's launches and those of them with too little variety, and says
// what the first of those lacks.
func (s *solver) poor(m *stall) (bought, poor int, had shortage) {
	left := m.left
	defer func() { m.left = left }()
	for _, l := range s.launches {
		if l.stall != m {
			continue
		}
		bought++
		if got := s.values(m, l.joint.set, s.choices(l), m.haggle.least, nil); !slices.Equal(got, m.haggle.least) {
			if poor++; poor == 1 {
				had = m.shortage(got)
			}
		}
	}
	return bought, poor, had
}

// shortage is about the first label of which there are too few values.
func (m *stall) shortage(had []int) shortage {
	for i, n := range had {
		if n < m.haggle.least[i] {
			return shortage{m.Varied[i].Key.Name, m.haggle.least[i], n}
		}
	}
	return shortage{}
}

// explainVariety charges to minValues the rows of which no pod of the class can get a
// machine with enough variety, wherever it goes.
func (e *explainer) explainVariety(v *trail, m *stall, k *work) {
	if !m.varied() || e.w.Settings.RelaxMinValues {
		return
	}
	e.confined = e.freed // what was given back is bought only there
	defer func() { e.confined = false }()
	var good bitset.Set
	worst := shortage{asked: -1}
	fit := m.Fit(k.Class.Shape, e.w)
	for _, c := range m.Cells(k.keys) {
		here := (&world.Cell{Keys: k.keys, Values: c.Values}).Set()
		for i, alt := range k.Class.Shape.Alternatives {
			rows := v.rows.And(c.Rows)
			set := m.Base.And(alt).And(here)
			if own := e.suiting(m, fit, i, set, rows); own != nil {
				good.Merge(own)
				continue
			}
			got := m.shortage(e.values(m, set, fit.Rows[i].And(rows), m.haggle.least, m.haggle.may))
			if worst.asked < 0 || got.had > worst.had {
				worst = got
			}
		}
	}
	if t := e.lessons.thin[m.Market]; t != nil && worst.key == "" {
		worst = t.had
	}
	v.cut(reason.MinValues, v.rows.Minus(good), func(bitset.Set) (string, map[string]any) { return worst.explain() })
}

func (x shortage) explain() (string, map[string]any) {
	return fmt.Sprintf("minValues asks for %d values of %s, %d would be left", x.asked, x.key, x.had), map[string]any{"key": x.key, "asked": x.asked, "had": x.had}
}

// needed marks types that together have the variety that the launch needs, and returns
// how many they are.
func (s *solver) needed(l *launch, rows bitset.Set, types []bool) int {
	n := 0
	for i := range l.stall.Varied {
		var seen bitset.Set
		had := 0
		for row := range rows.All() {
			if had >= l.least[i] {
				break
			}
			more := s.unseen(&l.stall.Varied[i], l.joint.set, row, &seen)
			had += more
			if t := l.stall.Catalog.Rows[row].Type; more > 0 && !types[t] {
				types[t] = true
				n++
			}
		}
	}
	return n
}

// listed are the values that rows have of labels with minValues, by label, so that a
// claim says how much variety it has. A label that some row lacks is left out.
func (s *solver) listed(l *launch, rows bitset.Set) map[string][]string {
	m := l.stall
	out := map[string][]string{}
	for i := range m.Varied {
		v := &m.Varied[i]
		var seen bitset.Set
		lacking := !v.Carried()
		for row := range rows.All() {
			s.unseen(v, l.joint.set, row, &seen)
			lacking = lacking || len(v.Values(row)) == 0
		}
		if lacking {
			continue
		}
		for id := range seen.All() {
			out[v.Key.Name] = append(out[v.Key.Name], v.Key.Value(id))
		}
		slices.Sort(out[v.Key.Name])
	}
	return out
}
