// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// preferenceSearch finds how many preferences can be honoured within the settings' surplus.
//
// The plan that honours none of them has the same price as under the setting Ignore and places
// the same pods. A plan that honours some must place all of those pods, too, and may cost the
// surplus more. The first attempt honours all preferences. If that is too expensive, the search
// adds preferences, heaviest first, while the plan does not exceed the price (a binary search:
// one attempt is a whole plan). It skips the preference that is too expensive and continues
// after it. An attempt stops as soon as it has spent too much. The number of attempts is
// bounded, so a decision takes at most a fixed multiple of the time that one without
// preferences takes.
type preferenceSearch struct {
	w *cluster.Snapshot
	// items are all preferences: the heaviest first, then those dropped last, then those of
	// pods of high priority, then those of smaller pods: for the same price more pods get
	// theirs.
	items  []item
	wanted map[*cluster.PodClass][]preference
	// minds holds the classes with preferences that distinguish nodes.
	minds    map[*cluster.PodClass]bool
	runnable map[*cluster.PodShape]bool // see somewhere
	// These are the same in all attempts: see fit and onSale.
	compatible map[compatibleKey]*cluster.Compatible
	cells      map[cellsKey][]cell

	placed          map[*cluster.PodClass]int // by the plan that honours no preference
	limit, maxPrice offering.Price            // upper bounds of bill and of spent
	best            *solver
	attempts        int
	most            offering.Price // the most that any plan may cost
	barred          bool           // no node may be launched
	sketching       bool           // a plan that leaves a pod out is of no use
	patience        int            // how many plans are made at most to find the best one
	steps           int            // how many steps improve may take for each plan
	boundless       bool           // the plan's lower bound is not needed
}

// item is one preference of one class.
type item struct {
	class *cluster.PodClass
	preference
}

// honoured says which preferences an attempt honours. A nil map honours none, and nodes are
// not sorted by preference either.
type honoured map[*cluster.PodClass][]preference

// mostAttempts bounds how many plans are made to find the best one.
const mostAttempts = 8

func newPreferenceSearch(w *cluster.Snapshot) *preferenceSearch {
	b := withoutPreferences(w)
	b.preferences()
	return b
}

// withoutPreferences makes a search that knows no preferences.
func withoutPreferences(w *cluster.Snapshot) *preferenceSearch {
	b := &preferenceSearch{w: w, wanted: map[*cluster.PodClass][]preference{}, minds: map[*cluster.PodClass]bool{}, runnable: map[*cluster.PodShape]bool{},
		cells: map[cellsKey][]cell{}, most: noMaxPrice, patience: mostAttempts, steps: mostSteps}
	if w.InWhatIf() {
		b.compatible = memoOf(w).compatible
	} else {
		b.compatible = map[compatibleKey]*cluster.Compatible{}
	}
	return b
}

// preferences lists the pods' preferences, unless the settings ignore them.
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

// urgency orders classes as they are placed: real pods by priority, then virtual pods.
func urgency(x, y *cluster.PodClass) int {
	if x.Virtual != y.Virtual {
		if y.Virtual {
			return -1
		}
		return 1
	}
	return cmp.Compare(y.Priority, x.Priority)
}

// softTaints lists the PreferNoSchedule taints of all pools that launch nodes and of all
// nodes that accept pods.
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
	for _, node := range softlyTainted(w) {
		if open(node) {
			note(node.Taints)
		}
	}
	return out
}

// attempt makes one plan; see Solve for why it may take several rounds.
func (b *preferenceSearch) attempt(d honoured, maxPrice offering.Price) *solver {
	l := learned{caps: map[learnedKey]int{}, unplaceable: map[*cluster.PodClass]bool{}, withoutPreferences: map[*cluster.PodClass]bool{}, openedDomains: map[domainCountKey][]int{}, minValuesLost: map[*cluster.PoolCatalog]*minValuesLoss{}}
	for round := 0; ; round++ {
		s := newSolver(b, &l, d, maxPrice)
		if s.complete(false, round) && s.complete(true, round) && !l.learnMinValuesLost(s) {
			return s
		}
	}
}

// complete places all virtual pods, or all others. It reports false when it learned something
// and the attempt must start again.
func (s *solver) complete(virtual bool, round int) bool {
	if s.limits.over() || !s.run(virtual) || s.limits.over() {
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

// choose returns the best plan within the price.
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

// search looks for the best plan that costs at most the surplus more than the plan that
// honours no preference.
func (b *preferenceSearch) search(before offering.Price) {
	b.limit = min(b.most, surplus(before, b.w.Settings.Surplus))
	b.maxPrice = min(b.most, max(b.limit, surplus(b.best.limits.price.spent, b.w.Settings.Surplus)))
	kept := []item{}
	for rest := b.items; len(rest) > 0 && b.attempts < b.patience; {
		n := b.longest(kept, rest)
		kept = append(kept, rest[:n]...)
		rest = rest[min(n+1, len(rest)):]
	}
	if len(kept) == 0 && slices.ContainsFunc(b.w.Nodes, open) {
		b.try(nil) // choosing which nodes are filled first costs nothing
	}
}

func open(node *cluster.NodeInfo) bool { return node.Index >= 0 }

// satisfied reports whether the plan that honours no preference meets all of them by chance,
// whichever of its offerings are launched.
func (b *preferenceSearch) satisfied() bool {
	if slices.ContainsFunc(b.items, item.roams) {
		return false
	}
	a := b.audit(&Plan{}) // hostnames and taints do not depend on how launches are described
	return !slices.ContainsFunc(b.items, func(it item) bool { return a.honoured(it.class, it.preference) < b.placed[it.class] })
}

// roams reports whether it can depend on the launched offering if the preference holds: this
// is so for labels other than the hostname.
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

// longest is how many of rest, from the front, can be honoured together with those kept.
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

// try makes a plan that honours the items. It keeps the plan when the price is low enough and
// every pod that the plan without preferences places has a place.
func (b *preferenceSearch) try(items []item) bool {
	b.attempts++
	s := b.attempt(b.honouredOf(items), b.maxPrice)
	if s.limits.over() {
		return false
	}
	placed := s.placedBy()
	for c, n := range b.placed {
		if placed[c] < n {
			return false
		}
	}
	if s.limits.price.spent > b.limit && s.bill() > b.limit {
		return false
	}
	b.best = s
	return true
}

// honouredOf groups the items by class, in the order in which they are dropped.
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

// surplus is the price increased by that many thousandths.
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

// bill is what the plan will cost. That is at most what was spent, as a first offering is
// never more expensive than the planned one. bill describes no launch, and restores what
// choosing the offerings takes out of limits and quota.
func (s *solver) bill() offering.Price {
	if s.descriptions.described != nil {
		return Plan{Launches: s.descriptions.described}.Price()
	}
	restore := s.limits.mark()
	var sum offering.Price
	for _, l := range s.launches.all {
		s.choice.chooseFirst(l)
		sum += l.pool.Catalog.Offerings[l.first].Price
	}
	restore()
	return sum
}

// placedBy counts the pods that have a place, by class.
func (s *solver) placedBy() map[*cluster.PodClass]int {
	out := make(map[*cluster.PodClass]int, len(s.podGroups))
	for _, g := range s.podGroups {
		out[g.class] += g.placed
	}
	return out
}

// somewhere reports whether pods of the shape could run anywhere if there were no other pods.
func (b *preferenceSearch) someNodeOrOffering(c *cluster.PodShape) bool {
	known, ok := b.runnable[c]
	if !ok {
		known = b.someOfferingFits(c) || b.someNodeAccepts(c)
		b.runnable[c] = known
	}
	return known
}

// welcome reports whether some node accepts the shape.
func (b *preferenceSearch) someNodeAccepts(c *cluster.PodShape) bool {
	x := b.w.NodeIndex(c.Keys)
	for _, g := range x.Accepting(c) {
		if !c.UsesHostname {
			return true
		}
		for slot := x.Groups[g].From; slot < x.Groups[g].To; slot++ {
			if node := b.w.Nodes[x.NodeAt(slot)]; open(node) && node.Accepts(c) {
				return true
			}
		}
	}
	return false
}

func (b *preferenceSearch) someOfferingFits(c *cluster.PodShape) bool {
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
