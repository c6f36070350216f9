package schedule

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// preferenceSearch finds out how much of what pods prefer the settings' surplus pays for.
//
// The plan that honours nothing says what Ignore would pay and whom it would
// place. Honouring something must place all of those, too, and may cost the surplus
// more. All is tried first; where that is too dear, preferences are taken heaviest
// first, as many as can be paid for (a binary search: one attempt is a whole plan);
// the one that is too dear is passed over, and the search goes on behind it. An
// attempt stops as soon as it has spent too much. The number of attempts is
// bounded, so that a decision takes a bounded number of times as long as one that
// ignores preferences.
type preferenceSearch struct {
	w *cluster.Snapshot
	// items are all that pods prefer: heaviest first, then what is given up last, then
	// what urgent pods prefer, then smaller ones: for the same money more pods get it.
	items  []item
	wanted map[*cluster.PodClass][]preference
	// minds are the classes that prefer some nodes to others.
	minds map[*cluster.PodClass]bool
	open  map[*cluster.PodShape]bool // see somewhere
	// What all attempts find alike: see fit and onSale.
	fits  map[fitKey]*cluster.Compatible
	sales map[saleKey][]cell

	placed       map[*cluster.PodClass]int // by the plan that honours nothing
	limit, purse offering.Price            // of an honest plan's price, and of what it may spend on the way
	best         *solver
	attempts     int
	most         offering.Price // that any plan may cost
	barred       bool           // nothing may be bought
	sketching    bool           // a plan that leaves somebody out is worth nothing
	patience     int            // plans that are made to find the best one
	steps        int            // that improve may take for each plan
	boundless    bool           // nobody asks what such plans cost at least
}

// item is one preference of one class.
type item struct {
	class *cluster.PodClass
	preference
}

// honoured says which preferences are to be honoured. The nil deal honours none and
// does not look at them either.
type honoured map[*cluster.PodClass][]preference

// mostAttempts bounds how many plans are made to find the best one.
const mostAttempts = 8

// noMaxPrice is the purse of those who may spend what they want.
const noMaxPrice = offering.Price(math.MaxInt64)

func newPreferenceSearch(w *cluster.Snapshot) *preferenceSearch {
	b := withoutPreferences(w)
	b.preferences()
	return b
}

// withoutPreferences is a bargain in which nobody prefers anything.
func withoutPreferences(w *cluster.Snapshot) *preferenceSearch {
	b := &preferenceSearch{w: w, wanted: map[*cluster.PodClass][]preference{}, minds: map[*cluster.PodClass]bool{}, open: map[*cluster.PodShape]bool{},
		sales: map[saleKey][]cell{}, most: noMaxPrice, patience: mostAttempts, steps: mostSteps}
	if w.InWhatIf() {
		b.fits = memoOf(w).fits
	} else {
		b.fits = map[fitKey]*cluster.Compatible{}
	}
	return b
}

// preferences lists what pods prefer, unless the settings ignore it.
func (b *preferenceSearch) preferences() {
	w := b.w
	if w.Settings.Preferences == cluster.Ignore {
		return
	}
	tainted := softTaints(w)
	for _, c := range slices.Backward(w.Classes) {
		if c.Refused != "" {
			continue
		}
		if list := preferencesOf(c, c.AvoidsSoftTaints(tainted)); len(list) > 0 {
			b.wanted[c] = list
			b.minds[c] = slices.ContainsFunc(list, func(p preference) bool { return p.kind == onLabels || p.kind == offTaints })
			for _, p := range slices.Backward(list) {
				b.items = append(b.items, item{c, p})
			}
		}
	}
	slices.SortStableFunc(b.items, func(x, y item) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(y.kind, x.kind), urgency(x.class, y.class))
	})
}

// urgency orders classes as they are served: spare capacity comes last.
func urgency(x, y *cluster.PodClass) int {
	if x.Virtual != y.Virtual {
		if y.Virtual {
			return -1
		}
		return 1
	}
	return cmp.Compare(y.Priority, x.Priority)
}

// softTaints lists the taints that merely prefer to keep pods away, of all pools
// that buy and nodes that take pods.
func softTaints(w *cluster.Snapshot) []cluster.Taint {
	var out []cluster.Taint
	note := func(taints []cluster.Taint) {
		for _, t := range taints {
			if t.Effect == cluster.PreferNoSchedule && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	for _, m := range w.Catalogs {
		if m.Pool.Blocked == "" && !m.Pool.Static {
			note(m.Pool.Taints)
		}
	}
	for _, h := range softlyTainted(w) {
		if open(h) {
			note(h.Taints)
		}
	}
	return out
}

// attempt makes one plan; see Solve for why it may take several rounds.
func (b *preferenceSearch) attempt(d honoured, purse offering.Price) *solver {
	l := learned{caps: map[learnedKey]int{}, unplaceable: map[*cluster.PodClass]bool{}, plain: map[*cluster.PodClass]bool{}, openedDomains: map[domainCountKey][]int{}, thin: map[*cluster.PoolCatalog]*dilution{}}
	for round := 0; ; round++ {
		s := newSolver(b, &l, d, purse)
		if s.complete(false, round) && s.complete(true, round) && !l.dilute(s) {
			return s
		}
	}
}

// complete finds homes for all virtual pods, or for all others; false when it
// learnt something and is to begin again.
func (s *solver) complete(virtual bool, round int) bool {
	if s.overMaxPrice || !s.run(virtual) || s.overMaxPrice {
		return true
	}
	if s.learned.learn(s, round) {
		return false
	}
	if !virtual {
		s.improve()
	}
	s.retryUnplaced(virtual)
	return true
}

// strike returns the best plan that can be paid for.
func (b *preferenceSearch) choose(plain *solver) Plan {
	b.best, b.placed = plain, plain.placedBy()
	b.items = slices.DeleteFunc(b.items, func(it item) bool { return b.placed[it.class] == 0 })
	before := plain.bill()
	if !b.satisfied() {
		b.search(before)
	}
	p := b.best.plan()
	p.Preferences = b.account(&p)
	p.Preferences.Cost = max(0, p.Price()-before)
	return p
}

// search looks for the best plan within the surplus of what the plan that honours
// nothing costs.
func (b *preferenceSearch) search(before offering.Price) {
	b.limit = min(b.most, surplus(before, b.w.Settings.Surplus))
	b.purse = min(b.most, max(b.limit, surplus(b.best.spent, b.w.Settings.Surplus)))
	kept := []item{}
	for rest := b.items; len(rest) > 0 && b.attempts < b.patience; {
		n := b.longest(kept, rest)
		kept = append(kept, rest[:n]...)
		rest = rest[min(n+1, len(rest)):]
	}
	if len(kept) == 0 && slices.ContainsFunc(b.w.Nodes, open) {
		b.try(nil) // which hosts are filled first is free
	}
}

func open(h *cluster.NodeInfo) bool { return h.Index >= 0 }

// content reports whether in the plan that honours nothing everybody has what they prefer
// all the same, whichever of its choices are bought.
func (b *preferenceSearch) satisfied() bool {
	if slices.ContainsFunc(b.items, item.roams) {
		return false
	}
	a := b.audit(&Plan{}) // hostnames and taints need no description
	return !slices.ContainsFunc(b.items, func(it item) bool { return a.honoured(it.class, it.preference) < b.placed[it.class] })
}

// roams reports whether it may depend on the choice that is bought whether the
// preference holds: on labels but the hostname.
func (it item) roams() bool {
	switch it.kind {
	case nearOthers:
		return it.class.Affinity[it.at].Key.Name != cluster.LabelHostname
	case offOthers:
		return it.class.AntiAffinity[it.at].Key.Name != cluster.LabelHostname
	case spreadOut:
		return it.class.Spreads[it.at].Key.Name != cluster.LabelHostname
	}
	return it.kind == onLabels
}

// longest is how many of rest, from the front, can be had besides what was kept.
func (b *preferenceSearch) longest(kept, rest []item) int {
	if b.try(slices.Concat(kept, rest)) {
		return len(rest)
	}
	had, dear := 0, len(rest)
	for dear-had > 1 && b.attempts < b.patience {
		if n := (had + dear) / 2; b.try(slices.Concat(kept, rest[:n])) {
			had = n
		} else {
			dear = n
		}
	}
	return had
}

// try makes a plan that honours the items, and keeps it when it can be paid for and
// leaves nobody out who would have a place otherwise.
func (b *preferenceSearch) try(items []item) bool {
	b.attempts++
	s := b.attempt(b.honouredOf(items), b.purse)
	if s.overMaxPrice {
		return false
	}
	placed := s.placedBy()
	for c, n := range b.placed {
		if placed[c] < n {
			return false
		}
	}
	if s.spent > b.limit && s.bill() > b.limit {
		return false
	}
	b.best = s
	return true
}

// dealOf sorts the items by class, in the order in which they are given up.
func (b *preferenceSearch) honouredOf(items []item) honoured {
	in := make(map[item]bool, len(items))
	for _, it := range items {
		in[it] = true
	}
	d := honoured{}
	for c, list := range b.wanted {
		for _, p := range list {
			if in[item{c, p}] {
				d[c] = append(d[c], p)
			}
		}
	}
	return d
}

// surplus is the price and thousandths more of it.
func surplus(price offering.Price, thousandths int) offering.Price {
	if thousandths < 0 { // cluster.UnlimitedSurplus
		return noMaxPrice
	}
	hi, lo := bits.Mul64(uint64(price), uint64(1000+thousandths))
	if hi >= 1000 {
		return noMaxPrice
	}
	total, _ := bits.Div64(hi, lo, 1000)
	return offering.Price(min(total, uint64(noMaxPrice)))
}

// bill is what the plan will cost: no more than was spent, as first choices are never
// dearer than what was planned. It describes nothing, and takes back what that would
// take out of limits and budgets.
func (s *solver) bill() offering.Price {
	if s.purchased != nil {
		return Plan{Launches: s.purchased}.Price()
	}
	budgets, left := maps.Clone(s.budgets), make([]quantity.Vector, len(s.pools))
	for i, m := range s.pools {
		left[i] = m.left
	}
	var sum offering.Price
	for _, l := range s.launches {
		s.choose(l)
		sum += l.pool.Catalog.Offerings[l.first].Price
	}
	s.budgets = budgets
	for i, m := range s.pools {
		m.left, m.scarce = left[i], nil
	}
	return sum
}

// placedBy counts the pods that have a place, by class.
func (s *solver) placedBy() map[*cluster.PodClass]int {
	out := make(map[*cluster.PodClass]int, len(s.podGroups))
	for _, k := range s.podGroups {
		out[k.PodClass] += k.placed
	}
	return out
}

// payable is how many machines of the price the attempt may still buy: the last one
// may break it.
func (s *solver) payable(price offering.Price) int {
	if s.overMaxPrice {
		return 0
	}
	if price <= 0 || s.maxPrice == noMaxPrice {
		return math.MaxInt32
	}
	return int(min((s.maxPrice-s.spent)/price+1, math.MaxInt32))
}

func (s *solver) pay(price offering.Price) {
	s.spent = s.spent.Add(price)
	s.overMaxPrice = s.spent > s.maxPrice
}

// somewhere reports whether pods of the shape could run anywhere, were nobody else there.
func (b *preferenceSearch) somewhere(c *cluster.PodShape) bool {
	known, ok := b.open[c]
	if !ok {
		known = b.onSale(c) || b.welcome(c)
		b.open[c] = known
	}
	return known
}

// welcome reports whether some host accepts the shape.
func (b *preferenceSearch) welcome(c *cluster.PodShape) bool {
	x := b.w.NodeIndex(c.Keys)
	for _, g := range x.Accepting(c) {
		if !c.UsesHostname {
			return true
		}
		for slot := x.Groups[g].From; slot < x.Groups[g].To; slot++ {
			if h := b.w.Nodes[x.NodeAt(slot)]; open(h) && h.Accepts(c) {
				return true
			}
		}
	}
	return false
}

func (b *preferenceSearch) onSale(c *cluster.PodShape) bool {
	for _, m := range b.w.Catalogs {
		if m.Pool.Blocked != "" || m.Pool.Static {
			continue
		}
		for row := range m.Compatible(c).All.All() {
			if m.Catalog.Offerings[row].Unavailable == "" {
				return true
			}
		}
	}
	return false
}

// accepting lists the groups of hosts that take the class, in the order in which its
// pods fill them: hosts that meet more of what they prefer cost nothing more than
// others. What the hostname decides is left to chance.
func (s *solver) accepting(k *podGroup, x *cluster.NodeIndex) []int32 {
	groups := x.Accepting(k.PodShape)
	if s.honoured == nil || len(groups) < 2 || !s.search.minds[k.PodClass] {
		return groups
	}
	score := make(map[int32]int, len(groups))
	for _, g := range groups {
		score[g] = appeal(k.PodClass, x.Groups[g].First)
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b int32) int { return cmp.Compare(score[b], score[a]) })
	return groups
}

// appeal sums up what the host has of what the class prefers of a node.
func appeal(c *cluster.PodClass, h *cluster.NodeInfo) int {
	sum := 0
	for _, t := range c.Preferred {
		if !t.Named() && h.Matches(t.Term) {
			sum += int(t.Weight)
		}
	}
	if c.AvoidsSoftTaints(h.Taints) {
		sum -= full
	}
	return sum
}

// minding adds to the keys by which the class tells hosts apart those of the labels
// that it prefers.
func (b *preferenceSearch) minding(keys []*constraint.Key, c *cluster.PodClass) []*constraint.Key {
	if !b.minds[c] {
		return keys
	}
	keys = slices.Clone(keys)
	for _, t := range c.Preferred {
		for _, q := range t.Term {
			keys = append(keys, q.Key)
		}
	}
	return keys
}
