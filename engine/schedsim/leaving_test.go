// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"slices"
	"testing"
)

// Rule CONSOLIDATION-20: pods that a PodDisruptionBudget allows to be evicted only one after
// the other leave after all other pods.
func TestPodsThatAPDBDelaysLeaveLast(t *testing.T) {
	one, many := PDB{Name: "one", Allowed: 1}, PDB{Name: "many", Allowed: 9}
	var l leavingPods
	l.reset()
	for i, pdb := range []*PDB{&many, &one, nil, &many, &one, &one} { // the largest last
		pdbs := map[string]*PDB{}
		if pdb != nil {
			pdbs["pod"] = pdb
		}
		l.add(&podClass{}, i, "pod", pdbs)
		l.addBatch(0, float64(i), i)
	}
	var got []int
	queue, delayed := l.queue(allNodesAtOnce)
	for _, p := range queue {
		got = append(got, p.from)
	}
	if delayed != 4 {
		t.Errorf("%d pods leave without delay, want 4", delayed)
	}
	if want := []int{5, 3, 2, 0, 4, 1}; !slices.Equal(got, want) {
		t.Errorf("pods leave in the order %v, want %v", got, want)
	}
}
