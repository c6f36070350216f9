// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Recheck reports whether a move that was decided before is still right: its nodes may be
// disrupted, within budgets, their pods fit elsewhere, it launches what was decided or less,
// and it pays. It returns the move as it is now, or Kept of the first node that is kept. A
// move without launches continues with those of its nodes that may still be disrupted.
//
// The move is not rehearsed again: it was decided together with others, and would be rehearsed
// alone. Nor does Recheck compare the move with other moves: the search compared more of them, and
// the two would disagree again and again. The move itself may be among Input.Underway.
func Recheck(snapshot *cluster.Snapshot, in Input, m Move) (Move, Kept) {
	in.Underway = slices.DeleteFunc(slices.Clone(in.Underway), func(o Move) bool { return slices.Equal(o.Nodes, m.Nodes) })
	s := newSearch(snapshot, &in, false)
	defer s.drafts.whatIf.End()
	for _, n := range s.nodes.all {
		if n.forecast == wrongType { // they may take pods of the move: only Search acts on the forecast
			n.forecast = removeExpected
		}
	}
	s.receivers.reset()
	set, kept := s.stillEligible(&m)
	if len(set) == 0 || len(set) < len(m.Nodes) && len(m.Launches) > 0 {
		return Move{}, kept
	}
	if !m.Cause.respectsBlocks() {
		s.receivers.includeNotConsolidatable()
	}
	s.receivers.stopAllExcept(snapshot, &m)
	if now, kept := s.decideAgain(set, &m); kept.Because == "" {
		return now, kept
	}
	s.receivers.reset()
	return s.decideAgain(set, &m)
}

// decideAgain decides about the nodes again, and compares the result with the move.
func (s *search) decideAgain(set []*node, m *Move) (Move, Kept) {
	now, kept := s.moveOf(set, m)
	if kept.Because == "" && !withinDecision(&now, m) {
		kept = Kept{Because: DecisionChanged, Detail: "The replacement is not the one that was decided"}
	}
	if kept.Because != "" {
		kept.Key = set[0].Key
		return Move{}, kept
	}
	return now, Kept{}
}

// stillEligible returns the nodes of the move that may be disrupted now, and why the first of the
// others is kept.
func (s *search) stillEligible(m *Move) (set []*node, first Kept) {
	counted := map[string]int{} // by pool
	for _, key := range m.Nodes {
		kept := s.whyKept(key, m.Cause, counted)
		if kept.Because != "" {
			kept.Key = key
			if first.Because == "" {
				first = kept
			}
			continue
		}
		n := s.nodes.byKey[key]
		counted[n.Pool]++
		set = append(set, n)
	}
	return set, first
}

// whyKept says why the node may not be disrupted beside the nodes of the move that were counted.
func (s *search) whyKept(key string, cause Cause, counted map[string]int) Kept {
	n := s.nodes.byKey[key]
	if n == nil || n.info == nil || n.info.MarkedForDeletion {
		return Kept{Because: MarkedForDeletion, Detail: "Node is deleting or marked for deletion"}
	}
	if kept, ok := Eligible(n.Node, n.pool, cause, s.in); !ok {
		return kept
	}
	if n.role == receives {
		return Kept{Because: ReceivesPods, Detail: "Pods of other nodes are to move there"}
	}
	if s.budgets.allowed(n.pool, cause) <= counted[n.Pool] {
		_, kept := AllowedDisruptions(n.pool, s.budgets[n.Pool], cause)
		return kept
	}
	return Kept{}
}

// moveOf makes a move of the nodes with the code that the search used for the move's cause.
func (s *search) moveOf(set []*node, m *Move) (Move, Kept) {
	switch {
	case m.Cause == Empty:
		return emptyMoveBuilder{s.in, s.drafts}.build(set[0])
	case m.Cause != Underutilized:
		return s.dueMoves().build(set[0], m.Cause)
	case len(m.Launches) == 0:
		return deletionBuilder{s.drafts, s.savings}.build(set)
	}
	return s.replacements(true).build(set, nil)
}

// withinDecision reports whether the move, as it is now, takes no other nodes than before and
// launches nothing but what was decided. It removes offerings that are new.
func withinDecision(now, before *Move) bool {
	for _, key := range now.Nodes {
		if !slices.Contains(before.Nodes, key) {
			return false
		}
	}
	if len(now.Launches) > len(before.Launches) || len(before.Launches) > 0 && len(now.Nodes) < len(before.Nodes) {
		return false
	}
	unmatched := slices.Clone(before.Launches)
	for i := range now.Launches {
		at := slices.IndexFunc(unmatched, func(o schedule.Launch) bool { return offeredBy(&now.Launches[i], &o) })
		if at < 0 {
			return false
		}
		intersect(&now.Launches[i], unmatched[at].Offerings)
		unmatched = slices.Delete(unmatched, at, at+1)
	}
	return true
}

// offeredBy reports whether the first offering of the launch was an offering of the other.
func offeredBy(l, other *schedule.Launch) bool {
	return l.Pool == other.Pool && slices.Contains(other.Offerings, l.Offerings[0])
}

// intersect drops offerings that are not in among.
func intersect(l *schedule.Launch, among []offering.Ref) {
	kept := slices.DeleteFunc(slices.Clone(l.Offerings), func(c offering.Ref) bool { return !slices.Contains(among, c) })
	if len(kept) < len(l.Offerings) {
		l.Offerings = kept
		updateRules(l)
	}
}
