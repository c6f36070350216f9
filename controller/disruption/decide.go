package disruption

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
)

const (
	// share is the part of its time that a controller spends searching at most: one
	// in so many.
	share = 4
	// longest is for how long one round searches; the next goes on.
	longest = time.Second
	// anyway is when a search that found nothing is made again.
	anyway = 30 * time.Second
)

// search is how far deciding has come.
type search struct {
	cursor disrupt.Cursor
	// running is set while a search goes on; left is what it found out so far.
	running bool
	left    []disrupt.Kept
	spent   time.Duration
	began   time.Time
	// again is when the next one may begin; revision is of what the last one saw, and
	// wake when time alone changes something about that.
	again    time.Time
	revision uint64
	wake     time.Time
}

// idle reports whether another search would find what the last one did.
func (c *Controller) idle(s *sight) bool {
	return c.search.revision == c.Mirror.Revision() && s.now.Before(c.search.wake)
}

// decide looks for moves, slice by slice so that provisioning never waits long, and
// reports whether there are new ones.
func (c *Controller) decide(ctx context.Context, s *sight) (found bool) {
	if !c.search.running && (s.now.Before(c.search.again) || c.idle(s)) {
		return false
	}
	if !c.search.running {
		c.search = search{running: true, revision: s.revision, began: time.Now()}
		if err := c.Catalog.Refresh(ctx); err != nil {
			c.Log.V(1).Info("catalog incomplete, going on with the rest", "error", err.Error())
		}
	}
	start := time.Now()
	for c.search.running && ctx.Err() == nil && time.Since(start) < longest {
		plan := c.slice(s)
		for _, d := range plan.Moves {
			c.choose(d, s)
			found = true
		}
		c.search.left = append(c.search.left, plan.Kept...)
		c.search.cursor, c.search.running = plan.Next, !plan.Done
	}
	c.search.spent += time.Since(start)
	if !c.search.running {
		c.search.again = s.now.Add((share - 1) * c.search.spent)
		c.search.wake = c.wake(s)
		c.Metrics.DisruptionSearch.Observe(c.search.spent.Seconds())
		c.record(s)
	}
	return found
}

// wake is when to search again though nothing happens: when a reason lapses, or after
// a while, since prices change and clouds have more to sell by themselves.
func (c *Controller) wake(s *sight) time.Time {
	at := s.now.Add(anyway)
	sooner := func(t time.Time) {
		if t.After(s.now) && t.Before(at) {
			at = t
		}
	}
	for _, l := range c.search.left {
		sooner(l.Until)
	}
	for _, p := range s.pools {
		for _, b := range p.Budgets {
			sooner(b.Until)
		}
	}
	return at
}

func (c *Controller) slice(s *sight) (plan disrupt.Plan) {
	d := c.cluster(s, nil)
	decide := c.Search
	if decide == nil {
		decide = disrupt.Search
	}
	c.Mirror.View(func(w *cluster.Snapshot) { plan = decide(w, d, c.search.cursor) })
	return plan
}

func (c *Controller) choose(d disrupt.Move, s *sight) {
	m := newMove(d, rand.String(8), s.now, s.round)
	m.sought = c.search.began
	if c.moves == nil {
		c.moves = map[string]*move{}
	}
	c.moves[m.id] = m
	if c.delay(m) > 0 {
		c.tellChosen(m, s)
		return
	}
	c.begin(m, s) // it is right at this moment
}

// begin has a move made that is right.
func (c *Controller) begin(m *move, s *sight) {
	c.Metrics.DisruptionDeciding.WithLabelValues(m.reason(), m.kind()).Observe(time.Since(m.sought).Seconds())
	m.enter(marking, s.now, s.round)
}

// delay is how long the move must stay right before it begins.
func (c *Controller) delay(m *move) time.Duration {
	if m.patient() {
		return c.Validation
	}
	return 0
}

// validate asks of every move that waited long enough, or was surprised, whether it is
// still right.
func (c *Controller) validate(s *sight) {
	for _, m := range c.inOrder() {
		if m.phase == marked && m.surprised {
			c.reconsider(m, s)
		}
		if m.phase != chosen || s.now.Sub(m.since) < c.delay(m) {
			continue
		}
		now, left := c.recheck(m, s)
		if left.Because == "" {
			m.Move, m.all = now, slices.Clone(now.Nodes) // those that may not go any more have no marks
			m.know()
			c.begin(m, s)
			continue
		}
		delete(c.moves, m.id)
		c.search.wake = s.now
		c.Metrics.DisruptionFailedValidates.WithLabelValues(m.kind()).Add(float64(len(m.Nodes)))
		c.tellRejected(m, left.Key, left.Detail)
	}
}

// reconsider decides anew about a move whose nodes take no more pods by now.
func (c *Controller) reconsider(m *move, s *sight) {
	m.surprised = false
	now, left := c.recheck(m, s)
	if left.Because == "" && len(now.Nodes) < len(m.Nodes) {
		left = disrupt.Kept{Because: disrupt.Changed, Detail: "Not all of its nodes may still go"}
	}
	if left.Because == "" {
		m.Move = now
		m.know()
		return
	}
	m.enter(c.fail(m, left.Detail), s.now, s.round)
}

// recheck asks whether the move is still right.
func (c *Controller) recheck(m *move, s *sight) (now disrupt.Move, left disrupt.Kept) {
	others, ask := c.cluster(s, m), c.Recheck
	if ask == nil {
		ask = disrupt.Recheck
	}
	c.Mirror.View(func(w *cluster.Snapshot) { now, left = ask(w, others, m.Move) })
	return now, left
}
