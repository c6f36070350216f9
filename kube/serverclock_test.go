// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"
	"testing/synctest"
	"time"
)

// Clocks that differ by seconds are alike; by more, what the API server dates is as old as it says.
func TestServerClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unknown *ServerClock
		clock, now := &ServerClock{}, time.Now()
		if !unknown.Now().Equal(now) || !clock.Now().Equal(now) || clock.Since(now) != 0 {
			t.Error("a clock of which nothing is known differs from this machine's")
		}
		for ahead, want := range map[time.Duration]time.Duration{
			0: 0, 9 * time.Second: 0, -9 * time.Second: 0, time.Minute: time.Minute, -time.Hour: -time.Hour,
		} {
			clock.Observe(now.Add(ahead))
			if got := clock.Now().Sub(now); got != want {
				t.Errorf("ahead by %v: %v, want %v", ahead, got, want)
			}
			if got := clock.Since(now.Add(want - time.Minute)); got != time.Minute {
				t.Errorf("ahead by %v: a minute ago was %v ago", ahead, got)
			}
			if got := clock.Local(now.Add(want)); !got.Equal(now) {
				t.Errorf("ahead by %v: now was %v ago", ahead, now.Sub(got))
			}
		}
	})
}
