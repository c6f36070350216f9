// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"container/heap"
	"time"
)

// start is when every day begins: a Monday, midnight UTC.
var start = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// clock is virtual time and the events scheduled in it. Events of one instant happen in
// the order in which they were scheduled.
type clock struct {
	now    time.Time
	events timeline
	seq    int
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

// after has do run once d has passed; at this instant, but later, when d is not positive.
func (c *clock) after(d time.Duration, do func()) {
	c.seq++
	heap.Push(&c.events, event{c.now.Add(max(0, d)), c.seq, do})
}

// every schedules do again and again, first once d has passed, until it returns false.
func (c *clock) every(d time.Duration, do func() bool) {
	c.after(d, func() {
		if do() {
			c.every(d, do)
		}
	})
}

// runNext runs all events of the next instant. It returns false when there is none up to end.
func (c *clock) runNext(end time.Time) bool {
	if len(c.events) == 0 || c.events[0].at.After(end) {
		return false
	}
	c.now = c.events[0].at
	for len(c.events) > 0 && c.events[0].at.Equal(c.now) {
		heap.Pop(&c.events).(event).do()
	}
	return true
}

// timeline is a heap of events, soonest first.
type timeline []event

func (t timeline) Len() int { return len(t) }
func (t timeline) Less(i, j int) bool {
	if !t[i].at.Equal(t[j].at) {
		return t[i].at.Before(t[j].at)
	}
	return t[i].seq < t[j].seq
}
func (t timeline) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timeline) Push(x any)   { *t = append(*t, x.(event)) }
func (t *timeline) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}
