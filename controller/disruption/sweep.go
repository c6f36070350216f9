package disruption

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

const (
	// orphaned is how long a replacement of no move is waited for: pods that its nodes
	// ran may be about to be promised room there.
	orphaned = time.Minute
	// patienceWithMarks is how long marks that were taken off may show on.
	patienceWithMarks = 10 * time.Second
)

// sweep takes up what an earlier process left behind: moves are gone on with or taken
// back, taints without a move come off, and replacements without a move go.
func (c *Controller) sweep(ctx context.Context, s *sight) error {
	found := map[string]*move{}
	replacing := map[string][]kube.Machine{}
	known := map[string]bool{}
	for id := range c.moves {
		known[id] = true
	}
	ours := c.concerned()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(s.machines)) {
		machine := s.machines[key]
		if id := machine.Claim.Annotations[kube.ReplacesAnnotation]; id != "" && !leaving(machine) {
			replacing[id] = append(replacing[id], machine)
		}
		mark, marked, err := kube.MoveOf(machine.Claim)
		known[mark.ID] = true
		if ours[key] || !showsMarks(machine) {
			continue
		}
		if !marked || err != nil { // the mark goes, whatever it says
			c.Log.Info("taking marks without a move off a node", "nodeclaim", key)
			errs = append(errs, err, c.unmark(ctx, key, rest{}))
			continue
		}
		adopt(found, mark, key, s.now)
	}
	for id, m := range found {
		c.resume(m, replacing[id], s)
	}
	errs = append(errs, c.removeOrphans(ctx, replacing, known, s))
	return errors.Join(errs...)
}

// adopt gathers the nodes of a move that an earlier process began.
func adopt(found map[string]*move, mark kube.MoveMark, key string, now time.Time) {
	m := found[mark.ID]
	if m == nil {
		begun := mark.Since
		if begun.After(now) { // the clock was set back
			begun = now
		}
		m = &move{Move: disrupt.Move{Cause: disrupt.Cause(mark.Cause)}, id: mark.ID, begun: begun, gone: map[string]bool{}}
		m.purchases = make([]purchase, mark.Replacements)
		found[mark.ID] = m
	}
	m.Nodes, m.all = append(m.Nodes, key), append(m.all, key)
	m.renounced = m.renounced || mark.Undone
}

// concerned is every node that moves of ours have or had.
func (c *Controller) concerned() map[string]bool {
	keys := map[string]bool{}
	for _, m := range c.moves {
		for _, key := range m.all {
			keys[key] = true
		}
	}
	return keys
}

// resume goes on with a move of an earlier process when all it bought is there, since
// then everything was certain; else, and when that process was taking it back, it is taken
// back, and decided anew if it is right.
func (c *Controller) resume(m *move, bought []kube.Machine, s *sight) {
	wanted := len(m.purchases)
	m.purchases = nil
	for _, machine := range bought {
		m.purchases = append(m.purchases, purchase{claim: machine.Claim})
	}
	m.enter(undoing, s.now, s.round)
	if wanted > 0 && len(bought) == wanted && !m.renounced {
		m.enter(waiting, m.begun, s.round)
		c.depart(m, nil)
	}
	if c.moves == nil {
		c.moves = map[string]*move{}
	}
	c.moves[m.id] = m
	c.Log.Info("found a move under way", "move", m.id, "reason", m.reason(), "nodeclaims", m.Nodes,
		"replacements", len(bought), "of", wanted, "goes-on", m.phase == waiting)
}

// removeOrphans deletes replacements that were bought for a move that nobody knows
// any more, and that nobody uses.
func (c *Controller) removeOrphans(ctx context.Context, replacing map[string][]kube.Machine, known map[string]bool, s *sight) error {
	seen := map[string]time.Time{}
	var errs []error
	for id, machines := range replacing {
		if known[id] {
			continue
		}
		for _, machine := range machines {
			name := machine.Claim.Name
			if machine.Promised > 0 || kube.ConditionTrue(machine.Claim, karpv1.ConditionTypeInitialized) {
				continue // a node like any other by now
			}
			if seen[name] = c.orphans[name]; seen[name].IsZero() {
				seen[name] = s.now
			}
			if s.now.Sub(seen[name]) >= orphaned {
				errs = append(errs, c.discard(ctx, name, id))
			}
		}
	}
	c.orphans = seen
	return errors.Join(errs...)
}

// tidy takes marks that still show off again: nobody else would.
func (c *Controller) tidy(ctx context.Context, m *move, s *sight) error {
	if s.now.Sub(m.since) < patienceWithMarks {
		return nil
	}
	m.since = s.now // who refuses is asked again later
	var errs []error
	for _, key := range m.all {
		if showsMarks(s.machines[key]) {
			errs = append(errs, c.unmark(ctx, key, c.restOf(m, key)))
		}
	}
	return errors.Join(errs...)
}
