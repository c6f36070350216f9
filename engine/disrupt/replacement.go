// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// replacements makes moves that replace nodes by cheaper ones.
type replacements struct {
	c       *Cluster
	nodes   *nodes
	drafts  *drafts
	savings savings
	// decided is set by Recheck: the nodes of the move are fixed, and none is dropped from it.
	decided bool
}

// of makes a move that replaces the nodes; Kept says why there is none. A draft that was made
// before is valid as long as no other move was taken.
func (s replacements) of(set []*node, d *schedule.Draft) (Move, Kept) {
	before, least := cost(set), s.savings.least(set)
	if left := s.savings.spotToSpot(set); left.Because != "" {
		return Move{}, left
	}
	if before <= least {
		return Move{}, spare(set[0], 0, least)
	}
	plan, kept, left := s.plan(set, before-least, d)
	if kept != nil {
		rest := slices.DeleteFunc(slices.Clone(set), func(n *node) bool { return n == kept })
		if m, left := s.of(rest, nil); left.Because == "" {
			return m, left
		}
	}
	if left.Because != "" {
		return Move{}, left
	}
	if kept != nil && len(plan.Launches) == 0 {
		plan = s.redraft(set, before-least)
	}
	if s.c.Settings.Upstream && len(plan.Launches) > 1 {
		return Move{}, Kept{Because: NotCheaper, Detail: many(len(plan.Launches))}
	}
	if left := s.nodes.resting(plan.Launches, s.c); left.Because != "" {
		return Move{}, left
	}
	if left := s.cut(plan.Launches, set, before-least); left.Because != "" {
		return Move{}, left
	}
	if left := overdrawn(s.drafts.snapshot(), plan.Launches); left.Because != "" {
		return Move{}, left
	}
	m := newMove(Underutilized, set, plan)
	if !s.savings.pays(set, m.Before, m.After, len(m.Launches)) {
		return Move{}, spare(set[0], m.Saves(), least)
	}
	scores, approved := s.savings.balance(set, m.Saves())
	if !approved {
		return Move{}, poor(set[0])
	}
	m.Score = scores
	return m, Kept{}
}

// plan plans the replacements of the nodes; Kept says why there are none. Honouring preferences
// of pods takes several plans, and hardly ever helps a move whose plan without preferences is
// rejected. So the plan without preferences is checked first. When it would launch the offering
// of one of the nodes, that node is returned as kept, with no plan. d is the draft if it was
// made already.
func (s replacements) plan(set []*node, maxPrice offering.Price, d *schedule.Draft) (plan schedule.Plan, kept *node, left Kept) {
	mark := s.drafts.vacate(set)
	defer s.drafts.rollback(mark)
	if d == nil {
		d = schedule.NewDraft(s.drafts.snapshot(), maxPrice)
	}
	if d.OverMaxPrice() || d.Unplaced() > 0 {
		return plan, nil, dearer(set[0], 0, false)
	}
	launches := slices.Clone(d.Launches())
	if len(set) > 1 && !s.decided {
		kept = same(launches, set)
	}
	if left = s.cut(launches, set, maxPrice); left.Because != "" || kept != nil {
		return plan, kept, left
	}
	plan = d.Plan()
	if len(set) > 1 && !s.decided {
		kept = same(plan.Launches, set)
	}
	return plan, kept, left
}

// redraft plans the replacements of the nodes, whichever offerings it launches.
func (s replacements) redraft(set []*node, maxPrice offering.Price) schedule.Plan {
	d, mark := s.drafts.without(set, maxPrice)
	defer s.drafts.rollback(mark)
	return d.Plan()
}
