package disruption

import (
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/world"
	"github.com/karve-dev/karve/kube"
)

// Failures count while no replacement comes; one that does has them forgotten.
//
// Rule 142.
func TestPoolRestsAfterFailuresInARow(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	machines := map[string]kube.Machine{"a": {World: world.Node{Pool: "web"}}, "b": {World: world.Node{Pool: "web"}}}
	for name, tc := range map[string]struct {
		course string // f: a move fails, s: another's replacements come
		rest   time.Duration
	}{
		"two are borne":               {"ff", 0},
		"three are not":               {"fff", time.Minute},
		"a fourth doubles the rest":   {"ffff", 2 * time.Minute},
		"what went well counts":       {"ffsff", 0},
		"and begins a row of its own": {"ffsfff", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var r rests
			for round, what := range tc.course {
				s := &sight{now: now, round: round + 1, machines: machines}
				if what == 's' {
					r.relieve([]string{"b"}, s)
					continue
				}
				r.pools([]string{"a", "b"}, s) // two nodes of one move, or two moves at once
			}
			if got := r.byPool["web"].until.Sub(now); max(got, 0) != tc.rest {
				t.Errorf("after %s the pool rests for %s, want %s", tc.course, got, tc.rest)
			}
		})
	}
}
