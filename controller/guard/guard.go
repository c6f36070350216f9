// SPDX-License-Identifier: Apache-2.0

// Package guard limits how many NodeClaims are created, and how many are deleted voluntarily,
// whatever decides it: a loop that has run away must neither buy nor remove a whole fleet before a
// person has looked.
//
// It decides nothing and writes nothing: controllers ask before they act, and come back later when
// they are held. The zero Guard, and a nil one, hold nothing.
package guard

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

// saved is for how many minutes what was not used may be used at once.
const saved = 5

// logEvery is how long the log does not repeat that a Guard holds something.
const logEvery = time.Minute

// Guard allows so many actions a minute. Those of the last five minutes that were not taken may be
// taken at once.
type Guard struct {
	// What is guarded, in words for people ("creations of NodeClaims"), and the flag that sets
	// PerMinute.
	What, Flag string
	// PerMinute is how many actions are allowed in a minute; zero means any number.
	PerMinute int
	// Share is what is allowed in a large fleet: so many percent of its nodes in a minute, if that is
	// more than PerMinute.
	Share int
	// Fleet counts the nodes. The fewest of the last half hour to hour count, so that nodes that a
	// runaway loop creates do not allow it more. Nil means none.
	Fleet func() int
	// Held counts the actions that were held; nil counts none.
	Held prometheus.Counter
	Log  logr.Logger

	mu      sync.Mutex
	started bool
	left    float64   // may be negative after an action that was larger than all that is saved
	filled  time.Time // when left was computed
	logged  time.Time
	fleet   lowest
}

// Error reports that an action is held back for a while.
type Error struct {
	What, Flag string
	Limit      int // a minute
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s wait for %s: there were so many lately that more than %d a minute look like a mistake (see --%s)",
		e.What, e.RetryAfter, e.Limit, e.Flag)
}

// Take allows n actions, or returns an Error. More actions than are ever saved are allowed when none
// was taken lately; others wait until these are paid back.
func (g *Guard) Take(n int) error {
	if g == nil || g.PerMinute <= 0 || n <= 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	limit := g.refill(now)
	if need := min(float64(n), limit*saved); g.left < need {
		wait := time.Duration((need - g.left) / limit * float64(time.Minute)).Truncate(time.Second)
		return g.hold(n, now, &Error{What: g.What, Flag: g.Flag, Limit: int(limit), RetryAfter: wait + time.Second})
	}
	g.left -= float64(n)
	return nil
}

// Give returns actions that were taken and did not happen.
func (g *Guard) Give(n int) {
	if g == nil || g.PerMinute <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left += float64(n)
}

// refill adds what the time since the last call allows, and returns what a minute does.
func (g *Guard) refill(now time.Time) (limit float64) {
	limit = float64(g.PerMinute)
	if g.Fleet != nil {
		limit = max(limit, float64(g.fleet.since(now, g.Fleet()))*float64(g.Share)/100)
	}
	if !g.started {
		g.started, g.left = true, limit*saved
	} else {
		g.left += limit * now.Sub(g.filled).Minutes()
	}
	g.filled, g.left = now, min(g.left, limit*saved)
	return limit
}

func (g *Guard) hold(n int, now time.Time, err *Error) error {
	if g.Held != nil {
		g.Held.Add(float64(n))
	}
	if now.Sub(g.logged) >= logEvery {
		g.logged = now
		g.Log.Info("holding back, since there were so many lately", "what", g.What, "per-minute", err.Limit,
			"retry-after", err.RetryAfter.String(), "flag", "--"+g.Flag)
	}
	return err
}

// lowest is the lowest count of the last half hour to hour. The zero lowest has none.
type lowest struct {
	began             time.Time // of the present half hour
	previous, present int       // lowest counts of two half hours
}

const halfHour = 30 * time.Minute

// since takes in a count and returns the lowest.
func (l *lowest) since(now time.Time, count int) int {
	switch passed := now.Sub(l.began); {
	case passed >= 2*halfHour:
		l.began, l.previous, l.present = now, count, count
	case passed >= halfHour:
		l.began, l.previous, l.present = now, l.present, count
	}
	l.present = min(l.present, count)
	return min(l.previous, l.present)
}

// Guards are those of one process. The zero Guards hold nothing.
type Guards struct {
	Creations *Guard // of NodeClaims
	Deletions *Guard // of NodeClaims that could stay
}

// Take allows so many creations and deletions together, or none of them.
func (g Guards) Take(creations, deletions int) error {
	if err := g.Creations.Take(creations); err != nil {
		return err
	}
	if err := g.Deletions.Take(deletions); err != nil {
		g.Creations.Give(creations)
		return err
	}
	return nil
}
