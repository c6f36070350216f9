// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// receivers decides which nodes may receive pods of moves: the others take no pods in the what-if.
type receivers struct {
	in     *Input
	nodes  *nodes
	whatIf *cluster.WhatIf
	// includesNotConsolidatable is set while pods may go to nodes that are not consolidatable yet.
	includesNotConsolidatable bool
}

// takesPods is how the stage changed whether the node takes pods in the what-if.
type takesPods uint8

const (
	unchanged takesPods = iota
	stopped             // it takes no pods, as long as the stage lasts
	included            // it takes pods although it is not consolidatable yet
)

// stopNonReceivers makes the nodes that may not receive pods in any stage take none.
func (s *receivers) stopNonReceivers() {
	for _, n := range s.nodes.all {
		if n.info != nil && n.role != leaves && !CanReceive(n.Node, n.pool, s.in) {
			s.whatIf.StopTakingPods(n.info)
		}
	}
	for _, info := range slices.Clone(s.whatIf.Snapshot().Nodes) {
		if !info.Initialized && info.Index >= 0 {
			s.whatIf.StopTakingPods(info)
		}
	}
}

// reset undoes what the previous stage changed. Nodes that lose their pods anyway receive none:
// these would move twice.
func (s *receivers) reset() {
	s.excludeNotConsolidatable()
	var again []*cluster.NodeInfo
	for _, n := range s.nodes.all {
		if n.takesPods == stopped && n.role != leaves && !n.losesPods() {
			n.takesPods = unchanged
			again = append(again, n.info)
		}
	}
	s.whatIf.TakePodsAgain(again...)
	for _, n := range s.nodes.all {
		if n.losesPods() && n.role != leaves && n.info != nil {
			s.stop(n)
		}
	}
}

// stop makes the node take no pods until the stage ends, unless it takes none anyway.
func (s *receivers) stop(n *node) {
	if n.info.MarkedForDeletion || n.info.TakesNoPods {
		return
	}
	n.takesPods = stopped
	s.whatIf.StopTakingPods(n.info)
}

// includeNotConsolidatable lets pods of nodes that are due move to nodes that are not
// consolidatable yet. Consolidation avoids such nodes, as they may be consolidated or filled up
// soon. But pods of a node that is due need a node now, and otherwise one would be launched
// although there is free capacity.
func (s *receivers) includeNotConsolidatable() {
	if s.includesNotConsolidatable {
		return
	}
	s.includesNotConsolidatable = true
	var again []*cluster.NodeInfo
	for _, n := range s.nodes.all {
		if s.notConsolidatable(n) {
			n.takesPods = included
			again = append(again, n.info)
		}
	}
	s.whatIf.TakePodsAgain(again...)
}

// notConsolidatable reports whether the node receives no pods only because consolidateAfter has
// not passed.
func (s *receivers) notConsolidatable(n *node) bool {
	if n.info == nil || n.role == leaves || n.losesPods() || CanReceive(n.Node, n.pool, s.in) {
		return false
	}
	return CanReceive(n.Node, nil, s.in)
}

// excludeNotConsolidatable makes the nodes that were included take no pods again.
func (s *receivers) excludeNotConsolidatable() {
	s.includesNotConsolidatable = false
	for _, n := range s.nodes.all {
		if n.takesPods != included {
			continue
		}
		if n.role != leaves {
			s.whatIf.StopTakingPods(n.info)
		}
		n.takesPods = unchanged
	}
}

// stopAllExcept makes all nodes except the move's receivers take no pods: pods that are nominated
// to other nodes keep their free capacity.
func (s *receivers) stopAllExcept(snapshot *cluster.Snapshot, m *Move) {
	receiving := map[string]bool{}
	for _, r := range m.Nominations {
		receiving[r.Node] = true
	}
	for _, info := range snapshot.Nodes {
		if !receiving[info.Key] && info.Index >= 0 && !slices.Contains(m.Nodes, info.Key) {
			s.whatIf.StopTakingPods(info)
		}
	}
}
