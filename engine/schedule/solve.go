package schedule

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
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
func Solve(w *cluster.Snapshot) Plan {
	b := newPreferenceSearch(w)
	plain := b.attempt(nil, noMaxPrice)
	if len(b.items) == 0 {
		return plain.plan()
	}
	return b.choose(plain)
}

// solver holds what one attempt changes: what is left of everything.
type solver struct {
	w          *cluster.Snapshot
	learned    *learned
	podGroups  []*podGroup
	allotments []*allotment
	used       map[int]*quantity.Vector                  // room left, by host that pods were promised
	indexed    map[*cluster.NodeIndex]*cluster.FreeSpace // the same, as copies of the World's indexes; see rooms
	many       bool                                      // pods to be placed
	mounts     map[int]map[cluster.Mount]bool
	pools      []*poolState // per w.Markets
	budgets    map[string]int64
	launches   []*launch
	purchased  []Launch                 // see purchases
	nominees   map[int][]cluster.PodRef // by host index
	// spent is what the launches cost as planned. An attempt that would spend more
	// than its purse is broke: it stops buying and comes to nothing.
	spent, maxPrice offering.Price
	overMaxPrice    bool
	last            bool // nobody sells to those who find nothing now
	search          *preferenceSearch
	honoured        honoured
	placements      []placement

	terms            *terms
	counters         counters
	domainCounts     map[domainCountKey]*domainCount
	domainCountOrder []*domainCount
	compatible       map[fitKey]*cluster.Compatible
	nodeRequirements map[joinKey]*nodeRequirements
	interned         map[string][]*nodeRequirements
	reached          map[*domainCount][]int // see opened
	launchSummary    *launchSummary         // while launches stay as they are
	sales            map[saleKey][]cell     // see onSale
	freed            bool                   // machines were given back, with the limits and quota that they took
	confined         bool                   // nothing is bought where a spread does not reckon with it
	draws            map[string]int64       // see largestDraw
	spreadFilters    map[nodeFilter]*spreadFilter
	lookedAt         map[throughKey][]bitset.Set // see through
	labels           map[describedKey]*described
	rivals           map[runnersUpKey][]RunnerUp // see runnersUp
	numbers          map[*cluster.PodShape]int   // see number

	key     []byte     // scratch: of a set of rows
	rows    bitset.Set // scratch: see choices
	held    bitset.Set // scratch: the rows that hold a launch's pods
	company []int      // scratch: the shapes on a launch

	orders   int          // changes of limits and quota so far
	relaxing bool         // what is bought may have less variety than minValues ask for
	kept     bitset.Set   // scratch: see holding
	reckoned bitset.Set   // scratch: see known
	common   bitset.Set   // scratch: see joinAnew
	spare    bitset.Set   // scratch: see choices
	seen     []bitset.Set // scratch: see values
	had      []int        // scratch: see values

	// improving is how many steps improve took, and unimproved how many machines it left alone as
	// its bounds were reached.
	improving, unimproved int
}

// podGroup is a class with the pods still to be placed. Pods that no longer insist on
// what others of their class still do are work of their own.
type podGroup struct {
	*cluster.PodClass
	*cluster.PodShape                  // the class's, narrowed by what the stance insists on
	Pods              []cluster.PodRef // of the class, as far as this work is about them
	held              heldPreferences
	placed            int
	promised          int // pods in parts that are to be bought for
	nodeRules         nodeRules
	keys              []*constraint.Key // labels but the hostname over which places differ for it
	rules             []domainRule
	increments        []increment
	spreadFilters     []*spreadFilter
	cells             []*cell
}

// left is how many pods have no place yet, not even an intended one.
func (k *podGroup) left() int { return len(k.Pods) - k.placed - k.promised }

// take hands out the next n pods.
func (k *podGroup) take(n int) []cluster.PodRef {
	pods := k.Pods[k.placed : k.placed+n]
	k.placed += n
	return pods
}

func newPodGroup(c *cluster.PodClass, pods []cluster.PodRef, t heldPreferences) *podGroup {
	return &podGroup{PodClass: c, PodShape: c.Requiring(t.terms, t.offTaints), Pods: pods, held: t}
}

func newSolver(b *preferenceSearch, l *learned, d honoured, purse offering.Price) *solver {
	w := b.w
	s := &solver{search: b, honoured: d, w: w, learned: l, maxPrice: purse, budgets: maps.Clone(w.QuotaLeft), nominees: map[int][]cluster.PodRef{}, mounts: map[int]map[cluster.Mount]bool{},
		compatible: map[fitKey]*cluster.Compatible{}, nodeRequirements: map[joinKey]*nodeRequirements{}, interned: map[string][]*nodeRequirements{}, reached: map[*domainCount][]int{}, sales: map[saleKey][]cell{},
		draws: map[string]int64{}, spreadFilters: map[nodeFilter]*spreadFilter{}, lookedAt: map[throughKey][]bitset.Set{}, labels: map[describedKey]*described{},
		rivals: map[runnersUpKey][]RunnerUp{}, numbers: map[*cluster.PodShape]int{}}
	s.used, s.indexed, s.many = map[int]*quantity.Vector{}, map[*cluster.NodeIndex]*cluster.FreeSpace{}, !fewPods(w)
	for _, c := range w.Classes {
		var t heldPreferences
		if honour := d[c]; len(honour) > 0 && !l.plain[c] && !l.unplaceable[c] {
			t = b.held(c, honour)
		}
		s.podGroups = append(s.podGroups, newPodGroup(c, c.Pods, t))
	}
	if !b.barred {
		s.openPools()
	}
	s.terms = termsOf(w)
	s.compileNodeRules()
	s.domainRules()
	return s
}

// openStalls lays out the markets.
func (s *solver) openPools() {
	for _, m := range s.w.Catalogs {
		stall := &poolState{PoolCatalog: m, sale: onSale(s.w, m), left: m.Left, nodesLeft: m.NodesLeft, base: s.intern(m.Base, m.Offerings), pods: map[*cluster.PodShape]int{}, crowded: map[int]apartness{}}
		stall.minValues = s.newMinValues(stall)
		s.pools = append(s.pools, stall)
	}
}

// run finds homes for all virtual pods, or for all others; false when there are none.
func (s *solver) run(virtual bool) bool {
	groups := slices.DeleteFunc(s.byPriority(), func(g []*podGroup) bool { return g[0].Virtual != virtual })
	s.runAll(groups)
	return len(groups) > 0
}

func (s *solver) runAll(groups [][]*podGroup) {
	for i, group := range groups {
		groups[i] = s.place(group)
	}
	// Urgent pods may have to join pods that are less urgent.
	for {
		var late []*podGroup
		before := 0
		for _, group := range groups {
			for _, k := range group {
				if k.left() > 0 && k.hasAffinity() {
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
func (s *solver) place(group []*podGroup) []*podGroup {
	var all []*podGroup
	for len(group) > 0 {
		parts, met := s.assign(group)
		all = append(all, met...)
		s.allotments = append(s.allotments, parts...)
		s.buyAll(parts)
		s.fillLaunches(parts)
		s.comeBack(parts)
		group = s.unhoused(parts)
	}
	return all
}

// buyAll puts pods into what is being bought, and buys more for the others.
func (s *solver) buyAll(parts []*allotment) {
	s.fillLaunches(parts)
	tiers := s.tiers()
	for i, tier := range tiers {
		s.last = i == len(tiers)-1
		s.buyFrom(tier, parts)
	}
}

// comeBack looks at the hosts again for pods that must join others there: those
// may have come after them.
func (s *solver) comeBack(parts []*allotment) {
	for _, p := range parts {
		n := p.left()
		if n == 0 || p.cell != nil || len(p.nodeRules.needs) == 0 {
			continue
		}
		p.want, p.promised = p.want-n, p.promised-n
		s.fillNodes(p.podGroup)
		p.want, p.promised = p.want+p.podGroup.left(), p.promised+p.podGroup.left()
	}
}

// byPriority groups the classes, urgent ones first: when limits or quota cannot
// serve everyone, what is scarce goes to them.
func (s *solver) byPriority() [][]*podGroup {
	var out [][]*podGroup
	for _, k := range s.podGroups {
		if k.PodClass.Refused != "" || s.learned.unplaceable[k.PodClass] {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].Priority == k.Priority && out[n-1][0].Virtual == k.Virtual {
			out[n-1] = append(out[n-1], k)
			continue
		}
		out = append(out, []*podGroup{k})
	}
	return out
}

// tiers groups the markets of equal pool weight, heaviest first.
func (s *solver) tiers() [][]*poolState {
	var out [][]*poolState
	for _, m := range s.pools {
		if m.Pool.Blocked != "" || m.Pool.Static {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].Pool.Weight == m.Pool.Weight {
			out[n-1] = append(out[n-1], m)
			continue
		}
		out = append(out, []*poolState{m})
	}
	return out
}
