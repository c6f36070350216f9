package disruption

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/world"
)

const (
	// share is the part of its time that a controller spends searching at most: one
	// in so many.
	share = 4
	// longest is for how long one round searches; the next goes on.
	longest = time.Second
)

// search is how far deciding has come.
type search struct {
	cursor disrupt.Cursor
	// running is set while a search goes on; left is what it found out so far.
	running bool
	left    []disrupt.Left
	spent   time.Duration
	// again is when the next one may begin.
	again time.Time
}

// decide looks for moves, slice by slice so that provisioning never waits long, and
// reports whether there are new ones.
func (c *Controller) decide(ctx context.Context, s *sight) (found bool) {
	if !c.search.running && s.now.Before(c.search.again) {
		return false
	}
	if !c.search.running {
		c.search = search{running: true}
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
		c.search.left = append(c.search.left, plan.Left...)
		c.search.cursor, c.search.running = plan.Next, !plan.Done
	}
	c.search.spent += time.Since(start)
	if !c.search.running {
		c.search.again = s.now.Add((share - 1) * c.search.spent)
		c.record(s)
	}
	return found
}

func (c *Controller) slice(s *sight) (plan disrupt.Plan) {
	d := c.cluster(s, nil)
	c.Mirror.View(func(w *world.World) { plan = c.Search(w, d, c.search.cursor) })
	return plan
}

func (c *Controller) choose(d disrupt.Move, s *sight) {
	m := newMove(d, rand.String(8), s.now, s.round)
	if c.moves == nil {
		c.moves = map[string]*move{}
	}
	c.moves[m.id] = m
	if c.delay(m) > 0 {
		c.tellChosen(m, s)
		return
	}
	m.enter(marking, s.now, s.round) // it is right at this moment
}

// delay is how long the move must stay right before it begins.
func (c *Controller) delay(m *move) time.Duration {
	if m.patient() {
		return c.Validation
	}
	return 0
}

// validate asks of every move that waited long enough whether it is still right.
func (c *Controller) validate(s *sight) {
	for _, m := range c.inOrder() {
		if m.phase != chosen || s.now.Sub(m.since) < c.delay(m) {
			continue
		}
		now, left := c.recheck(m, s)
		if left.Because == "" {
			m.Move = now
			m.know()
			m.enter(marking, s.now, s.round)
			continue
		}
		delete(c.moves, m.id)
		c.Metrics.DisruptionFailedValidates.WithLabelValues(m.kind()).Add(float64(len(m.Nodes)))
		c.tellRejected(m, left.Key, left.Detail)
	}
}

// recheck asks about the move. Of empty nodes those go that are still empty.
func (c *Controller) recheck(m *move, s *sight) (d disrupt.Move, left disrupt.Left) {
	others := c.cluster(s, m)
	ask := m.Move
	for {
		c.Mirror.View(func(w *world.World) { d, left = c.Recheck(w, others, ask) })
		rest := without(ask.Nodes, left.Key)
		if left.Because == "" || m.Cause != disrupt.Empty || len(rest) == 0 || len(rest) == len(ask.Nodes) {
			return d, left
		}
		c.Metrics.DisruptionFailedValidates.WithLabelValues(m.kind()).Inc()
		c.tellRejected(m, left.Key, left.Detail)
		ask.Nodes = rest
	}
}

func without(keys []string, key string) []string {
	var rest []string
	for _, k := range keys {
		if k != key {
			rest = append(rest, k)
		}
	}
	return rest
}
