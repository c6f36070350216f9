// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// clock is the emulator's time: its pace, and what happens later. Its lock guards every
// resource: handlers hold it while they read and write them, and so does all that happens later.
type clock struct {
	sync.Mutex
	scale  float64
	chance *chance
	agenda *agenda
}

func newClock(scale float64, c *chance) *clock {
	return &clock{scale: scale, chance: c, agenda: newAgenda()}
}

// setScale changes the pace of what begins from now on.
func (c *clock) setScale(scale float64) error {
	if err := validScale(scale); err != nil {
		return err
	}
	c.Lock()
	defer c.Unlock()
	c.scale = scale
	return nil
}

// pace is scaled for callers that do not hold the lock.
func (c *clock) pace(d time.Duration) time.Duration {
	c.Lock()
	defer c.Unlock()
	return c.scaled(d)
}

// scaled is a delay of the real Azure at the emulator's pace. Callers hold the lock.
func (c *clock) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * c.scale)
}

// later draws a delay and calls act, with the lock held, when it is over. Callers hold the lock.
func (c *clock) later(d Distribution, act func()) {
	c.afterScaled(c.chance.draw(d), act)
}

// afterScaled calls act, with the lock held, after a delay of the real Azure.
func (c *clock) afterScaled(d time.Duration, act func()) {
	c.agenda.after(c.scaled(d), func() {
		c.Lock()
		defer c.Unlock()
		act()
	})
}

// agenda is everything that will happen by itself: the end of operations, the end of boots,
// evictions. One goroutine carries it out in order of time, so that closing the server ends it
// all at once.
type agenda struct {
	mu     sync.Mutex
	events eventHeap
	next   int           // breaks ties: first entered, first done
	wake   chan struct{} // holds a token when the earliest event may have changed
}

type event struct {
	at    time.Time
	order int
	act   func()
}

func newAgenda() *agenda {
	return &agenda{wake: make(chan struct{}, 1)}
}

// after has act done when d has passed. act runs on the agenda's goroutine and
// must not block for long.
func (a *agenda) after(d time.Duration, act func()) {
	a.mu.Lock()
	heap.Push(&a.events, event{at: time.Now().Add(d), order: a.next, act: act})
	a.next++
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run carries out the agenda until ctx ends.
func (a *agenda) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for act := a.due(); act != nil; act = a.due() {
			act()
		}
		timer.Reset(a.untilNext())
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer.C:
		}
	}
}

// due takes the earliest event if its time has come.
func (a *agenda) due() func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.events) == 0 || a.events[0].at.After(time.Now()) {
		return nil
	}
	return heap.Pop(&a.events).(event).act
}

func (a *agenda) untilNext() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.events) == 0 {
		return time.Hour
	}
	return time.Until(a.events[0].at)
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return last
}
