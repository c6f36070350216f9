// SPDX-License-Identifier: Apache-2.0

package audit

import "time"

// timeline is a value that changes, with when it did. The zero timeline never had one.
type timeline[T any] struct {
	values []T
	from   []time.Time
}

// set records the value from that time on, and forgets values that ended before the horizon.
func (l *timeline[T]) set(at time.Time, value T, horizon time.Duration) {
	l.values, l.from = append(l.values, value), append(l.from, at)
	for len(l.values) > 1 && at.Sub(l.from[1]) > horizon {
		l.values, l.from = l.values[1:], l.from[1:]
	}
}

// within returns the values at any instant from one time to the other. A value that was replaced
// exactly at from counts: it is not known which of the two was read. What came before the first value
// is taken for the first one.
func (l *timeline[T]) within(from, to time.Time) []T {
	first, last := 0, -1
	for i, at := range l.from {
		if at.Before(from) {
			first = i
		}
		if !at.After(to) {
			last = i
		}
	}
	if last < 0 && len(l.values) > 0 {
		last = 0
	}
	if last < first {
		return nil
	}
	return l.values[first : last+1]
}
