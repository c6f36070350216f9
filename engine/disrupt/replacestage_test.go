// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// A size that failed is not tried again with every node, and one that paid is found again.
func TestFirstSize(t *testing.T) {
	for name, c := range map[string]struct {
		last           map[string]int // see replaceStage.replacedAtOnce
		queueIndex     int
		size, attempts int
	}{
		"the first node of a pool":               {nil, 3, maxWrongTypes, maxWrongTypes},
		"the next one after eight nodes at once": {map[string]int{"web": 8}, 3, 8, maxWrongTypes},
		"every eighth after eight nodes at once": {map[string]int{"web": 8}, 16, maxWrongTypes, maxWrongTypes},
		"the next one after a failure":           {map[string]int{"web": 1}, 3, 1, maxWrongTypes},
		"every eighth after a failure":           {map[string]int{"web": 1}, 16, maxWrongTypes, 3},
		"after a failure in another pool":        {map[string]int{"batch": 1}, 3, maxWrongTypes, maxWrongTypes},
	} {
		t.Run(name, func(t *testing.T) {
			s := &replaceStage{replacedAtOnce: c.last}
			size, attempts := s.firstSize(&node{Node: &Node{Pool: "web"}, queueIndex: c.queueIndex})
			if size != c.size || attempts != c.attempts {
				t.Errorf("sets of %d first, and %d sets at most; want %d and %d", size, attempts, c.size, c.attempts)
			}
		})
	}
}

// Launching nodes that the move removes is pointless, but each launch speaks against one of them only.
func TestRelaunchedNodes(t *testing.T) {
	small, large := offering.Ref{Type: "small", Zone: "1"}, offering.Ref{Type: "large", Zone: "1"}
	nodeOf := func(pool string, o offering.Ref) *node { return &node{Node: &Node{Pool: pool}, offering: o.Key(pool)} }
	launchOf := func(o offering.Ref) schedule.Launch {
		return schedule.Launch{Pool: "web", Offerings: []offering.Ref{o, {Type: "other", Zone: "1"}}}
	}
	a, b, c, d := nodeOf("web", small), nodeOf("web", large), nodeOf("web", small), nodeOf("batch", small)
	set := []*node{a, b, c, d}
	for name, test := range map[string]struct {
		launches []schedule.Launch
		want     []*node
	}{
		"other offerings":        {[]schedule.Launch{launchOf(offering.Ref{Type: "small", Zone: "2"})}, nil},
		"one of two alike":       {[]schedule.Launch{launchOf(small)}, []*node{a}},
		"one for each launch":    {[]schedule.Launch{launchOf(small), launchOf(small), launchOf(large)}, []*node{a, b, c}},
		"more launches of it":    {[]schedule.Launch{launchOf(large), launchOf(large)}, []*node{b}},
		"not of other NodePools": {[]schedule.Launch{launchOf(small), launchOf(small), launchOf(small)}, []*node{a, c}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := relaunchedNodes(test.launches, set); !slices.Equal(got, test.want) {
				t.Errorf("%d nodes: %v; want %d", len(got), got, len(test.want))
			}
		})
	}
}
