// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/schedule"
)

// settingCostStage computes what users' settings that keep nodes cost.
type settingCostStage struct {
	nodes  *nodes
	drafts *drafts
	prices *schedule.ShadowPrices
}

// list lists the nodes that are kept because of a user's setting, to compute what that costs.
func (s *settingCostStage) list() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes.all), func(n *node) bool {
		switch n.kept.Because {
		case DoNotDisrupt, PodDisruptionBudget, MultiplePodDisruptionBudgets, ConsolidateAfterNever, WhenEmptyPolicy, ScoreTooLow, BackingOff, ConsolidationUndone:
			return n.info == nil || n.info.MarkedForDeletion
		}
		return true
	})
}

// consider computes what would be saved if the node could be removed.
func (s *settingCostStage) consider(n *node) {
	if n.price == 0 || n.role != noMove {
		return
	}
	d, mark := s.drafts.without([]*node{n}, 0)
	fits := d.Unplaced() == 0
	s.drafts.rollback(mark)
	n.kept.WouldSave = max(0, n.price-s.prices.Worth(n.info))
	if fits {
		n.kept.WouldSave = n.price
	}
}
