// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// maxRunnersUp is how many alternatives an explanation names. maxCheaper is how many of them
// may be cheaper while there are more expensive ones to name.
const (
	maxRunnersUp = 3
	maxCheaper   = 2
)

// runnersUpKey is the key by which launches share their runners-up.
type runnersUpKey struct {
	of  *launchDescription
	row int
	// cheaper are the cheaper offerings that would hold the pods, in every pool that could
	// launch the node and, if there is another pool, the shapes of the pods.
	cheaper string
}

// runnersUp names other instance types that a launch could have been: cheaper ones that would
// hold its pods and are unavailable, cheaper ones that the pods or the pools exclude, and the
// next more expensive ones. Launches for which all of that is the same share the result.
func (ds *descriptions) runnersUp(l *launch, d *launchDescription, cheaper bitset.Set) []RunnerUp {
	ds.key = cheaper.Append(ds.key[:0])
	if len(ds.pools.all) > 1 {
		ds.groupShapes = ds.groupShapes[:0]
		for _, g := range l.groups {
			ds.groupShapes = append(ds.groupShapes, ds.shapeNumber(g.shape))
		}
		slices.Sort(ds.groupShapes)
		for _, n := range slices.Compact(ds.groupShapes) {
			ds.key = binary.AppendUvarint(ds.key, uint64(n))
		}
		for _, pool := range ds.pools.all {
			if couldLaunch(pool, l) {
				rows := cheaperHolding(pool, l, d.launch.Offerings[0].Price)
				ds.key = rows.Append(binary.AppendUvarint(ds.key, uint64(rows.Len())))
			}
		}
	}
	key := runnersUpKey{d, l.row, string(ds.key)}
	out, known := ds.runnersUpByKey[key]
	if !known {
		out = ds.compare(l, d, cheaper)
		ds.runnersUpByKey[key] = out
	}
	return out
}

// couldLaunch reports whether the pool could have launched the node instead.
func couldLaunch(pool *poolState, l *launch) bool {
	return pool != l.pool && len(l.groups) > 0 && pool.Pool.Blocked == "" && !pool.Pool.Static
}

// cheaperHolding returns the offerings of a pool below a price that would hold the launch's pods.
func cheaperHolding(pool *poolState, l *launch, price offering.Price) bitset.Set {
	rows := bitset.Upto(sort.Search(len(pool.Catalog.Offerings), func(i int) bool { return pool.Catalog.Offerings[i].Price >= price }))
	pool.DropNotFitting(rows, &l.used)
	return rows
}

// shapeNumber numbers pod shapes in the order in which they are asked for.
func (ds *descriptions) shapeNumber(shape *cluster.PodShape) int {
	n, ok := ds.shapeNumbers[shape]
	if !ok {
		n = len(ds.shapeNumbers)
		ds.shapeNumbers[shape] = n
	}
	return n
}

// compare computes the runners-up of one launch.
func (ds *descriptions) compare(l *launch, d *launchDescription, cheaper bitset.Set) []RunnerUp {
	c := comparison{snapshot: ds.snapshot, quota: ds.quota, topology: ds.topology, requirements: ds.requirements, offerings: ds.offerings, launch: l, first: d.launch.Offerings[0]}
	admitted := ds.offerings.matching(l)
	for row := range cheaper.And(admitted).All() {
		if len(c.unlaunchable) == maxRunnersUp {
			break
		}
		if !c.listsType(c.unlaunchable, l.pool, row) {
			c.addUnlaunchable(row)
		}
	}
	for row := range cheaper.Minus(admitted).And(l.pool.available()).All() {
		if len(c.incompatible) >= maxCheaper {
			break
		}
		if !c.listsType(c.incompatible, l.pool, row) {
			c.addIncompatible(row)
		}
	}
	for _, pool := range ds.pools.all {
		if couldLaunch(pool, l) {
			c.compareOtherPool(pool)
		}
	}
	slices.SortStableFunc(c.unlaunchable, func(a, b RunnerUp) int { return cmp.Compare(a.Price, b.Price) })
	var out []RunnerUp
	out = appendNewTypes(out, c.unlaunchable, maxCheaper)
	out = appendNewTypes(out, c.incompatible, maxCheaper)
	out = appendNewTypes(out, d.moreExpensive, maxRunnersUp)
	if len(out) < maxRunnersUp {
		out = appendNewTypes(out, c.unlaunchable, maxRunnersUp)
		out = appendNewTypes(out, c.incompatible, maxRunnersUp)
		out = appendNewTypes(out, c.tooSmall(cheaper), maxRunnersUp)
	}
	return out
}

// appendNewTypes appends those of more whose instance type is not named yet, until there are
// n.
func appendNewTypes(have, more []RunnerUp, n int) []RunnerUp {
	for _, r := range more {
		if len(have) >= n {
			break
		}
		if !slices.ContainsFunc(have, func(h RunnerUp) bool { return h.Type == r.Type }) {
			have = append(have, r)
		}
	}
	return have
}

// comparison looks for runners-up of one launch.
type comparison struct {
	snapshot     *cluster.Snapshot
	quota        *quota
	topology     *topology
	requirements *requirementSets
	offerings    *offeringChooser

	launch *launch
	first  offering.Ref
	// unlaunchable are cheaper types excluded by stock, quota or limits. incompatible are
	// cheaper types excluded by the pods' requirements or the pools' weights.
	unlaunchable, incompatible []RunnerUp
}

// listsType reports whether the offering's type is the launch's own or in the list already.
func (c *comparison) listsType(list []RunnerUp, pool *poolState, row int) bool {
	name := pool.Catalog.Types[pool.Catalog.Offerings[row].Type].Name
	return name == c.first.Type || slices.ContainsFunc(list, func(r RunnerUp) bool { return r.Type == name })
}

// add adds an offering of a type that is not in the list yet. It calls why only then.
func (c *comparison) add(list *[]RunnerUp, pool *poolState, row int, because reason.Reason, why func() (string, map[string]any)) {
	if c.listsType(*list, pool, row) {
		return
	}
	choice := pool.Catalog.Ref(row)
	words, facts := why()
	*list = append(*list, RunnerUp{
		Ref: choice, Pool: pool.Pool.Name, More: choice.Price - c.first.Price, Because: because, Why: words, Facts: reason.FactsOf(facts),
	})
}

// addUnlaunchable records why an offering that the pods admit could not be launched.
func (c *comparison) addUnlaunchable(row int) {
	pool := c.launch.pool
	switch r := &pool.Catalog.Offerings[row]; {
	case r.Unavailable != "":
		c.add(&c.unlaunchable, pool, row, reason.Availability, func() (string, map[string]any) { return explainUnavailable(r) })
	case c.launch.isForOwed() && pool.tooSmall.Has(row):
		c.add(&c.unlaunchable, pool, row, reason.Resources, func() (string, map[string]any) {
			return "too small for the pods that are to come", map[string]any{"room": map[string]int64(c.snapshot.Resources.Amounts(pool.Allocatable[row]))}
		})
	case !c.quota.covers(r, pool.Catalog.Offerings[c.launch.row].QuotaUses):
		kind, why := c.quota.explainShortage(pool, row)
		c.add(&c.unlaunchable, pool, row, kind, why)
	case !c.topology.inCountedDomains(pool).Has(row):
		c.add(&c.incompatible, pool, row, reason.Topology, func() (string, map[string]any) {
			return "the pods' spread does not count a node there", map[string]any{"zone": r.Zone}
		})
	default:
		c.add(&c.unlaunchable, pool, row, reason.Limits, func() (string, map[string]any) { return c.explainLimit(row) })
	}
}

func explainUnavailable(r *offering.CatalogOffering) (string, map[string]any) {
	return r.Unavailable, map[string]any{"cause": r.Unavailable, "zone": r.Zone, "capacityType": r.CapacityType}
}

// explainLimit names the limit that an offering would exceed in place of the planned one.
func (c *comparison) explainLimit(row int) (string, map[string]any) {
	pool := c.launch.pool
	for _, d := range pool.Limited {
		left, more := max(0, pool.left[d]), pool.capacity(row)[d]-pool.capacity(c.launch.row)[d]
		if more > left {
			name := c.snapshot.Resources.Name(d)
			return fmt.Sprintf("limits.%s has %s left, it would take %s more", name, quantity.Format(name, left), quantity.Format(name, more)),
				map[string]any{"limit": name, "value": pool.Pool.Limits[name], "left": left, "needed": more}
		}
	}
	if u := pool.uncounted(row); u != nil {
		return pool.explainUncounted(u)
	}
	return "beyond the pool's limits", nil
}

// addIncompatible records the first requirement that keeps the pods off an offering of their
// pool, or the DaemonSets that use their host ports there.
func (c *comparison) addIncompatible(row int) {
	pool := c.launch.pool
	for _, q := range c.launch.requirements.set() {
		if pool.Catalog.HasLabel(q.Key) && !pool.Catalog.Matches(row, q) {
			c.addExcludedBy(pool, row, q)
			return
		}
	}
	for _, g := range c.launch.groups {
		if ports := pool.PortsTaken(g.shape, bitset.Of(row)); len(ports) > 0 {
			c.add(&c.incompatible, pool, row, reason.Ports, func() (string, map[string]any) {
				return "a DaemonSet takes host port " + strings.Join(ports, ", "), map[string]any{"ports": ports}
			})
			return
		}
	}
}

func (c *comparison) addExcludedBy(pool *poolState, row int, q constraint.Requirement) {
	because, words := reason.Requirements, q.String()
	switch {
	case c.topology.countsBy(q.Key):
		because, words = reason.Topology, q.String()+", to be near or apart from others"
	case c.onlyPreferencesExclude(pool, row):
		because, words = reason.Preference, q.String()+", which pods prefer"
	}
	c.add(&c.incompatible, pool, row, because, func() (string, map[string]any) {
		return words, map[string]any{"requirement": q.String(), "key": q.Key.Name}
	})
}

// onlyPreferencesExclude reports whether the offering meets what all pods of the launch
// require, so that only their preferences exclude it.
func (c *comparison) onlyPreferencesExclude(pool *poolState, row int) bool {
	insists := false
	for _, g := range c.launch.groups {
		insists = insists || g.shape != g.class.PodShape
		if !pool.Compatible(g.class.PodShape).All.Has(row) {
			return false
		}
	}
	return insists
}

// countsBy reports whether some rule about other pods (spread, affinity or anti-affinity)
// counts by the label.
func (t *topology) countsBy(k *constraint.Key) bool {
	return slices.ContainsFunc(t.countList, func(dc *domainCount) bool { return dc.key == k })
}

// compareOtherPool looks for cheaper offerings of another pool that every pod of the launch
// could use.
func (c *comparison) compareOtherPool(pool *poolState) {
	rows := cheaperHolding(pool, c.launch, c.first.Price)
	for _, g := range c.launch.groups {
		if rows.Empty() {
			return
		}
		rows.Keep(pool.Compatible(g.shape).All)
	}
	for row := range rows.All() {
		if len(c.unlaunchable) >= 2*maxRunnersUp || len(c.incompatible) >= 2*maxRunnersUp {
			return
		}
		if !(c.listsType(c.unlaunchable, pool, row) && c.listsType(c.incompatible, pool, row)) && c.canHoldTogether(pool, row) {
			c.addFromOtherPool(pool, row)
		}
	}
}

func (c *comparison) addFromOtherPool(pool *poolState, row int) {
	switch r := &pool.Catalog.Offerings[row]; {
	case r.Unavailable != "":
		c.add(&c.unlaunchable, pool, row, reason.Availability, func() (string, map[string]any) { return explainUnavailable(r) })
	case !c.quota.covers(r, nil):
		kind, why := c.quota.explainShortage(pool, row)
		c.add(&c.unlaunchable, pool, row, kind, why)
	case !pool.withinLimits(row):
		c.add(&c.unlaunchable, pool, row, reason.Limits, func() (string, map[string]any) { return pool.explainLimits(c.snapshot, bitset.Of(row)) })
	case pool.Pool.Weight < c.launch.pool.Pool.Weight:
		c.add(&c.incompatible, pool, row, reason.Weight, func() (string, map[string]any) { return explainWeight(pool, c.launch.pool) })
	}
}

func explainWeight(pool, chosen *poolState) (string, map[string]any) {
	return fmt.Sprintf("NodePool %s has weight %d, %s has %d", pool.Pool.Name, pool.Pool.Weight, chosen.Pool.Name, chosen.Pool.Weight),
		map[string]any{"weight": int(pool.Pool.Weight), "chosenWeight": int(chosen.Pool.Weight)}
}

// canHoldTogether reports whether the pods can be together on a node of that offering, in the
// domains that other pods leave them.
func (c *comparison) canHoldTogether(pool *poolState, row int) bool {
	for _, q := range c.launch.requirements.set() {
		if c.topology.countsBy(q.Key) && pool.Catalog.HasLabel(q.Key) && !pool.Catalog.Matches(row, q) {
			return false
		}
	}
	reqs := pool.base
	for _, g := range c.launch.groups {
		next, ok := c.requirements.join(reqs, pool, row, pool.Compatible(g.shape), &allotment{group: g})
		if !ok {
			return false
		}
		reqs = next
	}
	return true
}

// tooSmall is the most expensive of the cheaper types that only their size excludes.
func (c *comparison) tooSmall(cheaper bitset.Set) []RunnerUp {
	l, last := c.launch, -1
	for row := range c.offerings.choosable(l).Minus(cheaper).All() {
		if row >= l.first {
			break
		}
		if l.pool.Catalog.Offerings[row].Type != l.pool.Catalog.Offerings[l.first].Type {
			last = row
		}
	}
	var out []RunnerUp
	if last >= 0 {
		c.add(&out, l.pool, last, reason.Resources, func() (string, map[string]any) {
			return "too small for the pods", map[string]any{"room": map[string]int64(c.snapshot.Resources.Amounts(l.pool.Allocatable[last]))}
		})
	}
	return out
}

// addMoreExpensive adds c to the types that are next in price, if its type is not named yet.
func addMoreExpensive(have []RunnerUp, pool string, first, c offering.Ref) []RunnerUp {
	if len(have) == maxRunnersUp || c.Type == first.Type {
		return have
	}
	why := "higher price"
	if c.Price == first.Price {
		why = "same price, later in the order of the catalog"
	}
	return appendNewTypes(have, []RunnerUp{{Ref: c, Pool: pool, More: c.Price - first.Price, Because: reason.HigherPrice, Why: why}}, maxRunnersUp)
}
