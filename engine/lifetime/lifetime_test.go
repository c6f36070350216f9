// SPDX-License-Identifier: Apache-2.0

package lifetime

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestNothingIsKnown(t *testing.T) {
	var r Record
	for _, stayed := range []time.Duration{-time.Hour, 0, time.Second, time.Hour, 1000 * time.Hour, math.MaxInt64} {
		if got := r.Remaining(stayed); got != min(max(0, stayed), 1<<62) {
			t.Errorf("a pod that has stayed %v is expected to stay for another %v, want as long again", stayed, got)
		}
	}
}

func TestPodsLikeThese(t *testing.T) {
	var jobs Record
	for range 50 {
		jobs.Add(9 * time.Minute)
	}
	for _, c := range []struct{ stayed, least, most time.Duration }{
		{0, 8 * time.Minute, 13 * time.Minute},
		{5 * time.Minute, 3 * time.Minute, 8 * time.Minute},
		{time.Hour, time.Hour, time.Hour}, // none stayed so long: as long again
	} {
		if got := jobs.Remaining(c.stayed); got < c.least || got > c.most {
			t.Errorf("jobs of nine minutes: after %v another %v, want %v to %v", c.stayed, got, c.least, c.most)
		}
	}
	var services Record
	for range 5 {
		services.Add(100 * time.Hour)
	}
	if got := services.Remaining(time.Minute); got < 50*time.Hour {
		t.Errorf("pods that stay for days: after a minute another %v", got)
	}
}

func TestTheLastRangeHasNoEnd(t *testing.T) {
	var r Record
	r.Add(math.MaxInt64)
	r.Add(-1)
	if r.Pods() != 2 {
		t.Fatalf("%d pods, want 2", r.Pods())
	}
	if got := r.Remaining(math.MaxInt64 / 4); got <= 0 {
		t.Errorf("a pod of %v is expected to stay for %v", time.Duration(math.MaxInt64/4), got)
	}
}

// A workload that changes is known by its recent pods.
func TestRecentPodsCountMost(t *testing.T) {
	var r Record
	for range 500 {
		r.Add(48 * time.Hour)
	}
	for range 500 {
		r.Add(3 * time.Minute)
	}
	if got := r.Remaining(0); got > 5*time.Hour {
		t.Errorf("after 500 pods of three minutes a new one is expected to stay for %v", got)
	}
}

// TestMeanResidualLife compares the estimate with the mean residual life of the very stays that were
// counted. Ranges double, so one estimate may be far off where few stayed longer, but hardly ever three
// times, and on average they are right.
func TestMeanResidualLife(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	logs, far := 0.0, 0
	const worlds = 500
	for range worlds {
		var r Record
		shape := 0.7 + 2*rnd.Float64()
		var stays []time.Duration
		for range 60 { // below full: nothing is halved
			stay := time.Duration(float64(2*time.Minute) * math.Pow(rnd.Float64(), -1/shape))
			stays = append(stays, min(stay, 5*24*time.Hour))
			r.Add(stays[len(stays)-1])
		}
		stayed := time.Duration(rnd.Int64N(int64(20 * time.Minute)))
		sum, n := stayed, time.Duration(1)
		for _, stay := range stays {
			if stay > stayed {
				sum, n = sum+stay-stayed, n+1
			}
		}
		exact, got := sum/n, r.Remaining(stayed)
		if slack := time.Minute; got > 3*exact+slack || got < exact/3-slack {
			far++
		}
		logs += math.Log((got + time.Minute).Minutes() / (exact + time.Minute).Minutes())
	}
	if far > worlds/50 {
		t.Errorf("seed %d: %d of %d estimates are three times too long or too short", seed, far, worlds)
	}
	if mean := math.Exp(logs / worlds); mean < 0.8 || mean > 1.25 {
		t.Errorf("seed %d: estimates are %.2f times the mean residual life on average", seed, mean)
	}
}
