// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube/state"
)

// validate checks again every move that waited long enough, or whose nodes got pods, and starts
// to mark its nodes, drops it or takes it back.
func (c *Controller) validate(ctx context.Context, v *view) {
	for _, m := range c.moves.inOrder() {
		if m.phase == marked && m.recheck {
			c.recheckMarked(ctx, m, v)
		}
		if m.phase != chosen || v.now.Sub(m.since) < c.decider.delay(m) {
			continue
		}
		now, kept := c.decider.recheck(m, v)
		if kept.Because == "" {
			m.Move, m.all = now, slices.Clone(now.Nodes) // those that left the move have no marks
			m.recordPlanned()
			c.decider.startMarking(m, v)
			continue
		}
		c.moves.remove(m)
		c.decider.search.wake = v.now
		c.report.reportEffect(m, reportRejected{key: kept.Key, why: kept.Detail, nodes: len(m.Nodes)})
	}
}

// recheckMarked checks again a move whose nodes accept no more pods by now.
func (c *Controller) recheckMarked(ctx context.Context, m *move, v *view) {
	m.recheck = false
	now, kept := c.decider.recheck(m, v)
	if kept.Because == "" && len(now.Nodes) < len(m.Nodes) {
		kept = disrupt.Kept{Because: disrupt.DecisionChanged, Detail: "Not all of its nodes may still be disrupted"}
	}
	if kept.Because == "" {
		m.Move = now
		m.recordPlanned()
		return
	}
	next, _ := c.executor.perform(ctx, m, takeBack(m, kept.Detail)) // a failed move is no error
	m.enter(next, v.now, v.round)
}

// decider finds moves and checks whether they are still valid.
type decider struct {
	mirror     *state.Mirror
	catalog    *catalog.Keeper
	report     *reporter
	log        logr.Logger
	settings   disrupt.Settings
	validation time.Duration
	find       func(*cluster.Snapshot, disrupt.Input, disrupt.Cursor) disrupt.Plan
	check      func(*cluster.Snapshot, disrupt.Input, disrupt.Move) (disrupt.Move, disrupt.Kept)

	moves    *moves
	backOffs *backOffs
	outcomes *outcomes
	guards   guard.Guards
	// heldUntil is until when the guards hold moves back.
	heldUntil time.Time
	search    search
}

func newDecider(o Options, moves *moves, backOffs *backOffs, outcomes *outcomes) *decider {
	d := &decider{
		mirror: o.Mirror, catalog: o.Catalog, report: outcomes.report, log: o.Log, settings: o.Settings, validation: o.Validation,
		find: o.Search, check: o.Recheck, moves: moves, backOffs: backOffs, outcomes: outcomes,
		guards: o.Guards,
	}
	if d.find == nil {
		d.find = disrupt.Search
	}
	if d.check == nil {
		d.check = disrupt.Recheck
	}
	return d
}

// delay is how long the move must stay valid before its nodes are marked.
func (d *decider) delay(m *move) time.Duration {
	if m.consolidates() {
		return d.validation
	}
	return 0
}

// decide searches for moves, slice by slice so that provisioning never waits long, and reports
// whether there are new ones.
func (d *decider) decide(ctx context.Context, v *view) (found bool) {
	if v.now.Before(d.heldUntil) {
		return false
	}
	if !d.search.running && (v.now.Before(d.search.again) || d.search.idle(v.now, d.mirror.Revision())) {
		return false
	}
	if !d.search.running {
		d.search = search{running: true, revision: v.revision, began: time.Now()}
		if err := d.catalog.Refresh(ctx); err != nil {
			d.log.V(1).Info("catalog incomplete, going on with the rest", "error", err.Error())
		}
	}
	start := time.Now()
	for d.search.running && ctx.Err() == nil && time.Since(start) < maxSearchPerRound {
		plan := d.slice(v)
		for _, m := range plan.Moves {
			d.choose(m, v)
			found = true
		}
		d.search.add(plan)
	}
	d.search.spent += time.Since(start)
	if !d.search.running {
		d.search.finish(v)
		if d.heldUntil.After(v.now) {
			d.search.wake = d.heldUntil
		}
		d.report.searched(d.search, v, d.input(v, nil), d.moves.inOrder())
	}
	return found
}

func (d *decider) slice(v *view) (plan disrupt.Plan) {
	in := d.input(v, nil)
	d.mirror.View(func(snapshot *cluster.Snapshot) { plan = d.find(snapshot, in, d.search.cursor) })
	return plan
}

func (d *decider) choose(found disrupt.Move, v *view) {
	m := newMove(found, rand.String(8), v.now, v.round)
	m.searched = d.search.began
	d.moves.add(m)
	if d.delay(m) > 0 {
		d.report.reportEffect(m, reportChosen{v})
		return
	}
	d.startMarking(m, v) // it was found valid just now
}

// startMarking ends the wait of a valid move: its nodes are marked next. While the guards hold it
// back, it is dropped, and found again later.
func (d *decider) startMarking(m *move, v *view) {
	if held := (*guard.Error)(nil); errors.As(d.guards.Take(len(m.Launches), len(m.Nodes)), &held) {
		d.moves.remove(m)
		d.heldUntil = v.now.Add(held.RetryAfter)
		d.search.wake = d.heldUntil
		d.report.held(m, v, held)
		return
	}
	d.report.observeDecisionTime(m)
	m.enter(marking, v.now, v.round)
}

// recheck reports whether the move is still valid.
func (d *decider) recheck(m *move, v *view) (now disrupt.Move, kept disrupt.Kept) {
	in := d.input(v, m)
	d.mirror.View(func(snapshot *cluster.Snapshot) { now, kept = d.check(snapshot, in, m.Move) })
	return now, kept
}

// input is what decisions read besides the snapshot; without is a move to leave out.
func (d *decider) input(v *view, without *move) disrupt.Input {
	in := disrupt.Input{Now: v.now, Nodes: v.nodes, BackOffUntil: d.backOffs.current(v.now), Settings: d.settings}
	for _, p := range v.pools {
		p.BackOffUntil, p.ConsolidationPausedUntil = d.backOffs.pool(p.Name).Until, d.outcomes.pausedUntil(p.Name)
		in.Pools = append(in.Pools, p)
	}
	for _, m := range d.moves.inOrder() {
		if m != without && m.phase != ended {
			in.Underway = append(in.Underway, m.underway())
		}
		if nodes := v.stillCounted(m); len(nodes) > 0 {
			in.Underway = append(in.Underway, disrupt.Move{Cause: m.Cause, Nodes: nodes})
		}
	}
	return in
}

const (
	// searchShare bounds the part of its time that a controller spends on searches: one in so
	// many.
	searchShare = 4
	// maxSearchPerRound is for how long one round searches; the next round continues.
	maxSearchPerRound = time.Second
	// searchEvery is when a search that found nothing is made again.
	searchEvery = 30 * time.Second
)

// search is how far the search for moves is.
type search struct {
	cursor disrupt.Cursor
	// running is set while a search is in progress; kept are the nodes that it has kept so far.
	running bool
	kept    []disrupt.Kept
	spent   time.Duration
	began   time.Time
	// again is when the next search may begin at the earliest. revision is the mirror's revision
	// at the last one, and wake when its result may change by time alone.
	again    time.Time
	revision uint64
	wake     time.Time
}

// idle reports whether another search would have the same result as the last one.
func (s *search) idle(now time.Time, revision uint64) bool {
	return s.revision == revision && now.Before(s.wake)
}

// due is when the next search begins if nothing happens, but at most latest.
func (s *search) due(revision uint64, latest time.Time) time.Time {
	if s.wake.Before(latest) {
		latest = s.wake
	}
	if revision != s.revision && s.again.Before(latest) {
		latest = s.again
	}
	return latest
}

func (s *search) add(p disrupt.Plan) {
	s.kept = append(s.kept, p.Kept...)
	s.cursor, s.running = p.Next, !p.Done
}

// finish sets when to search again. Although nothing happens, that is when the reason to keep a
// node lapses, or after a while, since prices and capacity in the cloud change.
func (s *search) finish(v *view) {
	s.again = v.now.Add((searchShare - 1) * s.spent)
	s.wake = v.now.Add(searchEvery)
	sooner := func(t time.Time) {
		if t.After(v.now) && t.Before(s.wake) {
			s.wake = t
		}
	}
	for _, k := range s.kept {
		sooner(k.Until)
	}
	for _, p := range v.pools {
		for _, b := range p.Budgets {
			sooner(b.Until)
		}
	}
}
