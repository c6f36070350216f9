// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/provider"
)

// Rule QUOTA-4.
func TestForecastSaysWhenAQuotaEnds(t *testing.T) {
	var p exhaustionForecast
	now := time.Unix(1000, 0)
	left := map[string]int64{"regional": 1000, "family:d": 1000, "lowPriority": 1000}
	for range 60 { // minutes
		if got := p.observe(now, left); got["family:d"].Left != 0 {
			t.Fatalf("a budget that stays ends: %v", got)
		}
		now = now.Add(time.Minute)
		left["regional"] -= 10
		left["lowPriority"]++
	}
	got := p.observe(now, left)["regional"]
	if got.Left != 400 || got.In < 38*time.Minute || got.In > 42*time.Minute {
		t.Errorf("400 left, 10 fewer each minute: %+v", got)
	}
	if diff := cmp.Diff(map[string]provider.Exhaustion{"regional": got}, p.observe(now.Add(time.Second), left)); diff != "" {
		t.Errorf("a moment later (-want +got):\n%s", diff)
	}
	for range 60 {
		now = now.Add(time.Minute)
		left["regional"] += 5
		got = p.observe(now, left)["regional"]
	}
	if got != (provider.Exhaustion{}) {
		t.Errorf("it grows again: %+v", got)
	}
	left["regional"] = 0
	if got, ends := p.observe(now.Add(time.Hour), left)["regional"]; !ends || got.In != 0 {
		t.Errorf("nothing is left: %+v", got)
	}
}
