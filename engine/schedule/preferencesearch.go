// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// preferenceSearch finds how many preferences can be honoured within the settings' surplus.
//
// The plan that honours none of them has the same price as under the setting Ignore and places
// the same pods. A plan that honours some must place all of those pods, too, and may cost the
// surplus more. The first attempt honours all preferences. If that is too expensive, the
// search adds preferences, heaviest first, while the plan does not exceed the price (a binary
// search: one attempt is a whole plan). It skips the preference that is too expensive and
// continues after it. An attempt stops as soon as its launches cost too much. The number of
// attempts is bounded, so a decision takes at most a fixed multiple of the time that one
// without preferences takes.
type preferenceSearch struct {
	snapshot *cluster.Snapshot
	// byWeight are all preferences: the heaviest first, then those dropped last, then those
	// of pods of high priority, then those of smaller pods: for the same price more pods get
	// theirs.
	byWeight []classPreference
	wanted   map[*cluster.PodClass][]preference
	// distinguishNodes holds the classes with preferences that distinguish nodes.
	distinguishNodes map[*cluster.PodClass]bool
	runnable         map[*cluster.PodShape]bool // see someNodeOrOffering
	claims           exclusiveClaims
	// These are the same in all attempts: see compatibility and cellFinder.
	compatible map[compatibleKey]*cluster.CompatibleOfferings
	cells      map[cellsKey][]cellInfo

	options    attemptOptions
	directions // of the plan that honours no preference

	attempted int                       // how many attempts honoured some preferences
	undecided int                       // how many preferences no attempt was left for
	placed    map[*cluster.PodClass]int // by the plan that honours no preference
	best      *solver
	// maxFinalPrice and maxPlannedPrice are upper bounds of finalPrice and of what is spent.
	maxFinalPrice, maxPlannedPrice offering.Price
}

// attemptOptions are what the caller of a search asks of its attempts.
type attemptOptions struct {
	maxPrice       offering.Price // the most that any plan may cost
	noLaunches     bool           // no node may be launched
	placeAllOrStop bool           // a plan that leaves a pod out is of no use
	skipLowerBound bool           // the plan's lower bound is not needed
	budgets        budgets
	tooSmall       map[*cluster.PoolCatalog]bitset.Set // see poolState.tooSmall
}

// classPreference is one preference of one class.
type classPreference struct {
	class *cluster.PodClass
	preference
}

// chosenPreferences says which preferences an attempt is to honour. A nil map holds none, and
// nodes are not sorted by preference either.
type chosenPreferences map[*cluster.PodClass][]preference

func newPreferenceSearch(snapshot *cluster.Snapshot) *preferenceSearch {
	ps := withoutPreferences(snapshot)
	ps.listPreferences()
	return ps
}

// withoutPreferences makes a search that knows no preferences.
func withoutPreferences(snapshot *cluster.Snapshot) *preferenceSearch {
	ps := &preferenceSearch{
		snapshot: snapshot, wanted: map[*cluster.PodClass][]preference{}, distinguishNodes: map[*cluster.PodClass]bool{}, runnable: map[*cluster.PodShape]bool{},
		cells:   map[cellsKey][]cellInfo{},
		claims:  newExclusiveClaims(snapshot),
		options: attemptOptions{maxPrice: noMaxPrice, budgets: defaultBudgets()},
	}
	if snapshot.InWhatIf() {
		ps.compatible = memoOf(snapshot).compatible
	} else {
		ps.compatible = map[compatibleKey]*cluster.CompatibleOfferings{}
	}
	return ps
}

// listPreferences lists the pods' preferences, unless the settings ignore them.
func (ps *preferenceSearch) listPreferences() {
	snapshot := ps.snapshot
	if snapshot.Settings.Preferences == cluster.Ignore {
		return
	}
	tainted := softTaints(snapshot)
	for _, c := range slices.Backward(snapshot.Classes) {
		if c.Refused != "" {
			continue
		}
		if list := preferencesOf(c, c.LacksSoftToleration(tainted)); len(list) > 0 {
			ps.wanted[c] = list
			ps.distinguishNodes[c] = slices.ContainsFunc(list, func(p preference) bool { return p.kind == nodeAffinity || p.kind == softTaint })
			for _, p := range slices.Backward(list) {
				ps.byWeight = append(ps.byWeight, classPreference{c, p})
			}
		}
	}
	slices.SortStableFunc(ps.byWeight, func(x, y classPreference) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(y.kind, x.kind), comparePlacingOrder(x.class, y.class))
	})
}

// comparePlacingOrder orders classes as they are placed: real pods by priority, then virtual
// pods.
func comparePlacingOrder(x, y *cluster.PodClass) int {
	if x.Virtual != y.Virtual {
		if y.Virtual {
			return -1
		}
		return 1
	}
	return cmp.Compare(y.Priority, x.Priority)
}

// softTaints lists the PreferNoSchedule taints of all pools that launch nodes and of all
// nodes that take pods.
func softTaints(snapshot *cluster.Snapshot) []cluster.Taint {
	var out []cluster.Taint
	note := func(taints []cluster.Taint) {
		for _, t := range taints {
			if t.Effect == cluster.PreferNoSchedule && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	for _, m := range snapshot.PoolCatalogs {
		if m.Pool.Blocked == "" && !m.Pool.Static {
			note(m.Pool.Taints)
		}
	}
	for _, node := range nodesToSearchForSoftTaints(snapshot) {
		if takesPods(node) {
			note(node.Taints)
		}
	}
	return out
}

// decide makes the plan of a decision: see Solve.
func (ps *preferenceSearch) decide() Plan { return ps.planForOwed(ps.solve()) }

// solve makes the plan that honours most, with no pods in mind but those to be placed.
func (ps *preferenceSearch) solve() Plan {
	plain := ps.makeAttempt(nil, noMaxPrice)
	if len(ps.byWeight) == 0 {
		return plain.plan()
	}
	return ps.choose(plain)
}

// makeAttempt makes one plan. Without preferences it is the best of a few orders of pods and policies
// (see placeMorePods and tryPolicies), and with some the same order and policy are taken.
func (ps *preferenceSearch) makeAttempt(chosen chosenPreferences, maxPrice offering.Price) *solver {
	if chosen == nil {
		ps.policy = ps.firstPolicy()
	}
	s := ps.makePlan(ps.directions, chosen, maxPrice)
	if chosen == nil {
		s = ps.tryPolicies(ps.placeMorePods(s, maxPrice), maxPrice)
		s = ps.tryOtherCells(s, maxPrice)
		ps.directions = s.learned.directions
	}
	s.spreadOverNodes(false)
	s.spreadOverNodes(true)
	return s
}

// placeMorePods makes further plans while pods are left out, and returns the one that places the most:
// of high priority first.
func (ps *preferenceSearch) placeMorePods(s *solver, maxPrice offering.Price) *solver {
	if ps.options.noLaunches || ps.options.placeAllOrStop && maxPrice < noMaxPrice || s.limits.overMaxPrice() {
		return s
	}
	return ps.placeLeftOutFirst(ps.launchFewestNodes(s, maxPrice), maxPrice)
}

// makePlan makes one plan by the directions. See Solve for why it may take several rounds. A plan with
// colocations counts only when it places more pods than the one without.
func (ps *preferenceSearch) makePlan(d directions, chosen chosenPreferences, maxPrice offering.Price) *solver {
	s := ps.makeRounds(newLearned(d), chosen, maxPrice)
	if len(s.learned.colocated) > 0 && !d.policy.colocateAll {
		l := newLearned(d)
		l.withoutColocations = true
		plain := ps.makeRounds(l, chosen, maxPrice)
		if !s.placesMoreThan(plain) {
			s, plain = plain, s
		}
		s.searches.inherit(&plain.searches, searchNames...)
	}
	return s
}

// makeRounds makes rounds until one learns nothing new.
func (ps *preferenceSearch) makeRounds(l *learned, chosen chosenPreferences, maxPrice offering.Price) *solver {
	for round := 0; ; round++ {
		s := newSolver(ps, l, chosen, maxPrice)
		if l.isLast = round+1 >= ps.options.budgets[Rounds]; round == 0 && l.policy.colocateAll {
			l.colocateAll(s)
		}
		if !s.placeAndImprove(false, round) || !s.placeAndImprove(true, round) {
			continue
		}
		s.topology.letOpenEmpty(true, s.podGroups)
		if !l.learnMinValuesLost(s) && !l.passOver(s) {
			return s
		}
		if l.isLast {
			s.searches.cut(Rounds, max(1, l.uncertain(s)))
			return s
		}
	}
}

// choose returns the best plan within the price.
func (ps *preferenceSearch) choose(plain *solver) Plan {
	ps.best, ps.placed = plain, plain.placedBy()
	ps.byWeight = slices.DeleteFunc(ps.byWeight, func(it classPreference) bool { return ps.placed[it.class] == 0 })
	before := plain.finalPrice()
	if !ps.allMetByChance() {
		ps.search(before)
	}
	ps.best.searches.inherit(&plain.searches, searchNames...) // the order of pods is taken from it
	ps.best.searches.cut(Preferred, ps.undecided)
	p, honoured := ps.summarized(ps.best, before)
	if p.Preferences.Cost > 0 {
		plain.searches.inherit(&ps.best.searches, searchNames...)
		if without, byChance := ps.summarized(plain, before); !honoursMore(honoured, byChance) {
			ps.best = plain // others were lost for those that were to be honoured
			return without
		}
	}
	return p
}

// summarized is the plan of an attempt with what it honours, also by weight, and how much more it costs
// than before.
func (ps *preferenceSearch) summarized(s *solver, before offering.Price) (Plan, map[int32]int) {
	p := s.plan()
	var byWeight map[int32]int
	p.Preferences, byWeight = ps.summarize(s, &p)
	p.Preferences.Cost = max(0, p.Price()-before)
	return p, byWeight
}

// search looks for the best plan that costs at most the surplus more than the plan that
// honours no preference.
func (ps *preferenceSearch) search(before offering.Price) {
	ps.maxFinalPrice = min(ps.options.maxPrice, withSurplus(before, ps.snapshot.Settings.PreferenceSurplusPermille))
	ps.maxPlannedPrice = min(ps.options.maxPrice, max(ps.maxFinalPrice, withSurplus(ps.best.limits.spending.spent, ps.snapshot.Settings.PreferenceSurplusPermille)))
	kept := []classPreference{}
	rest := ps.byWeight
	for len(rest) > 0 && !ps.outOfPlans() {
		n := ps.mostHonoured(kept, rest)
		kept = append(kept, rest[:n]...)
		rest = rest[min(n+1, len(rest)):]
	}
	ps.undecided = len(rest)
	if len(kept) == 0 && slices.ContainsFunc(ps.snapshot.Nodes, takesPods) {
		ps.tryHonouring(nil) // choosing which nodes are filled first costs nothing
	}
}

// outOfPlans reports whether no further plan may be made.
func (ps *preferenceSearch) outOfPlans() bool { return ps.attempted >= ps.options.budgets[Preferred] }

// allMetByChance reports whether the plan that honours no preference meets all of them by
// chance, whichever of its offerings are launched.
func (ps *preferenceSearch) allMetByChance() bool {
	if slices.ContainsFunc(ps.byWeight, classPreference.dependsOnOffering) {
		return false
	}
	a := ps.audit(ps.best, &Plan{}) // hostnames and taints do not depend on how launches are described
	return !slices.ContainsFunc(ps.byWeight, func(p classPreference) bool { return a.honoured(p.class, p.preference) < ps.placed[p.class] })
}

// dependsOnOffering reports whether it can depend on the launched offering if the preference
// holds: this is so for labels other than the hostname.
func (p classPreference) dependsOnOffering() bool {
	switch p.kind {
	case podAffinity:
		return p.class.Affinity[p.index].Key.Name != cluster.LabelHostname
	case podAntiAffinity:
		return p.class.AntiAffinity[p.index].Key.Name != cluster.LabelHostname
	case softSpread:
		return p.class.Spreads[p.index].Key.Name != cluster.LabelHostname
	}
	return p.kind == nodeAffinity
}

// mostHonoured is how many of rest, from the front, can be honoured together with those kept.
func (ps *preferenceSearch) mostHonoured(kept, rest []classPreference) int {
	if ps.tryHonouring(slices.Concat(kept, rest)) {
		return len(rest)
	}
	had, tooMany := 0, len(rest)
	for tooMany-had > 1 && !ps.outOfPlans() {
		if n := (had + tooMany) / 2; ps.tryHonouring(slices.Concat(kept, rest[:n])) {
			had = n
		} else {
			tooMany = n
		}
	}
	return had
}

// tryHonouring makes a plan that honours the items. It keeps the plan when the price is low
// enough and every pod that the plan without preferences places has a place.
func (ps *preferenceSearch) tryHonouring(items []classPreference) bool {
	ps.attempted++
	s := ps.makeAttempt(ps.chosenOf(items), ps.maxPlannedPrice)
	if s.limits.overMaxPrice() {
		return false
	}
	placed := s.placedBy()
	for c, n := range ps.placed {
		if placed[c] < n {
			return false
		}
	}
	if s.limits.spending.spent > ps.maxFinalPrice && s.finalPrice() > ps.maxFinalPrice {
		return false
	}
	ps.best = s
	return true
}

// chosenOf groups the items by class, in the order of preferencesOf.
func (ps *preferenceSearch) chosenOf(items []classPreference) chosenPreferences {
	in := make(map[classPreference]bool, len(items))
	for _, it := range items {
		in[it] = true
	}
	chosen := chosenPreferences{}
	for c, list := range ps.wanted {
		for _, p := range list {
			if in[classPreference{c, p}] {
				chosen[c] = append(chosen[c], p)
			}
		}
	}
	return chosen
}

// withSurplus is the price increased by that many thousandths.
func withSurplus(price offering.Price, thousandths int) offering.Price {
	if thousandths < 0 { // cluster.UnlimitedPreferenceSurplus
		return noMaxPrice
	}
	hi, lo := bits.Mul64(uint64(price), uint64(1000+thousandths))
	if hi >= 1000 {
		return noMaxPrice
	}
	total, _ := bits.Div64(hi, lo, 1000)
	return offering.Price(min(total, uint64(noMaxPrice)))
}

// finalPrice is what the plan will cost. That is at most what was spent, as a first offering
// is never more expensive than the planned one. finalPrice describes no launch, and restores what
// choosing the offerings takes out of limits and quota.
func (s *solver) finalPrice() offering.Price {
	if s.descriptions.described != nil {
		return Plan{Launches: s.descriptions.described}.Price()
	}
	restore := s.limits.save()
	var sum offering.Price
	for _, l := range s.launches.all {
		s.offerings.chooseAndReserve(l)
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

// someNodeOrOffering reports whether pods of the shape could run anywhere if there were no
// other pods.
func (ps *preferenceSearch) someNodeOrOffering(c *cluster.PodShape) bool {
	known, ok := ps.runnable[c]
	if !ok {
		known = ps.someOfferingFits(c) || ps.someNodeAccepts(c)
		ps.runnable[c] = known
	}
	return known
}

// someNodeAccepts reports whether some node accepts the shape.
func (ps *preferenceSearch) someNodeAccepts(c *cluster.PodShape) bool {
	x := ps.snapshot.NodeIndex(c.Keys)
	for _, g := range x.Accepting(c) {
		if !c.UsesHostname {
			return true
		}
		for slot := x.Groups[g].From; slot < x.Groups[g].To; slot++ {
			if node := ps.snapshot.Nodes[x.PositionOf(slot)]; takesPods(node) && node.Accepts(c) {
				return true
			}
		}
	}
	return false
}

// someOfferingFits reports whether the shape fits on some available offering.
func (ps *preferenceSearch) someOfferingFits(c *cluster.PodShape) bool {
	for _, m := range ps.snapshot.PoolCatalogs {
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
