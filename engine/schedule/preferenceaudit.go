package schedule

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// placement is where some pods of one class will be: on a host, or a machine to be bought.
type placement struct {
	work   *podGroup
	launch *launch // nil for a host
	host   int     // index, when launch is nil
	pods   int
}

// house notes a home, when somebody will ask.
func (s *solver) recordPlacement(h placement) {
	if len(s.search.items) > 0 || s.search.sketching {
		s.placements = append(s.placements, h)
	}
}

// account looks at who got what they prefer, once everybody has a home, whatever the
// attempt set out to honour. Machines count as their first choices, and for a spread
// every value where the pods could run or be bought room for.
func (b *preferenceSearch) account(p *Plan) Preferences {
	a := b.audit(p)
	var out Preferences
	for _, c := range b.w.Classes {
		for _, p := range b.wanted[c] {
			out.Asked += len(c.Pods)
			out.Honoured += a.honoured(c, p)
		}
	}
	return out
}

// audit looks at the best attempt, of which p is the plan.
func (b *preferenceSearch) audit(p *Plan) *preferenceAudit {
	a := &preferenceAudit{solver: b.best, plan: p, homesOf: map[*cluster.PodClass][]placement{}, index: map[*launch]int{}, counts: map[countedKey]map[int]int{}}
	for _, h := range b.best.placements {
		a.homesOf[h.work.PodClass] = append(a.homesOf[h.work.PodClass], h)
	}
	for i, l := range b.best.launches {
		a.index[l] = i
	}
	return a
}

// preferenceAudit counts what a finished plan does for its pods.
type preferenceAudit struct {
	*solver
	plan    *Plan
	homesOf map[*cluster.PodClass][]placement
	index   map[*launch]int
	counts  map[countedKey]map[int]int
}

// countedKey names counts of a crowd by the values of a label.
type countedKey struct {
	of  countKey
	key *constraint.Key
}

// honoured counts the pods of the class that have what they prefer.
func (a *preferenceAudit) honoured(c *cluster.PodClass, p preference) int {
	holds := a.judge(c, p)
	n := 0
	for _, h := range a.homesOf[c] {
		if holds(h) {
			n += h.pods
		}
	}
	return n
}

// judge returns what says whether the preference holds for pods at a home.
func (a *preferenceAudit) judge(c *cluster.PodClass, p preference) func(placement) bool {
	switch p.kind {
	case nearOthers:
		n := c.Affinity[p.at]
		counts, self := a.count(countKey{crowd: n.Crowd, real: !c.Virtual}, n.Key), alone(n.Crowd.Selects(c))
		total := 0
		for _, have := range counts {
			total += have
		}
		return func(h placement) bool {
			v := a.value(h, n.Key)
			return v >= 0 && (counts[v] > self || counts[v] == self && self > 0 && total == self)
		}
	case offOthers:
		n := c.AntiAffinity[p.at]
		counts, self := a.count(countKey{crowd: n.Crowd, real: !c.Virtual}, n.Key), alone(n.Crowd.Selects(c))
		return func(h placement) bool {
			v := a.value(h, n.Key)
			return v == missing || v >= 0 && counts[v] == self
		}
	case onLabels:
		return func(h placement) bool { return a.meets(h, c.Preferred[p.at].Term) }
	case spreadOut:
		return a.spread(c, &c.Spreads[p.at])
	}
	return func(h placement) bool {
		if h.launch == nil {
			return !c.AvoidsSoftTaints(a.w.Nodes[h.host].Taints)
		}
		return !c.AvoidsSoftTaints(h.launch.pool.Pool.Taints)
	}
}

// count counts a crowd by the values of a label, with everybody at home. Who runs on
// nodes that take no pods is near nobody who comes, but not the first of its kind either.
func (a *preferenceAudit) count(of countKey, key *constraint.Key) map[int]int {
	name := countedKey{of, key}
	if counts := a.counts[name]; counts != nil {
		return counts
	}
	counts := map[int]int{}
	of.each(a.w, func(h *cluster.NodeInfo, n int) {
		v, ok := h.Value(key)
		if key.Name == cluster.LabelHostname {
			v, ok = h.Index, true // missing where nobody comes
		}
		if ok {
			counts[v] += n
		}
	})
	a.countPlacements(of, counts, func(h placement) int { return a.value(h, key) })
	a.counts[name] = counts
	return counts
}

// settleIn adds the pods that the plan places.
func (a *preferenceAudit) countPlacements(of countKey, counts map[int]int, value func(placement) int) {
	for _, c := range a.w.Classes {
		if !of.counts(c) {
			continue
		}
		for _, h := range a.homesOf[c] {
			if v := value(h); v >= 0 {
				counts[v] += h.pods
			}
		}
	}
}

// spread judges a soft spread by the counts of all nodes that it looks at.
func (a *preferenceAudit) spread(c *cluster.PodClass, e *cluster.TopologySpread) func(placement) bool {
	if e.Key.Name == cluster.LabelHostname {
		counts := a.count(countKey{crowd: e.Crowd, settled: true, real: !c.Virtual}, e.Key)
		return func(h placement) bool { return counts[a.value(h, e.Key)] <= e.MaxSkew }
	}
	t := a.running(spreadKey(c, e, e.Key.Name+"\x00"), []*constraint.Key{e.Key})
	seen := func(h placement) int {
		if h.launch == nil && t.passes(a.w.Nodes[h.host]) || h.launch != nil && a.counting(t, h.launch.pool).Has(h.launch.first) {
			return a.value(h, e.Key)
		}
		return missing
	}
	a.countPlacements(t.of, t.counts, seen)
	r := domainRule{count: t, minDomains: 1}
	least := r.least(append(a.buyable(c, e.Key), a.opened(t)...))
	return func(h placement) bool {
		v := a.value(h, e.Key)
		return v >= 0 && t.counts[v]-least <= e.MaxSkew
	}
}

// buyable lists the values of a label with which something is on sale for the class.
func (a *preferenceAudit) buyable(c *cluster.PodClass, key *constraint.Key) []int {
	var out []int
	for _, m := range a.pools {
		if m.Pool.Blocked != "" || m.Pool.Static {
			continue
		}
		rows := m.Compatible(c.PodShape).All
		for _, cell := range m.Cells([]*constraint.Key{key}) {
			for row := range rows.And(cell.Offerings).All() {
				if m.Catalog.Offerings[row].Unavailable == "" {
					out = append(out, cell.Values[0])
					break
				}
			}
		}
	}
	return out
}

// What value says of a label that a home does not have, or of which it is not
// settled yet which value it will have.
const (
	missing = -1 - iota
	unsettled
)

// value is the value of a label at a home. Hostnames are numbered: those of machines
// to be bought behind all others.
func (a *preferenceAudit) value(h placement, key *constraint.Key) int {
	if h.launch == nil {
		if key.Name == cluster.LabelHostname {
			return h.host
		}
		if v, ok := a.w.Nodes[h.host].Value(key); ok {
			return v
		}
		return missing
	}
	i := a.index[h.launch]
	if key.Name == cluster.LabelHostname {
		return len(a.w.Nodes) + i
	}
	if v, ok := a.plan.Launches[i].Labels[key.Name]; ok {
		return key.ID(v)
	}
	return h.launch.value(key)
}

// value is the value of a label on the launch as its first choice.
func (l *launch) value(key *constraint.Key) int {
	q, asked := l.requirements.set.Get(key)
	found := missing
	for _, c := range l.pool.Cells([]*constraint.Key{key}) {
		v := c.Values[0]
		if v < 0 || !c.Offerings.Has(l.first) || asked && !q.Admits(v) {
			continue
		}
		if found >= 0 {
			return unsettled
		}
		found = v
	}
	return found
}

// meets reports whether a home has labels that meet the term, whatever values those
// that are not settled yet will have.
func (a *preferenceAudit) meets(h placement, term constraint.Set) bool {
	if h.launch == nil {
		return a.w.Nodes[h.host].Matches(term)
	}
	for _, q := range term {
		switch v := a.value(h, q.Key); {
		case q.Key.Name == cluster.LabelHostname:
			return false
		case v == missing && !q.AdmitsAbsent(), v == unsettled, v >= 0 && !q.Admits(v):
			return false
		}
	}
	return true
}
