package disrupt

import (
	"slices"
	"testing"
)

// Rule 133: whom a PodDisruptionBudget lets go only one after the other leaves after everybody else.
func TestHeldUpPodsLeaveLast(t *testing.T) {
	one, many := &Guard{Budget: "one", Allowed: 1}, &Guard{Budget: "many", Allowed: 9}
	sorted := []evicted{{share: 0.9, guard: one}, {share: 0.8, guard: one}, {share: 0.7, guard: many}, {share: 0.6}, {share: 0.5, guard: one}, {share: 0.4, guard: many}}
	var got []float64
	now, late := heldUp(sorted)
	for _, p := range slices.Concat(now, late) {
		got = append(got, p.share)
	}
	if want := []float64{0.9, 0.7, 0.6, 0.4, 0.8, 0.5}; !slices.Equal(got, want) {
		t.Errorf("pods leave in the order %v, want %v", got, want)
	}
}
