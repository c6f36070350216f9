// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// receivers decides which nodes may receive pods of moves: the others
// take no pods in the what-if.
type receivers struct {
	in     *Input
	nodes  *nodes
	whatIf *cluster.WhatIf
	// admitting is set while pods may go to nodes that are not consolidatable yet.
	admitting bool
}

// intake is how the stage changed whether the node may receive pods.
type intake uint8

const (
	unchanged intake = iota
	closed           // it receives no pods, as long as the stage lasts
	admitted         // it receives pods although it is not consolidatable yet
)

// closeNonReceivers closes the nodes that may not receive pods in any stage.
func (s *receivers) closeNonReceivers() {
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
	s.closeAdmitted()
	var open []*cluster.NodeInfo
	for _, n := range s.nodes.all {
		if n.intake == closed && n.role != leaves && !n.losesPods() {
			n.intake = unchanged
			open = append(open, n.info)
		}
	}
	s.whatIf.TakePodsAgain(open...)
	for _, n := range s.nodes.all {
		if n.losesPods() && n.role != leaves && n.info != nil {
			s.close(n)
		}
	}
}

// close keeps pods off the node until the stage ends, unless it receives none anyway.
func (s *receivers) close(n *node) {
	if n.info.MarkedForDeletion || n.info.TakesNoPods {
		return
	}
	n.intake = closed
	s.whatIf.StopTakingPods(n.info)
}

// admitNotConsolidatable lets pods of nodes that are due move to nodes that are not consolidatable
// yet. Consolidation avoids such nodes, as they may be consolidated or filled up soon. But pods of
// a node that is due need a node now, and otherwise one would be launched although there is free
// capacity.
func (s *receivers) admitNotConsolidatable() {
	if s.admitting {
		return
	}
	s.admitting = true
	var open []*cluster.NodeInfo
	for _, n := range s.nodes.all {
		if s.notConsolidatable(n) {
			n.intake = admitted
			open = append(open, n.info)
		}
	}
	s.whatIf.TakePodsAgain(open...)
}

// notConsolidatable reports whether the node receives no pods only because consolidateAfter has
// not passed.
func (s *receivers) notConsolidatable(n *node) bool {
	if n.info == nil || n.role == leaves || n.losesPods() || CanReceive(n.Node, n.pool, s.in) {
		return false
	}
	return CanReceive(n.Node, nil, s.in)
}

// closeAdmitted closes the nodes that were admitted.
func (s *receivers) closeAdmitted() {
	s.admitting = false
	for _, n := range s.nodes.all {
		if n.intake != admitted {
			continue
		}
		if n.role != leaves {
			s.whatIf.StopTakingPods(n.info)
		}
		n.intake = unchanged
	}
}

// closeAllExcept closes all nodes except the move's receivers: pods that are nominated to other
// nodes keep their free capacity.
func (s *receivers) closeAllExcept(snapshot *cluster.Snapshot, m *Move) {
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
