// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// strayAfter is how long a replacement of no move is kept: pods that its nodes ran may be about
// to be nominated to it.
const strayAfter = time.Minute

// recovery finishes the work of an earlier process: it continues moves or takes them back,
// removes marks without a move, and deletes replacements without a move.
type recovery struct {
	moves    *moves
	marks    *marker
	deleter  *deleter
	executor *executor
	log      logr.Logger

	// strays are replacements of no move, and since when.
	strays map[string]time.Time
}

func (r *recovery) recoverMoves(ctx context.Context, v *view) error {
	found := map[string]*move{}
	replacing := map[string][]kube.ManagedNode{} // by move
	marked := map[string]bool{}                  // moves that some claim is marked with
	ours := r.moves.nodes()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(v.byClaim)) {
		node := v.byClaim[key]
		if id := node.Claim.Annotations[kube.ReplacesAnnotation]; id != "" && !deletedOrDeleting(node) {
			replacing[id] = append(replacing[id], node)
		}
		mark, ok, err := kube.MoveOf(node.Claim)
		marked[mark.ID] = true
		if ours[key] || !showsMarks(node) {
			continue
		}
		if !ok || err != nil { // remove the mark, whatever it contains
			r.log.Info("taking marks without a move off a node", "nodeclaim", key)
			errs = append(errs, err, r.marks.remove(ctx, key, backOff{}))
			continue
		}
		addMarked(found, mark, key, v.now)
	}
	for id, m := range found {
		r.resume(m, replacing[id], v)
	}
	errs = append(errs, r.deleteStrays(ctx, replacing, marked, v))
	return errors.Join(errs...)
}

// addMarked gathers the nodes of a move that an earlier process began.
func addMarked(found map[string]*move, mark kube.MoveMark, key string, now time.Time) {
	m := found[mark.ID]
	if m == nil {
		chosenAt := mark.Since
		if chosenAt.After(now) { // the clock was set back
			chosenAt = now
		}
		m = &move{Move: disrupt.Move{Cause: disrupt.Cause(mark.Cause)}, id: mark.ID, chosenAt: chosenAt, dropped: map[string]bool{}}
		m.replacements = make([]replacement, mark.Replacements)
		found[mark.ID] = m
	}
	m.Nodes, m.all = append(m.Nodes, key), append(m.all, key)
	m.marksSayTakenBack = m.marksSayTakenBack || mark.TakenBack
}

// resume continues a move of an earlier process if all its replacements exist, since then its
// inspection had passed, and that process was not taking it back. Otherwise the move is taken
// back, and decided anew if it is still right.
func (r *recovery) resume(m *move, launched []kube.ManagedNode, v *view) {
	wanted := len(m.replacements)
	m.replacements = nil
	for _, node := range launched {
		m.replacements = append(m.replacements, replacement{claim: node.Claim})
	}
	m.enter(takingBack, v.now, v.round)
	if wanted > 0 && len(launched) == wanted && !m.marksSayTakenBack {
		m.enter(awaiting, m.chosenAt, v.round)
		_ = r.executor.beginMove(m) // the replacements exist, and count already
	}
	r.moves.add(m)
	r.log.Info("found a move under way", "move", m.id, "reason", m.reason(), "nodeclaims", m.Nodes,
		"replacements", len(launched), "of", wanted, "goes-on", m.phase == awaiting)
}

// deleteStrays deletes replacements that were launched for a move that does not exist any more,
// unless pods use them.
func (r *recovery) deleteStrays(ctx context.Context, replacing map[string][]kube.ManagedNode, marked map[string]bool, v *view) error {
	strays := map[string]time.Time{}
	var errs []error
	for id, nodes := range replacing {
		if marked[id] || r.moves.has(id) {
			continue
		}
		for _, node := range nodes {
			name := node.Claim.Name
			if node.Nominated > 0 || kube.ConditionTrue(node.Claim, karpv1.ConditionTypeInitialized) {
				continue // it serves pods like any other node
			}
			if strays[name] = r.strays[name]; strays[name].IsZero() {
				strays[name] = v.now
			}
			if v.now.Sub(strays[name]) >= strayAfter {
				errs = append(errs, r.deleter.discard(ctx, name, id))
			}
		}
	}
	r.strays = strays
	return errors.Join(errs...)
}
