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

// The least numbers of instance types that a spot replacement of spot nodes must be able to use:
// with fewer types it is likely to be reclaimed next. Karpenter requires 15, when one node is
// replaced.
const (
	fewestTypes         = 3
	fewestTypesUpstream = 15
)

func allSpot(set []*node) bool {
	return !slices.ContainsFunc(set, func(n *node) bool { return n.info.Labels[cluster.LabelCapacityType] != offering.Spot })
}

// offeringKey identifies what a launch becomes: the pool and the offering.
type offeringKey struct{ pool, instanceType, zone, capacityType string }

func offeringKeyOf(pool string, c offering.Ref) offeringKey {
	return offeringKey{pool, c.Type, c.Zone, c.CapacityType}
}

// same returns a node of the set whose offering one of the launches would launch again.
func same(launches []schedule.Launch, set []*node) *node {
	for i := range launches {
		launched := offeringKeyOf(launches[i].Pool, launches[i].Offerings[0])
		for _, n := range set {
			if n.as == launched {
				return n
			}
		}
	}
	return nil
}

// cut keeps those of each launch's offerings with which the move still pays, whichever are
// launched: the maximum price is divided in proportion to the first offerings. When the move
// removes several nodes, the offerings of these nodes are dropped. Kept says why no offering
// remains.
func (s replacements) cut(launches []schedule.Launch, set []*node, maxPrice offering.Price) Kept {
	w := s.drafts.snapshot()
	var after offering.Price
	for i := range launches {
		after = after.Add(launches[i].Offerings[0].Price)
	}
	likes := make(map[offeringKey]bool, len(set))
	for _, n := range set {
		likes[n.as] = true
	}
	alike := map[*offering.Ref][]offering.Ref{} // equal launches share their offerings
	for i := range launches {
		l := &launches[i]
		most := share(maxPrice, l.Offerings[0].Price, after)
		m := w.CatalogOf(l.Pool)
		banned := func(c offering.Ref) bool {
			return len(set) > 1 && likes[offeringKeyOf(l.Pool, c)]
		}
		before, first := len(l.Offerings), &l.Offerings[0]
		kept, known := alike[first]
		if !known {
			kept = narrow(l.Offerings, m, most, banned)
			alike[first] = kept
		}
		limit(l, kept)
		if len(l.Offerings) == 0 {
			return Kept{Because: NotCheaper, Detail: "Can't replace with a cheaper node: it would be one of those that go"}
		}
		if short := lacks(l, m); len(l.Offerings) < before && len(short) > 0 {
			if !w.Settings.RelaxMinValues {
				return Kept{Because: reason.MinValues, Detail: fmt.Sprintf("Filtering by price: too few values of %s would be left for minValues", short[0])}
			}
			l.Relaxed = short
		}
		if left := s.flexible(l, set); left.Because != "" {
			return left
		}
	}
	return Kept{}
}

// overdrawn says that the quota does not suffice for the launches that cut has left: another
// offering may now be first than the one that quota was reserved for.
func overdrawn(w *cluster.Snapshot, launches []schedule.Launch) Kept {
	left := maps.Clone(w.QuotaLeft)
	for i := range launches {
		l := &launches[i]
		first := l.Offerings[0]
		for _, d := range w.CatalogOf(l.Pool).Catalog.InstanceType(first.Type).QuotaUses(first) {
			had, bounded := left[d.Quota]
			if left[d.Quota] = had - d.Amount; bounded && had < d.Amount {
				return Kept{Because: reason.Quota, Detail: fmt.Sprintf("Can't replace with a cheaper node: the replacement needs %d of the quota %s, which has %d left", d.Amount, d.Quota, max(0, had)),
					Facts: reason.FactsOf(map[string]any{"budget": d.Quota, "left": max(0, had), "needed": d.Amount})}
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

// narrow leaves the offerings that cost no more than most. All have the capacity type of the
// first, and zones where that is cheap enough: a NodeClaim names types and zones separately, so no
// pair of them may be too expensive.
func narrow(offerings []offering.Ref, m *cluster.PoolCatalog, most offering.Price, banned func(offering.Ref) bool) []offering.Ref {
	var kept []offering.Ref
	var zones []string
	for _, c := range offerings {
		if len(kept) > 0 && (c.CapacityType != kept[0].CapacityType || c.Price > most) || banned(c) {
			continue
		}
		kept = append(kept, c)
	}
	if len(kept) == 0 || kept[0].Price > most {
		return nil
	}
	for _, c := range kept {
		if c.Type == kept[0].Type && !slices.Contains(zones, c.Zone) {
			zones = append(zones, c.Zone)
		}
	}
	tooDear := map[string]bool{}
	return slices.DeleteFunc(kept, func(c offering.Ref) bool { // with two prices for an offering nothing may remain
		if !slices.Contains(zones, c.Zone) {
			return true
		}
		dear, known := tooDear[c.Type]
		if !known {
			dear = worst(m.Catalog.InstanceType(c.Type), c.CapacityType, zones) > most
			tooDear[c.Type] = dear
		}
		return dear
	})
}

// limit reduces the launch to those offerings.
func limit(l *schedule.Launch, kept []offering.Ref) {
	if len(kept) == len(l.Offerings) {
		return
	}
	if l.Offerings = kept; len(kept) > 0 {
		describe(l)
	}
}

// worst is the highest price of a type in those zones.
func worst(t *offering.InstanceType, capacityType string, zones []string) offering.Price {
	var most offering.Price
	for _, o := range t.Offerings {
		if o.CapacityType == capacityType && slices.Contains(zones, o.Zone) && o.Unavailable == "" {
			most = max(most, o.Price)
		}
	}
	return most
}

// describe updates the launch's rules and labels to its offerings.
func describe(l *schedule.Launch) {
	chosen := map[string][]string{}
	note := func(key, value string) {
		if !slices.Contains(chosen[key], value) {
			chosen[key] = append(chosen[key], value)
		}
	}
	for _, c := range l.Offerings {
		note(cluster.LabelInstanceType, c.Type)
		note(cluster.LabelZone, c.Zone)
		note(cluster.LabelCapacityType, c.CapacityType)
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

// lacks lists the labels for which the launch's offerings have too few values for its pool's
// minValues, sorted.
func lacks(l *schedule.Launch, m *cluster.PoolCatalog) []string {
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

// flexible says why a spot launch cannot replace spot nodes.
func (s replacements) flexible(l *schedule.Launch, set []*node) Kept {
	if !allSpot(set) || l.Offerings[0].CapacityType != offering.Spot {
		return Kept{}
	}
	fewest := fewestTypes
	if s.c.Settings.Upstream {
		if len(set) > 1 {
			return Kept{}
		}
		fewest = fewestTypesUpstream
	}
	var types []string
	for _, c := range l.Offerings {
		if !slices.Contains(types, c.Type) {
			types = append(types, c.Type)
		}
	}
	if len(types) >= fewest {
		return Kept{}
	}
	return Kept{Because: SpotToSpot, Detail: fmt.Sprintf("SpotToSpotConsolidation requires %d cheaper instance type options than the current candidate to consolidate, got %d", fewest, len(types)),
		Facts: reason.FactsOf(map[string]any{"types": len(types), "fewest": fewest})}
}
