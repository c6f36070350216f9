// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// replacementBuilder makes moves that replace nodes by cheaper ones.
type replacementBuilder struct {
	in      *Input
	nodes   *nodes
	drafts  *drafts
	savings savings
	// decided is set by Recheck: the nodes of the move are fixed, and none is left out of it.
	decided bool
}

// build makes a move that replaces the nodes; Kept says why there is none. A draft that was made
// before is valid as long as no other move was taken.
func (s replacementBuilder) build(set []*node, d *schedule.Draft) (Move, Kept) {
	before, required := priceOf(set), s.savings.required(set)
	if kept := s.savings.spotToSpot(set); kept.Because != "" {
		return Move{}, kept
	}
	if before <= required {
		return Move{}, s.savings.unaffordable(set, before)
	}
	plan, relaunched, kept := s.plan(set, before-required, d)
	if len(relaunched) > 0 && len(relaunched) < len(set) {
		others := slices.DeleteFunc(slices.Clone(set), func(n *node) bool { return slices.Contains(relaunched, n) })
		if m, kept := s.build(others, nil); kept.Because == "" {
			return m, kept
		}
	}
	if kept.Because != "" {
		return Move{}, kept
	}
	if len(relaunched) > 0 && len(plan.Launches) == 0 {
		plan = s.redraft(set, before-required)
	}
	if s.in.Settings.Upstream && len(plan.Launches) > 1 {
		return Move{}, Kept{Because: NotCheaper, Detail: fmt.Sprintf("Can't remove without creating %d candidates", len(plan.Launches))}
	}
	if kept := s.nodes.backingOff(plan.Launches, s.in); kept.Because != "" {
		return Move{}, kept
	}
	if kept := s.limitPrice(plan.Launches, set, before-required); kept.Because != "" {
		return Move{}, kept
	}
	if kept := quotaExceeded(s.drafts.snapshot(), plan.Launches); kept.Because != "" {
		return Move{}, kept
	}
	m := newMove(Underutilized, set, plan)
	if !s.savings.pays(set, m.Saves(), len(m.Launches)) {
		return Move{}, s.savings.tooSmall(set, m.Saves(), len(m.Launches))
	}
	scores, approved := s.savings.scoreByPool(set, m.Saves())
	if !approved {
		return Move{}, scoreTooLow(set[0])
	}
	m.Score = scores
	return m, Kept{}
}

// plan plans the replacements of the nodes; Kept says why there are none. Honouring preferences
// of pods takes several plans, and hardly ever helps a move whose plan without preferences is
// rejected. So the plan without preferences is checked first. When it would launch the offering
// of some of the nodes, these are returned as relaunched, with no plan. d is the draft if it was made
// already.
func (s replacementBuilder) plan(set []*node, maxPrice offering.Price, d *schedule.Draft) (plan schedule.Plan, relaunched []*node, kept Kept) {
	mark := s.drafts.remove(set)
	defer s.drafts.rollback(mark)
	if d == nil {
		d = schedule.NewDraft(s.drafts.snapshot(), maxPrice)
	}
	switch {
	case d.OverMaxPrice():
		return plan, nil, noReplacementSaves(set[0])
	case d.Unplaced() > 0:
		return plan, nil, somePodsUnplaced(d)
	}
	launches := slices.Clone(d.Launches())
	if len(set) > 1 && !s.decided {
		relaunched = relaunchedNodes(launches, set)
	}
	if len(relaunched) > 0 {
		return plan, relaunched, Kept{}
	}
	if kept = s.limitPrice(launches, set, maxPrice); kept.Because != "" {
		return plan, nil, kept
	}
	plan = d.Plan()
	if len(set) > 1 && !s.decided {
		relaunched = relaunchedNodes(plan.Launches, set)
	}
	return plan, relaunched, kept
}

// redraft plans the replacements of the nodes, even if it launches their own offerings.
func (s replacementBuilder) redraft(set []*node, maxPrice offering.Price) schedule.Plan {
	d, mark := s.drafts.without(set, maxPrice)
	defer s.drafts.rollback(mark)
	return d.Plan()
}
