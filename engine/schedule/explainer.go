// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// explainer says why pods cannot be placed, by the state at the end of the decision. Classes of
// one shape share everything but what depends on other pods.
type explainer struct {
	snapshot  *cluster.Snapshot
	pools     *poolList
	quota     *quota
	counters  *counters
	topology  *topology
	minValues *minValuesChecker
	learned   *learned
	cells     *cellFinder
	// mustNotOpenDomains is set when launches were dropped: the capacity that this released is
	// launched only in domains that every spread counts.
	mustNotOpenDomains bool
	funnels            map[funnelKey]*funnelBuilder
}

type funnelKey struct {
	pool  *cluster.PoolCatalog
	shape *cluster.PodShape
}

// funnelBuilder is a funnel being made. passed are the offerings that no filter removed so far.
type funnelBuilder struct {
	funnel reason.Funnel
	passed bitset.Set
}

// leftOut lists the pods without a place, and why.
func (s *solver) leftOut() []Unplaced {
	var out []Unplaced
	e := explainer{snapshot: s.snapshot, pools: &s.pools, quota: &s.quota, counters: &s.counters, topology: &s.topology, minValues: &s.minValues, learned: s.learned, cells: &s.cells,
		mustNotOpenDomains: s.launches.someDropped, funnels: map[funnelKey]*funnelBuilder{}}
	for _, g := range s.podGroups {
		if g.placed < len(g.pods) {
			out = append(out, e.unplaced(g))
		}
	}
	return out
}

// unplaced says why the rest of a pod group has no place.
func (e *explainer) unplaced(g *podGroup) Unplaced {
	u := Unplaced{Pods: g.pods[g.placed:], Because: g.class.Refused, Detail: g.class.Detail, Facts: g.class.Facts}
	if g.class.Refused != "" {
		return u
	}
	if g.waits != nil && g.waits.claim != "" {
		u.Because, u.Detail, u.Facts = g.waits.explain()
		return u
	}
	if len(e.pools.all) == 0 {
		u.Because, u.Detail = reason.NoNodePools, "there is no NodePool to launch nodes from"
		return u
	}
	best := -1
	if e.learned.unplaceable[g.class] {
		u.Detail = "the topology domains that the other pods with the same constraints need are not available, so none of them can be placed"
	}
	for _, pool := range e.pools.all {
		f := e.funnelOf(pool, g)
		u.Funnels = append(u.Funnels, f)
		if rank := rankOf(f); rank > best {
			best, u.Because = rank, because(f)
		}
	}
	return u
}

// because is the reason that removed the last offerings of the funnel.
func because(f reason.Funnel) reason.Reason {
	if cut, ok := f.Last(); ok {
		return cut.By
	}
	return f.Blocked
}

// reasonsByCloseness lists the reasons, those that say least first: of several pools, the one
// whose last offering was cut for the latest reason here explains the pod best.
func reasonsByCloseness() []reason.Reason {
	return []reason.Reason{
		reason.Static, reason.NodePoolNotReady, reason.Unsupported, reason.NoOfferings, reason.Taints, reason.Requirements,
		reason.Resources, reason.Volumes, reason.Ports, reason.Limits, reason.Quota, reason.Addresses,
		reason.Availability, reason.MinValues, reason.Topology,
	}
}

// rankOf ranks a funnel by the reason that cut its last offering: see reasonsByCloseness.
func rankOf(f reason.Funnel) int {
	return max(0, slices.Index(reasonsByCloseness(), because(f)))
}

// funnelOf follows one pool's offerings through the filters.
func (e *explainer) funnelOf(pool *poolState, g *podGroup) reason.Funnel {
	key := funnelKey{pool.PoolCatalog, g.class.PodShape}
	if e.funnels[key] == nil {
		e.funnels[key] = e.startFunnel(pool, g.class.PodShape)
	}
	fb := *e.funnels[key]
	fb.funnel.Cuts = slices.Clip(fb.funnel.Cuts)
	if fb.funnel.Blocked == "" {
		e.explainMinValues(&fb, pool, g)
		e.explainClosed(&fb, pool, g)
	}
	if fb.funnel.Blocked == "" && g.restrictedByPods() {
		e.explainTopology(&fb, pool, g)
	}
	if fb.funnel.Blocked == "" && !fb.passed.Empty() {
		e.explainOpening(&fb, pool, g)
	}
	return fb.funnel
}

// explainClosed cuts the offerings that are closed to virtual pods; see spreadOverNodes.
func (e *explainer) explainClosed(fb *funnelBuilder, pool *poolState, g *podGroup) {
	if g.class.Virtual {
		fb.cut(reason.Topology, pool.closed, func(bitset.Set) (string, map[string]any) {
			return "pods are spread over the nodes there are, and would be too uneven with one more", map[string]any{"type": spreadRule.String()}
		})
	}
}

// explainOpening cuts the offerings of which none is launched for pods of the group, as they open a domain
// that would take places from pods; see placeAndImprove and retryUnplaced.
func (e *explainer) explainOpening(fb *funnelBuilder, pool *poolState, g *podGroup) {
	fb.cut(reason.Topology, pool.Offerings.Minus(e.topology.keepingPlaces(pool, g.class.PodShape)), func(bitset.Set) (string, map[string]any) {
		return "pods are spread over the topology domains there are, and would be too uneven with one more", map[string]any{"type": spreadRule.String()}
	})
}

// startFunnel follows the offerings through the filters that do not depend on other pods.
func (e *explainer) startFunnel(pool *poolState, shape *cluster.PodShape) *funnelBuilder {
	f := reason.Funnel{Pool: pool.Pool.Name, Offerings: len(pool.Catalog.Offerings), Blocked: pool.Pool.Blocked, Detail: pool.Pool.BlockedDetail, Facts: pool.Pool.BlockedFacts}
	if f.Blocked == "" && pool.Pool.Static {
		f.Blocked, f.Detail = reason.Static, "the pool keeps a fixed number of nodes"
	}
	if f.Blocked == "" && f.Offerings == 0 {
		f.Blocked, f.Detail = reason.NoOfferings, fmt.Sprintf("node class %q has no offerings", pool.Pool.NodeClass)
		f.Facts = reason.FactsOf(map[string]any{"nodeClass": pool.Pool.NodeClass})
	}
	if f.Blocked != "" {
		return &funnelBuilder{funnel: f}
	}
	f.Cuts = pool.Funnel(shape, e.snapshot)
	fb := &funnelBuilder{f, pool.Compatible(shape).All}
	fb.cutFailing(reason.Limits, pool.withinLimits, func(out bitset.Set) (string, map[string]any) { return pool.explainLimits(e.snapshot, out) })
	for _, kind := range []reason.Reason{reason.Quota, reason.Addresses} {
		fb.cutFailing(kind, func(row int) bool { return !e.quota.isShortFor(&pool.Catalog.Offerings[row], kind) }, func(out bitset.Set) (string, map[string]any) { return e.quota.explainQuota(pool, out, kind) })
	}
	fb.cutFailing(reason.Availability, func(row int) bool { return pool.Catalog.Offerings[row].Unavailable == "" }, pool.explainAvailability)
	return fb
}

// cutFailing drops the offerings that do not pass.
func (fb *funnelBuilder) cutFailing(by reason.Reason, pass func(int) bool, why func(out bitset.Set) (string, map[string]any)) {
	var out bitset.Set
	for row := range fb.passed.All() {
		if !pass(row) {
			out.Put(row)
		}
	}
	fb.cut(by, out, why)
}

// cut removes the offerings in out and records how many they were.
func (fb *funnelBuilder) cut(by reason.Reason, out bitset.Set, why func(out bitset.Set) (string, map[string]any)) {
	out = fb.passed.And(out)
	if out.Empty() {
		return
	}
	detail, facts := why(out)
	fb.funnel.Cuts = append(fb.funnel.Cuts, reason.Cut{By: by, Removed: out.Len(), Detail: detail, Facts: reason.FactsOf(facts)})
	fb.passed = fb.passed.Minus(out)
}

// explainLimits names the limit that most of the offerings would exceed.
func (pool *poolState) explainLimits(snapshot *cluster.Snapshot, rows bitset.Set) (string, map[string]any) {
	if pool.nodesLeft == 0 {
		limit := pool.Pool.Limits[quantity.NameNodes]
		return fmt.Sprintf("limits.nodes of %d is reached", limit), map[string]any{"limit": quantity.NameNodes, "value": limit, "used": limit, "left": 0, "needed": 1}
	}
	worst, most, needed := quantity.Dim(0), 0, int64(0)
	for _, d := range pool.Limited {
		n, least := 0, int64(quantity.Most)
		for row := range rows.All() {
			if c := pool.Catalog.Capacity[pool.Catalog.Offerings[row].Type][d]; c > pool.left[d] || pool.left[d] < 0 {
				n, least = n+1, min(least, c)
			}
		}
		if n > most {
			worst, most, needed = d, n, least
		}
	}
	if u := pool.uncounted(rows.First()); u != nil && most == 0 {
		return pool.explainUncounted(u)
	}
	name := snapshot.Resources.Name(worst)
	limit, left := pool.Pool.Limits[name], pool.left[worst]
	detail := fmt.Sprintf("limits.%s is %s, %s of it left", name, quantity.Format(name, limit), quantity.Format(name, max(0, left)))
	if left > 0 {
		detail += fmt.Sprintf(", the smallest instance type has %s", quantity.Format(name, needed))
	}
	return detail, map[string]any{"limit": name, "value": limit, "used": limit - left, "left": max(0, left), "needed": needed}
}

// explainUncounted names a limit on a resource that has no dimension in the vectors.
func (pool *poolState) explainUncounted(u *cluster.UncountedLimit) (string, map[string]any) {
	limit := pool.Pool.Limits[u.Limit]
	facts := map[string]any{"limit": u.Limit, "value": limit, "used": limit - u.Left, "left": max(0, u.Left), "needed": 0}
	detail := fmt.Sprintf("limits.%s is %s, %s of it left", u.Limit, quantity.Format(u.Limit, limit), quantity.Format(u.Limit, max(0, u.Left)))
	if u.Left < 0 {
		return detail, facts
	}
	return fmt.Sprintf("%s, but more than %d extended resources are offered and asked for at the same time, and others are counted first", detail, quantity.Extended), facts
}

// explainShortage is explainQuota for one offering, with the kind that it lacks.
func (q *quota) explainShortage(pool *poolState, row int) (kind reason.Reason, why func() (string, map[string]any)) {
	kind = reason.Quota
	if !q.isShortFor(&pool.Catalog.Offerings[row], kind) {
		kind = reason.Addresses
	}
	return kind, func() (string, map[string]any) { return q.explainQuota(pool, bitset.Of(row), kind) }
}

// explainQuota names the quota of a kind that most of the offerings need more of.
func (q *quota) explainQuota(pool *poolState, rows bitset.Set, kind reason.Reason) (string, map[string]any) {
	short, needed := map[string]int{}, map[string]int64{}
	for row := range rows.All() {
		for _, d := range pool.Catalog.Offerings[row].QuotaUses {
			left, ok := q.left[d.Quota]
			if !ok || d.Amount <= left || reasonForQuota(d.Quota) != kind {
				continue
			}
			if n, seen := needed[d.Quota]; !seen || d.Amount < n {
				needed[d.Quota] = d.Amount
			}
			short[d.Quota]++
		}
	}
	worst := ""
	for _, name := range slices.Sorted(maps.Keys(short)) {
		if worst == "" || short[name] > short[worst] {
			worst = name
		}
	}
	left := max(0, q.left[worst])
	detail := fmt.Sprintf("quota %s has %d left", worst, left)
	if subnet, ok := strings.CutPrefix(worst, offering.AddressQuota); ok {
		detail = fmt.Sprintf("subnet %s has %d addresses left", subnet, left)
	}
	if left > 0 {
		detail += fmt.Sprintf(", the smallest instance type takes %d", needed[worst])
	}
	return detail, map[string]any{"quota": worst, "left": left, "needed": needed[worst]}
}

// maxCauses bounds how many causes one explanation counts.
const maxCauses = 8

// explainAvailability quotes the cause of the cheapest offering, and counts the others.
func (pool *poolState) explainAvailability(rows bitset.Set) (detail string, facts map[string]any) {
	causes := map[string]int64{}
	for row := range rows.All() {
		r := &pool.Catalog.Offerings[row]
		name := pool.Catalog.Types[r.Type].Name
		if facts == nil {
			detail = fmt.Sprintf("%s in %s (%s): %s", name, r.Zone, r.CapacityType, r.Unavailable)
			facts = map[string]any{"type": name, "zone": r.Zone, "capacityType": r.CapacityType, "cause": r.Unavailable, "causes": causes}
		}
		if _, counted := causes[r.Unavailable]; counted || len(causes) < maxCauses {
			causes[r.Unavailable]++
		}
	}
	return detail, facts
}
