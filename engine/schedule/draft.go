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
	snapshot *cluster.Snapshot
	maxPrice offering.Price
	attempt  *solver // nil while it is enough to know that some pod cannot be placed
	plan     *Plan   // once Plan was called
}

// NewDraft makes the plan that Solve would make without preferences, but only as far as its
// price and the placed pods require. It stops early when the plan would cost more than the
// maximum price. With a maximum price of zero no node is launched, not even a free one: pods
// are then placed on existing nodes or not at all, and spread over the existing domains.
//
// The Draft is valid until the snapshot changes, and again once the snapshot is exactly as it
// was.
func NewDraft(snapshot *cluster.Snapshot, maxPrice offering.Price) *Draft {
	d := &Draft{snapshot: snapshot, maxPrice: maxPrice}
	if maxPrice > 0 || !slices.ContainsFunc(snapshot.Classes, func(c *cluster.PodClass) bool { return !someNodeHasRoom(snapshot, c) }) {
		d.makeAttempt()
	}
	return d
}

// makeAttempt makes the attempt that the draft reads.
func (d *Draft) makeAttempt() {
	ps := withoutPreferences(d.snapshot)
	ps.options.noLaunches, ps.options.placeAllOrStop = d.maxPrice <= 0, true
	ps.options.budgets[Policies], ps.options.budgets[Cells] = 0, 0 // a pass makes many drafts
	d.attempt = ps.makeAttempt(nil, d.maxPrice)
}

// someNodeHasRoom reports whether some node has capacity for one pod of the class, whatever
// other pods are there.
func someNodeHasRoom(snapshot *cluster.Snapshot, c *cluster.PodClass) bool {
	if c.Refused != "" {
		return false
	}
	x := snapshot.NodeIndex(c.Keys)
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
	if d.attempt == nil {
		return 1
	}
	n := 0
	for _, g := range d.attempt.podGroups {
		n += len(g.pods) - g.placed
	}
	return n
}

// OverMaxPrice reports whether the plan would have cost more than the maximum price. The plan
// is then of no use.
func (d *Draft) OverMaxPrice() bool { return d.attempt != nil && d.attempt.limits.overMaxPrice() }

// Price is what the launches cost per hour as planned; the plan's first offerings cost at
// most as much.
func (d *Draft) Price() offering.Price {
	if d.attempt == nil {
		return 0
	}
	return d.attempt.limits.spending.spent
}

// Launches are the nodes launched while no preference is honoured; without preferences they
// are the plan's own. Callers must not change them.
func (d *Draft) Launches() []Launch {
	if d.attempt == nil {
		d.makeAttempt()
	}
	return d.attempt.descriptions.launchesOfPlan()
}

// Plan writes the plan out. Preferences are honoured as the snapshot's Settings say, but never
// above the maximum price. A plan with a maximum price has no LowerBound.
func (d *Draft) Plan() Plan {
	if d.attempt == nil {
		d.makeAttempt()
	}
	if d.plan == nil {
		p := d.attempt.preferences.planOfDraft(d.attempt)
		d.plan = &p
	}
	return *d.plan
}

// maxDraftAttempts is the budget of Preferred for plans that are one of many: the moves of a
// cluster.
const maxDraftAttempts = 2

// planOfDraft honours as many preferences as the maximum price and the surplus allow, compared
// with plain, the attempt that honours none.
func (ps *preferenceSearch) planOfDraft(plain *solver) Plan {
	ps.options.placeAllOrStop = false
	if plain.limits.spending.max < noMaxPrice {
		ps.options.budgets[Preferred], ps.options.skipLowerBound = maxDraftAttempts, true
	}
	if plain.limits.overMaxPrice() {
		return plain.plan()
	}
	ps.listPreferences()
	if len(ps.byWeight) == 0 {
		return plain.plan()
	}
	ps.options.maxPrice = plain.limits.spending.max
	if slices.Contains(slices.Collect(maps.Values(ps.distinguishNodes)), true) {
		// It must fill nodes by preference, as the plans do that it is compared with.
		plain = ps.makeAttempt(nil, plain.limits.spending.max)
	}
	return ps.choose(plain)
}

// Apply assumes in the what-if, whose snapshot the Draft is of, that the plan is carried out.
func (d *Draft) Apply(whatIf *cluster.WhatIf) {
	p := d.Plan()
	var placements []cluster.Placement
	for _, n := range p.Nominations {
		placements = append(placements, cluster.Placement{Pods: n.Pods, Node: whatIf.Snapshot().NodeByKey(n.Node)})
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		placements = append(placements, cluster.Placement{Pods: l.Pods, Node: whatIf.AddNode(l.node(d.snapshot))})
	}
	whatIf.Place(placements...)
}

// node is the node that a launch will be, as far as that is certain: it has the capacity of
// the largest of its offerings, the allocatable of the smallest, and the quota use of the
// first.
func (l *Launch) node(snapshot *cluster.Snapshot) cluster.Node {
	n := cluster.Node{Key: "launch/" + l.Pods[0].UID, Pool: l.Pool, Labels: maps.Clone(l.Labels), Taints: l.Taints, HasNodeClaim: true, Price: l.Offerings[0].Price}
	n.Labels[cluster.LabelNodePool] = l.Pool
	catalog := snapshot.PoolCatalogOf(l.Pool).Catalog
	size := catalog.NodeSize(l.Offerings)
	n.Capacity, n.Allocatable = size.Capacity, size.Allocatable
	n.QuotaUses = catalog.InstanceType(l.Offerings[0].Type).QuotaUses(l.Offerings[0])
	return n
}
