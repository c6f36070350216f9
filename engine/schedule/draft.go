// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// Draft is a plan that is not written out: it has only the price, and which pods are placed.
type Draft struct {
	w        *cluster.Snapshot
	maxPrice offering.Price
	s        *solver // nil while it is enough to know that some pod cannot be placed
	plan     *Plan   // once Plan was called
}

// NewDraft makes the plan that Solve would make without preferences, but only as far as its
// price and the placed pods require. It stops early when the plan would cost more than the
// maximum price. With a maximum price of zero no node is launched, not even a free one: pods
// are then placed on existing nodes or not at all, and spread over the existing domains.
//
// The Draft is valid until the snapshot changes, and again once the snapshot is exactly as it
// was.
func NewDraft(w *cluster.Snapshot, maxPrice offering.Price) *Draft {
	d := &Draft{w: w, maxPrice: maxPrice}
	if maxPrice > 0 || !slices.ContainsFunc(w.Classes, func(c *cluster.PodClass) bool { return !hosted(w, c) }) {
		d.make()
	}
	return d
}

// make makes the attempt.
func (d *Draft) make() {
	b := withoutPreferences(d.w)
	b.barred, b.sketching = d.maxPrice <= 0, true
	d.s = b.attempt(nil, d.maxPrice)
}

// hosted reports whether some node has capacity for one pod of the class, whatever other pods
// are there.
func hosted(w *cluster.Snapshot, c *cluster.PodClass) bool {
	if c.Refused != "" {
		return false
	}
	x := w.NodeIndex(c.Keys)
	for _, g := range x.Accepting(c.PodShape) {
		if x.Find(c.PodShape, x.Free, x.Groups[g].From, x.Groups[g].To) >= 0 {
			return true
		}
	}
	return false
}

// Unplaced counts the pods that cannot be placed. With a maximum price of zero it is one as
// soon as it is certain that there are any.
func (d *Draft) Unplaced() int {
	if d.s == nil {
		return 1
	}
	n := 0
	for _, g := range d.s.podGroups {
		n += len(g.pods) - g.placed
	}
	return n
}

// OverMaxPrice reports whether the plan would have cost more than the maximum price. The plan
// is then of no use.
func (d *Draft) OverMaxPrice() bool { return d.s != nil && d.s.limits.over() }

// Price is what the launches cost per hour as planned; the plan's first offerings cost at
// most as much.
func (d *Draft) Price() offering.Price {
	if d.s == nil {
		return 0
	}
	return d.s.limits.price.spent
}

// Launches are the nodes launched while no preference is honoured; without preferences they
// are the plan's own. Callers must not change them.
func (d *Draft) Launches() []Launch {
	if d.s == nil {
		d.make()
	}
	return d.s.descriptions.launches_()
}

// Plan writes the plan out. Preferences are honoured as the snapshot's Settings say, but never
// above the maximum price. A plan with a maximum price has no LowerBound.
func (d *Draft) Plan() Plan {
	if d.s == nil {
		d.make()
	}
	if d.plan == nil {
		p := d.s.search.conclude(d.s)
		d.plan = &p
	}
	return *d.plan
}

// sketchPatience is mostAttempts for plans that are one of many: the moves of a cluster.
const sketchPatience = 2

// conclude honours as many preferences as the maximum price and the surplus allow, compared
// with plain, the attempt that honours none.
func (b *preferenceSearch) conclude(plain *solver) Plan {
	b.sketching = false
	if plain.limits.price.most < noMaxPrice {
		b.patience, b.boundless = sketchPatience, true
	}
	if plain.limits.over() {
		return plain.plan()
	}
	b.preferences()
	if len(b.items) == 0 {
		return plain.plan()
	}
	b.most = plain.limits.price.most
	if slices.Contains(slices.Collect(maps.Values(b.minds)), true) {
		// It must fill nodes by preference, as the plans do that it is compared with.
		plain = b.attempt(nil, plain.limits.price.most)
	}
	return b.choose(plain)
}

// Apply assumes in the what-if, whose snapshot the Draft is of, that the plan is carried out.
func (d *Draft) Apply(t *cluster.WhatIf) {
	p := d.Plan()
	for _, n := range p.Nominations {
		t.Place(n.Pods, t.Snapshot().NodeByKey(n.Node))
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		t.Place(l.Pods, t.AddNode(l.node(d.w)))
	}
}

// node is the node that a launch will be, as far as that is certain: it has the capacity of
// the largest of its offerings, the allocatable of the smallest, and the quota use of the
// first.
func (l *Launch) node(w *cluster.Snapshot) cluster.Node {
	n := cluster.Node{Key: "launch/" + l.Pods[0].UID, Pool: l.Pool, Labels: maps.Clone(l.Labels), Taints: l.Taints, Claim: true, Price: l.Offerings[0].Price}
	n.Labels[cluster.LabelPool] = l.Pool
	i := slices.IndexFunc(w.Catalogs, func(m *cluster.PoolCatalog) bool { return m.Pool.Name == l.Pool })
	for at, c := range l.Offerings {
		t := w.Catalogs[i].Catalog.InstanceType(c.Type)
		room := t.Capacity.Sub(t.Overhead)
		if at == 0 {
			n.Capacity, n.Allocatable, n.QuotaUses = maps.Clone(t.Capacity), room, t.QuotaUses(c)
			continue
		}
		for name, amount := range t.Capacity {
			n.Capacity[name] = max(n.Capacity[name], amount)
		}
		for name, amount := range n.Allocatable {
			n.Allocatable[name] = min(amount, room[name])
		}
	}
	return n
}
