// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/schedule"
)

// pricingStage computes the cost of users' settings that keep nodes.
type pricingStage struct {
	nodes  *nodes
	drafts *drafts
	prices *schedule.ShadowPrices
}

// order lists the nodes that are kept because of a user's setting, to compute what that costs.
func (s *pricingStage) order() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes.all), func(n *node) bool {
		switch n.kept.Because {
		case DoNotDisrupt, PodDisruptionBudget, MultiplePodDisruptionBudgets, ConsolidateAfterNever, WhenEmptyPolicy, ScoreTooLow, BackingOff, ConsolidationUndone:
			return n.info == nil || n.info.Leaving
		}
		return true
	})
}

// look computes what would be saved if the node could be removed.
func (s *pricingStage) look(n *node) {
	if n.price == 0 || n.inMove != noMove {
		return
	}
	d, mark := s.drafts.without([]*node{n}, 0)
	fits := d.Unplaced() == 0
	s.drafts.rollback(mark)
	n.kept.Costs = max(0, n.price-s.prices.Of(n.info))
	if fits {
		n.kept.Costs = n.price
	}
}
