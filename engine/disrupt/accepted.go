// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"fmt"

	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedsim"
)

// accepted is the moves of the plan, and what they rely on together with those under way.
type accepted struct {
	nodes        *nodes
	budgets      budgets
	drafts       *drafts
	sim          *schedsim.Cluster // where kube-scheduler would put their pods; nil without rehearsals
	dependencies *dependencies     // of the pods of moves
	moves        []Move
}

// applyUnderway applies the moves that were decided before, and returns the pods that moved, by
// node.
func (s *accepted) applyUnderway(underway []Move) arrivals {
	arrived := arrivals{}
	for i := range underway {
		m := &underway[i]
		s.nodes.setRoles(m)
		if len(s.drafts.existing(m)) > 0 { // a draining node is leaving in the snapshot already
			s.simulate(m)
		}
		arrived.add(s.drafts.apply(m))
	}
	return arrived
}

// addOrKeep adds the move that was built for the node, and reports whether it did. If none was
// built or it cannot be added, the node is kept.
func (s *accepted) addOrKeep(n *node, m Move, kept Kept) bool {
	if kept.Because == "" {
		kept = s.tryAdd(m)
	}
	if kept.Because != "" {
		n.keep(kept)
		return false
	}
	return true
}

// tryAdd adds the move to the plan and applies it, unless its rehearsal fails or it conflicts with
// the moves that are already there.
func (s *accepted) tryAdd(m Move) Kept {
	if kept := s.performIfPays(&m); kept.Because != "" {
		return kept
	}
	mark := s.drafts.whatIf.Savepoint()
	arrived := s.drafts.apply(&m)
	more := dependenciesOf(s.drafts.snapshot(), arrived)
	if kept := s.dependencies.brokenBy(more); kept.Because != "" {
		s.drafts.rollback(mark)
		s.undoRehearsal(&m)
		return kept
	}
	if !s.rehearses(&m) {
		s.simulate(&m)
	}
	s.dependencies.add(more)
	for _, key := range m.Nodes {
		s.budgets.countDown(s.nodes.byKey[key].Pool)
	}
	s.nodes.setRoles(&m)
	s.moves = append(s.moves, m)
	return Kept{}
}

// performIfPays simulates a consolidation and leaves it in the simulation when it pays; else Kept
// says why it must not be made. kube-scheduler does not read the plan: it
// puts pods on the emptiest nodes, where they take the free capacity that the plan has for
// others, and the nodes that must be launched for those others can cost more than the move
// saves. Later moves would remove these nodes again, and so on. So a move is made only when the
// cluster is cheaper even with such launches (Rule CONSOLIDATION-20).
func (s *accepted) performIfPays(m *Move) Kept {
	if !s.rehearses(m) {
		return Kept{}
	}
	return rehearsalFailed(s.sim.PerformIfPays(s.simulated(m)))
}

// undoRehearsal undoes what performIfPays left in the simulation. A move that was not rehearsed has
// left nothing there: undoing it would undo the move before it.
func (s *accepted) undoRehearsal(m *Move) {
	if s.rehearses(m) {
		s.sim.Undo()
	}
}

// rehearses reports whether the move is made only if it pays in the simulation.
func (s *accepted) rehearses(m *Move) bool { return s.sim != nil && m.Cause == Underutilized }

// simulate performs a move that will be made in the simulation.
func (s *accepted) simulate(m *Move) {
	if s.sim != nil {
		s.sim.Perform(s.simulated(m))
	}
}

// simulated is the move as schedsim reads it: with those nodes that are in the snapshot.
func (s *accepted) simulated(m *Move) schedsim.Move {
	out := schedsim.Move{Nominations: m.Nominations, Launches: m.Launches, PriceBefore: m.PriceBefore, PriceAfter: m.PriceAfter}
	for _, key := range m.Nodes {
		if n := s.nodes.byKey[key]; n != nil && n.info != nil {
			out.Drains = append(out.Drains, schedsim.Drain{Node: n.info, PDBs: n.pdbsByPod()})
		}
	}
	return out
}

// pdbsByPod are the node's PDBs by the UIDs of the pods that they select.
func (n *node) pdbsByPod() map[string]*schedsim.PDB {
	if n.pdbs == nil && len(n.PDBs) > 0 {
		n.pdbs = map[string]*schedsim.PDB{}
		for i := range n.PDBs {
			for _, uid := range n.PDBs[i].Pods {
				n.pdbs[uid] = &n.PDBs[i]
			}
		}
	}
	return n.pdbs
}

// rehearsalFailed says why a move with that outcome is not made.
func rehearsalFailed(o schedsim.Outcome) Kept {
	switch {
	case o.Unplaced:
		return Kept{Because: RehearsalFailed, Detail: "kube-scheduler may put pods on nodes that are planned for other pods, and no instance can be launched for those"}
	case !o.Pays():
		return Kept{Because: RehearsalFailed, WouldSave: max(0, o.Saves),
			Detail: fmt.Sprintf("kube-scheduler may put pods on nodes that are planned for other pods: launches for those would cost at least another $%s/h, and the move saves $%s/h", o.Extra, o.Saves),
			Facts:  reason.FactsOf(map[string]any{"saves": o.Saves.String(), "more": o.Extra.String()})}
	}
	return Kept{}
}
