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
// and it pays. It returns the move as it is now, or Kept of the first node with an objection. A
// move without launches continues with those of its nodes that may still be disrupted.
//
// The move is not simulated again: it was decided together with others, and would be judged
// alone. Nor does Recheck keep a node of the move while there is no objection to the move: the
// search compared more options, and the two would disagree again and again. The move itself may
// be among Cluster.Underway.
func Recheck(w *cluster.Snapshot, c Cluster, m Move) (Move, Kept) {
	c.Underway = slices.DeleteFunc(slices.Clone(c.Underway), func(o Move) bool { return slices.Equal(o.Nodes, m.Nodes) })
	s := newSearch(w, &c, false)
	defer s.drafts.whatIf.End()
	for _, n := range s.nodes.all {
		if n.forecast == wrongType { // the search made the forecast; Recheck does not repeat it
			n.forecast = goes
		}
	}
	s.receivers.rewind()
	set, left := s.stillGoing(&m)
	if len(set) == 0 || len(set) < len(m.Nodes) && len(m.Launches) > 0 {
		return Move{}, left
	}
	if !m.Cause.graceful() {
		s.receivers.admit()
	}
	s.receivers.only(w, &m)
	if now, left := s.repeat(set, &m); left.Because == "" {
		return now, left
	}
	s.receivers.rewind()
	return s.repeat(set, &m)
}

// repeat decides about the nodes again, and compares the result with the move.
func (s *search) repeat(set []*node, m *Move) (Move, Kept) {
	now, left := s.again(set, m)
	if left.Because == "" && !agrees(&now, m) {
		left = Kept{Because: DecisionChanged, Detail: "The replacement is not the one that was decided"}
	}
	if left.Because != "" {
		left.Key = set[0].Key
		return Move{}, left
	}
	return now, Kept{}
}

// stillGoing returns the nodes of the move that may be disrupted now, and the first objection.
func (s *search) stillGoing(m *Move) (set []*node, first Kept) {
	taken := map[string]int{}
	for _, key := range m.Nodes {
		left := s.objection(key, m.Cause, taken)
		if left.Because != "" {
			left.Key = key
			if first.Because == "" {
				first = left
			}
			continue
		}
		n := s.nodes.byKey[key]
		taken[n.Pool]++
		set = append(set, n)
	}
	return set, first
}

func (s *search) objection(key string, cause Cause, taken map[string]int) Kept {
	n := s.nodes.byKey[key]
	if n == nil || n.info == nil || n.info.Leaving {
		return Kept{Because: MarkedForDeletion, Detail: "Node is deleting or marked for deletion"}
	}
	if left, ok := Eligible(n.Node, n.pool, cause, s.c); !ok {
		return left
	}
	if n.inMove == receives {
		return Kept{Because: ReceivesPods, Detail: "Pods of other nodes are to move there"}
	}
	if s.budgets.room(n.pool, cause) <= taken[n.Pool] {
		_, left := Allowed(n.pool, s.budgets[n.Pool], cause)
		return left
	}
	return Kept{}
}

// again makes a move of the nodes with the code that the search used for the move's cause.
func (s *search) again(set []*node, m *Move) (Move, Kept) {
	switch {
	case m.Cause == Empty:
		return emptyMoves{s.c, s.drafts}.of(set[0])
	case m.Cause != Underutilized:
		return s.dueMoves().of(set[0], m.Cause)
	case len(m.Launches) == 0:
		return deletions{s.drafts, s.savings}.of(set)
	}
	for _, n := range set {
		n.waste = n.price
	}
	return s.replacements(true).of(set, nil)
}

// agrees reports whether the move, as it is now, takes no other nodes than before and launches
// nothing but what was decided; offerings that are new are left out.
func agrees(now, before *Move) bool {
	for _, key := range now.Nodes {
		if !slices.Contains(before.Nodes, key) {
			return false
		}
	}
	if len(now.Launches) > len(before.Launches) || len(before.Launches) > 0 && len(now.Nodes) < len(before.Nodes) {
		return false
	}
	open := slices.Clone(before.Launches)
	for i := range now.Launches {
		at := slices.IndexFunc(open, func(o schedule.Launch) bool { return within(&now.Launches[i], &o) })
		if at < 0 {
			return false
		}
		restrict(&now.Launches[i], open[at].Offerings)
		open = slices.Delete(open, at, at+1)
	}
	return true
}

// within reports whether the first offering of the launch was an offering of the other.
func within(l, other *schedule.Launch) bool {
	return l.Pool == other.Pool && slices.Contains(other.Offerings, l.Offerings[0])
}

// restrict drops offerings that are not in among.
func restrict(l *schedule.Launch, among []offering.Ref) {
	kept := slices.DeleteFunc(slices.Clone(l.Offerings), func(c offering.Ref) bool { return !slices.Contains(among, c) })
	if len(kept) < len(l.Offerings) {
		l.Offerings = kept
		describe(l)
	}
}
