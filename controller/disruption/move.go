// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"slices"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// phase is the step of a move that runs next.
type phase string

const (
	// chosen moves wait until they have been valid for a while. Nothing is written yet.
	chosen phase = "chosen"
	// marking writes on claims and nodes that they will be disrupted.
	marking phase = "marking"
	// marked moves have nodes that accept no more pods. They are inspected past the cache.
	marked phase = "marked"
	// launching creates the NodeClaims of the replacements.
	launching phase = "launching"
	// awaiting waits until all replacements are ready for pods.
	awaiting phase = "awaiting"
	// deleting deletes the NodeClaims. From then on the move cannot be taken back.
	deleting phase = "deleting"
	// takingBack removes the marks, and deletes replacements that no pod uses.
	takingBack phase = "takingBack"
	// ended moves remain while the mirror still shows marks that were removed.
	ended phase = "ended"
)

// launchOutcome is whether the replacements were launched and became ready.
type launchOutcome int

const (
	launchUnknown launchOutcome = iota
	launchFailed
	launchReady
)

// move is a disrupt.Move and its progress.
type move struct {
	disrupt.Move
	id       string
	phase    phase
	since    time.Time // it is in the phase
	round    int       // in which the phase began
	chosenAt time.Time // for a move of an earlier process, when it was marked
	// searched is when the search began that found the move; zero for one of an earlier process.
	searched time.Time
	// replacements are in the order of Launches.
	replacements []replacement
	// planned are the UIDs of the pods that the move provides for.
	planned map[string]bool
	// dropped are the nodes that were deleted or left the move; all is every node that was ever
	// part of it.
	dropped map[string]bool
	all     []string
	// newBackOffs are back-offs that are not recorded yet, by node, and launchOutcome is the
	// move's result for NodePools: moves run concurrently, Controller.record collects both.
	newBackOffs   map[string]backOff
	launchOutcome launchOutcome
	// marksSayTakenBack is set once the marks record that the move is taken back.
	marksSayTakenBack bool
	// recheck is set when pods arrived that the move must provide for first; rechecks counts how
	// often.
	recheck  bool
	rechecks int
	// displaced has the pods that the move displaced, once its nodes are being deleted.
	displaced *displacement
	// begunInMirror is set once decisions count the nodes as marked for deletion.
	begunInMirror bool
}

// replacement is a NodeClaim that is launched in place of the move's nodes.
type replacement struct {
	claim  *karpv1.NodeClaim
	launch schedule.Launch // zero when an earlier process launched it
}

func newMove(d disrupt.Move, id string, now time.Time, round int) *move {
	m := &move{Move: d, id: id, chosenAt: now, dropped: map[string]bool{}, all: slices.Clone(d.Nodes)}
	m.recordPlanned()
	m.enter(chosen, now, round)
	return m
}

func (m *move) enter(p phase, now time.Time, round int) { m.phase, m.since, m.round = p, now, round }

// mayLoseNodes reports whether the move is in a phase in which its nodes may be deleted by others,
// and then leave it.
func (m *move) mayLoseNodes() bool {
	return m.phase != chosen && m.phase != takingBack && m.phase != ended
}

// recordPlanned records the pods that the move provides for.
func (m *move) recordPlanned() {
	m.planned = map[string]bool{}
	for _, r := range m.Nominations {
		for _, p := range r.Pods {
			m.planned[p.UID] = true
		}
	}
	for _, l := range m.Launches {
		for _, p := range l.Pods {
			m.planned[p.UID] = true
		}
	}
}

// drop takes nodes off the move. It does not change a list of m.Nodes that is being read.
func (m *move) drop(keys ...string) {
	if len(keys) == 0 {
		return
	}
	for _, key := range keys {
		m.dropped[key] = true
	}
	m.Nodes = slices.DeleteFunc(slices.Clone(m.Nodes), func(key string) bool { return m.dropped[key] })
}

// replaces reports whether the move needs replacements. Then it disrupts all its nodes or none.
func (m *move) replaces() bool { return m.replacementCount() > 0 }

func (m *move) replacementCount() int { return max(len(m.Launches), len(m.replacements)) }

// replacementNames are the names of the replacements' claims.
func (m *move) replacementNames() []string {
	names := make([]string, 0, len(m.replacements))
	for _, r := range m.replacements {
		names = append(names, r.claim.Name)
	}
	return names
}

// replacementPools are the NodePools of the replacements.
func (m *move) replacementPools() map[string]bool {
	pools := map[string]bool{}
	for _, r := range m.replacements {
		pools[r.claim.Labels[karpv1.NodePoolLabelKey]] = true
	}
	return pools
}

// mark is the mark on the NodeClaims of the move's nodes.
func (m *move) mark() kube.MoveMark {
	return kube.MoveMark{ID: m.id, Replacements: m.replacementCount(), Cause: string(m.Cause), Since: m.chosenAt}
}

// consolidates reports whether the move consolidates. Such a move can wait.
func (m *move) consolidates() bool {
	return m.Cause == disrupt.Empty || m.Cause == disrupt.Underutilized
}

// underway is the move as decisions count it. Once the mirror has the destinations of its pods,
// the snapshot contains them.
func (m *move) underway() disrupt.Move {
	u := m.Move
	if m.begunInMirror || m.phase == takingBack {
		u.Nominations, u.Launches = nil, nil
	}
	return u
}

// moves are the moves in progress. The zero value is empty.
type moves struct {
	byID map[string]*move
}

func (s *moves) add(m *move) { s.byID = with(s.byID, m.id, m) }

func (s *moves) remove(m *move) { delete(s.byID, m.id) }

func (s *moves) len() int { return len(s.byID) }

func (s *moves) has(id string) bool { return s.byID[id] != nil }

// inOrder lists the moves, oldest first.
func (s *moves) inOrder() []*move {
	all := make([]*move, 0, len(s.byID))
	for _, m := range s.byID {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *move) int {
		if d := a.chosenAt.Compare(b.chosenAt); d != 0 {
			return d
		}
		return strings.Compare(a.id, b.id)
	})
	return all
}

// nodes are all nodes that moves have or had.
func (s *moves) nodes() map[string]bool {
	keys := map[string]bool{}
	for _, m := range s.byID {
		for _, key := range m.all {
			keys[key] = true
		}
	}
	return keys
}

const (
	// shortestReady and longestReady bound how long replacements may take from their creation
	// to get ready; between them it is readyPerNode for each of the moves' nodes. After the
	// longest, the snapshot counts their capacity no more, and it would be launched twice.
	shortestReady, longestReady = 10 * time.Minute, state.StuckAfter
	readyPerNode                = 80 * time.Millisecond
)

// readyWithin is how long replacements may take.
func (s *moves) readyWithin() time.Duration {
	nodes := 0
	for _, m := range s.byID {
		nodes += len(m.all)
	}
	return min(max(time.Duration(nodes)*readyPerNode, shortestReady), longestReady)
}
