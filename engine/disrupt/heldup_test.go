package disrupt

import (
	"slices"
	"testing"
)

// Rule CONSOLIDATION-20: pods that a PodDisruptionBudget lets go only one after the other leave
// after all other pods.
func TestHeldUpPodsLeaveLast(t *testing.T) {
	one, many := &PDB{Name: "one", Allowed: 1}, &PDB{Name: "many", Allowed: 9}
	p := evictions{budgets: map[string]int{"one": 0, "many": 1}}
	for i, guard := range []*PDB{many, one, nil, many, one, one} { // the largest last
		e := evictedPod{from: i, guard: guard}
		if guard != nil {
			e.budget = p.budgets[guard.Name]
		}
		p.pods = append(p.pods, e)
		p.batches = append(p.batches, evictionBatch{share: float64(i), from: i, to: i + 1})
	}
	var got []int
	now, late := p.queue(mixed)
	for _, e := range slices.Concat(now, late) {
		got = append(got, e.from)
	}
	if want := []int{5, 3, 2, 0, 4, 1}; !slices.Equal(got, want) {
		t.Errorf("pods leave in the order %v, want %v", got, want)
	}
}
