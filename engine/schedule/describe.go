// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// mostTypes is how many instance types a NodeClaim lists: Karpenter's MaxInstanceTypes.
const mostTypes = 600

// plan makes the Plan of what was decided.
func (s *solver) plan() Plan {
	var p Plan
	if s.search.barred {
		s.openPools() // to explain what could have been launched
	}
	for _, i := range slices.Sorted(maps.Keys(s.nodes.nominations)) {
		p.Nominations = append(p.Nominations, Nomination{Node: s.w.Nodes[i].Key, Pods: s.nodes.nominations[i]})
	}
	p.Launches = s.descriptions.purchases()
	p.Unplaced = s.leftOut()
	p.Unimproved = s.improved.unexamined
	if !s.search.boundless {
		p.LowerBound = s.lowerBound()
	}
	return p
}

// descriptions turns the attempt's launches into the Launches of the plan.
type descriptions struct {
	w            *cluster.Snapshot
	pools        *poolList
	launches     *launchList
	quota        *quota
	topology     *topology
	requirements *requirementSets
	variety      *variety
	acceptable   *acceptable
	purchased    []Launch // see purchases
	labels       map[describedKey]*described
	rivals       map[runnersUpKey][]RunnerUp // see runnersUp
	numbers      map[*cluster.PodShape]int   // see number
	key          []byte                      // scratch: of a set of offerings
	company      []int                       // scratch: the pod shapes on a launch
}

// purchases describes the launches. It does so only once, because describing them reserves
// limits.
func (s *descriptions) purchases() []Launch {
	if s.purchased == nil {
		for _, l := range s.launches.all {
			s.purchased = append(s.purchased, s.describe(l))
		}
	}
	return s.purchased
}

// described is what alike launches share.
type described struct {
	launch Launch
	dearer []RunnerUp // the next offerings of other instance types
}

// describedKey is the key by which alike launches share their description.
type describedKey struct {
	pool         *cluster.PoolCatalog
	requirements *nodeRequirements
	rows         string
}

// describe turns a launch into rules for a NodeClaim and a list of offerings. Launches that
// accept the same offerings with the same requirements share both.
func (s *descriptions) describe(l *launch) Launch {
	pool := l.pool
	rows := s.acceptable.choose(l)
	s.key = rows.Append(s.key[:0])
	d := s.labels[describedKey{pool.PoolCatalog, l.requirements, string(s.key)}]
	if d == nil {
		d = s.describeAnew(l, rows)
		s.labels[describedKey{pool.PoolCatalog, l.requirements, string(s.key)}] = d
	}
	out := d.launch
	out.RunnersUp = s.runnersUp(l, d)
	out.Pods = l.pods
	out.Requests = s.w.Resources.Amounts(l.used.Add(pool.DaemonOverhead[l.row]))
	out.Daemons = s.w.Resources.Amounts(pool.DaemonOverhead[l.row])
	return out
}

// acceptable finds the offerings that a launch accepts.
type acceptable struct {
	limits      *limits
	quota       *quota
	topology    *topology
	variety     *variety
	rows, spare bitset.Set // scratch: see choices
	held        bitset.Set // scratch: the offerings that hold a launch's pods
}

// choose lists the launch's offerings and sets the first. The set is valid until the next
// call.
func (s *acceptable) choose(l *launch) bitset.Set {
	rows := s.choices(l)
	l.first = rows.First()
	s.limits.swapQuota(l)
	return rows
}

func (s *descriptions) describeAnew(l *launch, rows bitset.Set) *described {
	pool := l.pool
	out := Launch{Pool: pool.Pool.Name, Taints: pool.Pool.Taints, Labels: maps.Clone(pool.Pool.Labels)}
	var types, zones, capacityTypes []string
	var next []RunnerUp
	named := make([]bool, len(pool.Catalog.Types))
	out.Offerings = make([]offering.Ref, 0, rows.Len())
	for row := range rows.All() {
		c := pool.Catalog.Ref(row)
		out.Offerings = append(out.Offerings, c)
		if t := pool.Catalog.Offerings[row].Type; !named[t] {
			named[t], types = true, append(types, c.Type)
			next = dearer(next, pool.Pool.Name, out.Offerings[0], c)
		}
		zones, capacityTypes = distinct(zones, c.Zone), distinct(capacityTypes, c.CapacityType)
	}
	slices.Sort(zones)
	slices.Sort(capacityTypes)
	chosen := s.variety.listed(l, rows)
	chosen[cluster.LabelInstanceType], chosen[cluster.LabelZone], chosen[cluster.LabelCapacityType] = types, zones, capacityTypes
	out.Rules = s.rules(l, chosen)
	out.Labels = settled(out.Labels, out.Rules)
	out.Relaxed = s.variety.shortOf(l, rows)
	return &described{launch: out, dearer: next}
}

// settled adds the labels to which the rules leave one value. Only the pool sets such a
// label: without it here the node would not have it, and kube-scheduler would never bind the
// pods there that it was launched for.
func settled(labels map[string]string, rules []constraint.Rule) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	for _, r := range rules {
		if r.Operator == constraint.In && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	return labels
}

// distinct appends v unless it is there.
func distinct(values []string, v string) []string {
	if slices.Contains(values, v) {
		return values
	}
	return append(values, v)
}

// choices lists the offerings that hold the launch's pods, and reserves in the limits what the
// largest of them takes beyond the planned one: whichever is launched in the end, the pool
// keeps within its limits. The set is valid until the next call.
func (s *acceptable) choices(l *launch) bitset.Set {
	pool := l.pool
	s.held.Copy(pool.Offerings)
	pool.DropWithoutRoom(s.held, &l.used)
	s.rows.Copy(s.open(l))
	out := s.rows
	out.Keep(s.held)
	if pool.varied() {
		s.spare.Copy(out)
	}
	if s.limits.scarceIn(pool).Meets(out) {
		s.dropScarce(l, out)
	}
	if len(pool.Limited)+len(pool.Uncounted) > 0 {
		s.dropOverLimits(l, out)
	}
	if pool.varied() {
		s.variety.putBack(l, &out, s.spare)
	}
	if len(pool.Catalog.Types) > mostTypes {
		s.firstTypes(l, out, mostTypes)
	}
	out.Put(l.row) // it was reserved, even if quota or other launches exclude it now
	return out
}

// open returns the available offerings that meet the launch's requirements.
func (s *acceptable) open(l *launch) bitset.Set {
	j := l.requirements
	if j.open == nil {
		j.open = s.admitted(l).And(s.topology.known(l.pool))
		j.open.Keep(l.pool.onSale())
	}
	return j.open
}

// admitted returns the offerings on which the launch's requirements hold.
func (s *acceptable) admitted(l *launch) bitset.Set {
	j := l.requirements
	if j.admitted == nil {
		j.admitted = j.rows.And(l.pool.Matching(j.set))
	}
	return j.admitted
}

// onSale returns the offerings that are available.
func (pool *poolState) onSale() bitset.Set {
	if pool.sale == nil {
		pool.sale = bitset.Upto(len(pool.Catalog.Offerings))
		for i := range pool.Catalog.Offerings {
			if pool.Catalog.Offerings[i].Unavailable != "" {
				pool.sale.Drop(i)
			}
		}
	}
	return pool.sale
}

func (s *acceptable) dropScarce(l *launch, rows bitset.Set) {
	reserved := l.pool.Catalog.Offerings[l.row].QuotaUses
	for row := range rows.And(s.limits.scarceIn(l.pool)).All() {
		if !s.quota.covers(&l.pool.Catalog.Offerings[row], reserved) {
			rows.Drop(row)
		}
	}
}

// dropOverLimits keeps the offerings that the pool's limits allow, and reserves what the
// largest of them takes.
func (s *acceptable) dropOverLimits(l *launch, rows bitset.Set) {
	pool := l.pool
	for _, u := range pool.Uncounted {
		for row := range rows.And(u.Rows).All() {
			rows.Drop(row)
		}
	}
	planned := pool.capacity(l.row)
	if l.claim != nil {
		planned = l.claim
	}
	for _, d := range pool.Limited {
		for _, row := range pool.descending(d) {
			if pool.capacity(row)[d]-planned[d] <= max(0, pool.left[d]) {
				break
			}
			rows.Drop(row)
		}
	}
	var extra quantity.Vector
	for _, d := range pool.Limited {
		for _, row := range pool.descending(d) {
			if rows.Has(row) {
				extra[d] = max(0, pool.capacity(row)[d]-planned[d])
				break
			}
		}
	}
	pool.left = pool.left.Sub(extra)
}

// capacity is what a node of the offering counts against limits.
func (pool *poolState) capacity(row int) *quantity.Vector {
	return &pool.Catalog.Capacity[pool.Catalog.Offerings[row].Type]
}

// descending lists the offerings by their capacity of one resource, the largest first.
func (pool *poolState) descending(d quantity.Dim) []int {
	if pool.bySize == nil {
		pool.bySize = map[quantity.Dim][]int{}
	}
	rows, ok := pool.bySize[d]
	if !ok {
		rows = slices.Collect(pool.Offerings.All())
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(pool.capacity(b)[d], pool.capacity(a)[d]) })
		pool.bySize[d] = rows
	}
	return rows
}

// firstTypes keeps the offerings of n instance types: first those without which there would
// be too little variety, then the others in order.
func (s *acceptable) firstTypes(l *launch, rows bitset.Set, n int) {
	c := l.pool.Catalog
	seen := make([]bool, len(c.Types))
	if l.pool.varied() {
		n -= s.variety.needed(l, rows, seen)
	}
	for row := range rows.All() {
		switch t := c.Offerings[row].Type; {
		case seen[t]:
		case n <= 0:
			rows.Drop(row)
		default:
			seen[t] = true
			n--
		}
	}
}

// known returns the offerings in domains that every spread counts: a node elsewhere would
// open a domain in which the pods on other nodes were not counted.
func (s *topology) known(pool *poolState) bitset.Set {
	if pool.known != nil {
		return pool.known
	}
	pool.known = pool.Offerings.Clone()
	for _, t := range s.order {
		if len(t.keys) == 0 || !t.hard {
			continue
		}
		rows := &s.reckoned
		rows.Copy(pool.Offerings)
		rows.Cut(s.counting(t, pool))
		for _, c := range pool.Cells([]*constraint.Key{t.key}) {
			if v := c.Values[0]; v < 0 || t.domains[v] || slices.Contains(s.opened(t), v) {
				rows.Merge(c.Offerings)
			}
		}
		pool.known.Keep(*rows)
	}
	return pool.known
}

// rules describe the launch's requirements. Instance types, zones and capacity types are
// those of its offerings, cheapest first. A label that the pool leaves open gets one value: a
// node cannot carry "any".
func (s *descriptions) rules(l *launch, chosen map[string][]string) []constraint.Rule {
	var out []constraint.Rule
	written := map[string]bool{}
	for _, q := range l.requirements.set {
		key := q.Key.Name
		if key == cluster.LabelHostname {
			continue
		}
		written[key] = true
		switch values, ok := chosen[key]; {
		case ok:
			out = append(out, constraint.Rule{Key: key, Operator: constraint.In, Values: values})
		case l.pool.Catalog.HasLabel(q.Key):
			out = append(out, q.Rules()...)
		default:
			out = append(out, singleValue(q)...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(chosen)) {
		if !written[key] {
			out = append(out, constraint.Rule{Key: key, Operator: constraint.In, Values: chosen[key]})
		}
	}
	slices.SortStableFunc(out, func(a, b constraint.Rule) int {
		switch {
		case a.Key < b.Key:
			return -1
		case a.Key > b.Key:
			return 1
		}
		return 0
	})
	return out
}

// singleValue sets one value for a label that only the pool sets on its nodes.
func singleValue(q constraint.Requirement) []constraint.Rule {
	if q.AdmitsAbsent() {
		return q.Rules()
	}
	if v, ok := q.Any(); ok {
		return []constraint.Rule{{Key: q.Key.Name, Operator: constraint.In, Values: []string{v}}}
	}
	return []constraint.Rule{{Key: q.Key.Name, Operator: constraint.In, Values: []string{q.Fresh("true")}}}
}
