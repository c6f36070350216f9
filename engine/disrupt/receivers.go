// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// receivers decides which nodes take pods of moves, by cordons in the what-if.
type receivers struct {
	c      *Cluster
	nodes  *nodes
	whatIf *cluster.WhatIf
	// busyAdmitted is set while pods may go to nodes that are not quiet.
	busyAdmitted bool
}

// intake is whether a stage changed which nodes take pods.
type intake uint8

const (
	unchanged intake = iota
	closed           // it takes no pods, as long as the stage lasts
	admitted         // it takes pods although it is not quiet; see receivers.admit
)

// begin closes the nodes that may not receive pods in any stage.
func (s *receivers) begin() {
	for _, n := range s.nodes.all {
		if n.info != nil && n.inMove != leaves && !CanReceive(n.Node, n.pool, s.c) {
			s.whatIf.Cordon(n.info)
		}
	}
	for _, info := range slices.Clone(s.whatIf.Snapshot().Nodes) {
		if !info.Initialized && info.Index >= 0 {
			s.whatIf.Cordon(info)
		}
	}
}

// rewind undoes what the previous stage changed. Nodes that lose their pods anyway take none:
// these would move twice.
func (s *receivers) rewind() {
	s.dismiss()
	var open []*cluster.NodeInfo
	for _, n := range s.nodes.all {
		if n.intake == closed && n.inMove != leaves && !n.losesPods() {
			n.intake = unchanged
			open = append(open, n.info)
		}
	}
	s.whatIf.Uncordon(open...)
	for _, n := range s.nodes.all {
		if n.losesPods() && n.inMove != leaves && n.info != nil {
			s.close(n)
		}
	}
}

// close keeps pods off the node until the stage ends, unless it takes none anyway.
func (s *receivers) close(n *node) {
	if n.info.Leaving || n.info.Unschedulable {
		return
	}
	n.intake = closed
	s.whatIf.Cordon(n.info)
}

// admit lets pods of nodes that are due move to nodes that are not quiet. Consolidation avoids
// such nodes, as they may be consolidated or filled up soon. But pods of a node that is due need
// a node now, and otherwise one would be launched although there is free capacity.
func (s *receivers) admit() {
	if s.busyAdmitted {
		return
	}
	s.busyAdmitted = true
	var open []*cluster.NodeInfo
	for _, n := range s.nodes.all {
		if s.busy(n) {
			n.intake = admitted
			open = append(open, n.info)
		}
	}
	s.whatIf.Uncordon(open...)
}

// busy reports whether the node takes no pods only because it is not quiet.
func (s *receivers) busy(n *node) bool {
	if n.info == nil || n.inMove == leaves || n.losesPods() || CanReceive(n.Node, n.pool, s.c) {
		return false
	}
	return CanReceive(n.Node, nil, s.c)
}

// dismiss closes them again.
func (s *receivers) dismiss() {
	s.busyAdmitted = false
	for _, n := range s.nodes.all {
		if n.intake != admitted {
			continue
		}
		if n.inMove != leaves {
			s.whatIf.Cordon(n.info)
		}
		n.intake = unchanged
	}
}

// only closes all nodes except the move's receivers: on the receivers no free capacity is promised
// to other pods.
func (s *receivers) only(w *cluster.Snapshot, m *Move) {
	receiving := map[string]bool{}
	for _, r := range m.Receivers {
		receiving[r.Node] = true
	}
	for _, info := range w.Nodes {
		if !receiving[info.Key] && info.Index >= 0 && !slices.Contains(m.Nodes, info.Key) {
			s.whatIf.Cordon(info)
		}
	}
}
