// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// The minimum numbers of instance types that a spot replacement of spot nodes must be able to use:
// with fewer types it is likely to be reclaimed next. Karpenter requires 15, when one node is
// replaced.
const (
	minSpotTypes         = 3
	minSpotTypesUpstream = 15
)

func allSpot(set []*node) bool {
	return !slices.ContainsFunc(set, func(n *node) bool { return n.info.Labels[cluster.LabelCapacityType] != offering.Spot })
}

// relaunchedNodes are the nodes of the set whose offerings the launches would launch again: at most
// one for each launch.
func relaunchedNodes(launches []schedule.Launch, set []*node) []*node {
	again := map[offering.Key]int{}
	for i := range launches {
		again[launches[i].Offerings[0].Key(launches[i].Pool)]++
	}
	var out []*node
	for _, n := range set {
		if again[n.offering] > 0 {
			again[n.offering]--
			out = append(out, n)
		}
	}
	return out
}

// limitPrice keeps those of each launch's offerings with which the move still pays, whichever are
// launched: the maximum price is divided in proportion to the first offerings. When the move
// removes several nodes, the offerings of these nodes are dropped. Kept says why no offering
// remains.
func (s replacementBuilder) limitPrice(launches []schedule.Launch, set []*node, maxPrice offering.Price) Kept {
	snapshot := s.drafts.snapshot()
	var after offering.Price
	for i := range launches {
		after = after.Add(launches[i].Offerings[0].Price)
	}
	removed := removedOfferings(set)
	known := map[*offering.Ref][]offering.Ref{} // equal launches share their offerings
	for i := range launches {
		l := &launches[i]
		catalog, before, first := snapshot.PoolCatalogOf(l.Pool), len(l.Offerings), &l.Offerings[0]
		affordable, done := known[first]
		if !done {
			excluded := func(o offering.Ref) bool { return removed.have(o, l.Pool) }
			affordable = withinPrice(l.Offerings, catalog, share(maxPrice, l.Offerings[0].Price, after), excluded)
			known[first] = affordable
		}
		setOfferings(l, affordable)
		if kept := s.checkOfferings(l, catalog, before, set); kept.Because != "" {
			return kept
		}
	}
	return Kept{}
}

// offeringKeys are offerings by the name of their instance type. Most offerings that are looked up are
// of other types.
type offeringKeys map[string][]offering.Key

// removedOfferings are the offerings of nodes that a move removes together.
func removedOfferings(set []*node) offeringKeys {
	out := offeringKeys{}
	if len(set) > 1 {
		for _, n := range set {
			if of := out[n.offering.Type]; !slices.Contains(of, n.offering) {
				out[n.offering.Type] = append(of, n.offering)
			}
		}
	}
	return out
}

// have reports whether the NodePool's offering is among them.
func (ks offeringKeys) have(o offering.Ref, pool string) bool {
	of := ks[o.Type]
	return len(of) > 0 && slices.Contains(of, o.Key(pool))
}

// checkOfferings says why the offerings of a launch, of which there were more before, do not
// suffice to replace the nodes. It relaxes minValues where the settings allow it.
func (s replacementBuilder) checkOfferings(l *schedule.Launch, catalog *cluster.PoolCatalog, before int, set []*node) Kept {
	if len(l.Offerings) == 0 {
		return Kept{Because: NotCheaper, Detail: "Can't replace with a cheaper node: no offering but those of the removed nodes is cheap enough"}
	}
	if short := missingMinValues(l, catalog); len(l.Offerings) < before && len(short) > 0 {
		if !s.drafts.snapshot().Settings.RelaxMinValues {
			return Kept{Because: reason.MinValues, Detail: fmt.Sprintf("Filtering by price: too few values of %s would be left for minValues", short[0])}
		}
		l.Relaxed = short
	}
	return s.tooFewSpotTypes(l, set)
}

// quotaExceeded says that the quota does not suffice for the launches: since limitPrice another
// offering may be first than the one that quota was reserved for.
func quotaExceeded(snapshot *cluster.Snapshot, launches []schedule.Launch) Kept {
	quotaLeft := maps.Clone(snapshot.QuotaLeft)
	for i := range launches {
		l := &launches[i]
		first := l.Offerings[0]
		for _, use := range snapshot.PoolCatalogOf(l.Pool).Catalog.InstanceType(first.Type).QuotaUses(first) {
			had, bounded := quotaLeft[use.Quota]
			if quotaLeft[use.Quota] = had - use.Amount; bounded && had < use.Amount {
				return Kept{Because: reason.Quota, Detail: fmt.Sprintf("Can't replace with a cheaper node: the replacement needs %d of the quota %s, which has %d left", use.Amount, use.Quota, max(0, had)),
					Facts: reason.FactsOf(map[string]any{"quota": use.Quota, "left": max(0, had), "needed": use.Amount})}
			}
		}
	}
	return Kept{}
}

// share is maxPrice·part/whole, rounded down.
func share(maxPrice, part, whole offering.Price) offering.Price {
	if whole <= 0 || maxPrice <= 0 {
		return maxPrice
	}
	hi, lo := bits.Mul64(uint64(maxPrice), uint64(part))
	if hi >= uint64(whole) {
		return maxPrice
	}
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return offering.Price(q)
}

// withinPrice is those of the offerings that cost no more than maxPrice and are not excluded. All
// have the capacity type of the first, and zones where that is cheap enough: a NodeClaim names
// types and zones separately, so no pair of them may be too expensive.
func withinPrice(offerings []offering.Ref, catalog *cluster.PoolCatalog, maxPrice offering.Price, excluded func(offering.Ref) bool) []offering.Ref {
	at := slices.IndexFunc(offerings, func(c offering.Ref) bool { return !excluded(c) })
	if at < 0 || offerings[at].Price > maxPrice {
		return nil
	}
	first, offerings := offerings[at], offerings[at:]
	affordable := func(c *offering.Ref) bool {
		return c.CapacityType == first.CapacityType && c.Price <= maxPrice && !excluded(*c)
	}
	var zones []string
	for i := range offerings {
		if c := &offerings[i]; c.Type == first.Type && affordable(c) && !slices.Contains(zones, c.Zone) {
			zones = append(zones, c.Zone)
		}
	}
	var out []offering.Ref
	tooExpensive := map[string]bool{}
	for i := range offerings {
		c := &offerings[i]
		if !slices.Contains(zones, c.Zone) || !affordable(c) {
			continue
		}
		exceeds, known := tooExpensive[c.Type]
		if !known {
			exceeds = highestPrice(catalog.Catalog.InstanceType(c.Type), c.CapacityType, zones) > maxPrice
			tooExpensive[c.Type] = exceeds
		}
		// Where the catalog lists a type, zone and capacity type twice at different prices, this may
		// leave nothing.
		if !exceeds {
			out = append(out, *c)
		}
	}
	return out
}

// setOfferings reduces the launch to those offerings.
func setOfferings(l *schedule.Launch, offerings []offering.Ref) {
	if len(offerings) == len(l.Offerings) {
		return
	}
	if l.Offerings = offerings; len(offerings) > 0 {
		updateRules(l)
	}
}

// highestPrice is the highest price of a type in those zones.
func highestPrice(t *offering.InstanceType, capacityType string, zones []string) offering.Price {
	var most offering.Price
	for _, o := range t.Offerings {
		if o.CapacityType == capacityType && slices.Contains(zones, o.Zone) && o.Unavailable == "" {
			most = max(most, o.Price)
		}
	}
	return most
}

// updateRules updates the launch's rules, labels and runners-up to its offerings.
func updateRules(l *schedule.Launch) {
	chosen := map[string][]string{}
	add := func(key, value string) {
		if !slices.Contains(chosen[key], value) {
			chosen[key] = append(chosen[key], value)
		}
	}
	for _, c := range l.Offerings {
		add(cluster.LabelInstanceType, c.Type)
		add(cluster.LabelZone, c.Zone)
		add(cluster.LabelCapacityType, c.CapacityType)
	}
	slices.Sort(chosen[cluster.LabelZone])
	l.Rules, l.Labels = slices.Clone(l.Rules), cloned(l.Labels)
	for i, r := range l.Rules {
		if values := chosen[r.Key]; values != nil {
			l.Rules[i] = constraint.Rule{Key: r.Key, Operator: constraint.In, Values: values}
		}
	}
	for key, values := range chosen {
		if len(values) == 1 {
			l.Labels[key] = values[0]
		}
	}
	first := l.Offerings[0]
	l.RunnersUp = slices.DeleteFunc(slices.Clone(l.RunnersUp), func(r schedule.RunnerUp) bool {
		return r.Type == first.Type || r.Because == reason.HigherPrice && !slices.Contains(l.Offerings, r.Ref)
	})
	for i := range l.RunnersUp {
		l.RunnersUp[i].More = l.RunnersUp[i].Price - first.Price
	}
}

func cloned(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+3)
	for k, v := range labels {
		out[k] = v
	}
	return out
}

// missingMinValues lists the labels for which the launch's offerings have too few values for its
// pool's minValues, sorted.
func missingMinValues(l *schedule.Launch, m *cluster.PoolCatalog) []string {
	var short []string
	for i := range m.MinValues {
		v := &m.MinValues[i]
		seen := map[int]bool{}
		for row := range m.Catalog.Offerings {
			if slices.Contains(l.Offerings, m.Catalog.Ref(row)) {
				for _, id := range v.Values(row) {
					seen[id] = true
				}
			}
		}
		if len(seen) < v.Min {
			short = append(short, v.Key.Name)
		}
	}
	slices.Sort(short)
	return short
}

// tooFewSpotTypes says why a spot launch cannot replace spot nodes.
func (s replacementBuilder) tooFewSpotTypes(l *schedule.Launch, set []*node) Kept {
	if !allSpot(set) || l.Offerings[0].CapacityType != offering.Spot {
		return Kept{}
	}
	required := minSpotTypes
	if s.in.Settings.Upstream {
		if len(set) > 1 {
			return Kept{}
		}
		required = minSpotTypesUpstream
	}
	var types []string
	for _, c := range l.Offerings {
		if !slices.Contains(types, c.Type) {
			types = append(types, c.Type)
		}
	}
	if len(types) >= required {
		return Kept{}
	}
	return Kept{Because: SpotToSpot, Detail: fmt.Sprintf("SpotToSpotConsolidation requires %d cheaper instance type options than the current candidate to consolidate, got %d", required, len(types)),
		Facts: reason.FactsOf(map[string]any{"types": len(types), "fewest": required})}
}
