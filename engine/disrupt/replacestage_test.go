// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/enginetest"
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

// A node whose own offering would be launched again stays, and is no longer taken to be the wrong type.
// In later sets it would be left out again, each time after another draft.
func TestRelaunchedNodesAreNotTheWrongType(t *testing.T) {
	script, err := enginetest.Parse(`
type D2 cpu=2 mem=8Gi price=0.10
type D8 cpu=8 mem=32Gi price=0.40
pool p
node a type=D8 pool=p
node b type=D8 pool=p
node c type=D2 pool=p
pod a1 cpu=1 mem=1Gi on=a
pod b1 cpu=1 mem=1Gi on=b
pod c1 cpu=1 mem=1Gi on=c
`)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := Input{Now: now, Pools: []Pool{{Name: "p"}}}
	for _, key := range []string{"a", "b", "c"} {
		in.Nodes = append(in.Nodes, Node{Key: key, Name: key, Pool: "p", Ready: true, Initialized: now.Add(-time.Hour), ReschedulablePods: ReschedulablePods{Pods: 1, EvictionCost: 1}})
	}
	s := newSearch(script.Snapshot(), &in, false)
	stage := s.replaceStage()
	for _, n := range s.nodes.all {
		n.forecast = wrongType
		s.receivers.stop(n)
	}
	if set := slices.Clone(stage.list()); !stage.accept(&proposal{set: set}) {
		t.Fatalf("nothing is replaced: %+v", set[0].kept)
	}
	m, kept := s.accepted.moves[0], s.nodes.byKey["c"]
	if !slices.Equal(m.Nodes, []string{"a", "b"}) || len(m.Launches) != 1 {
		t.Errorf("%v are replaced by %d nodes; want a and b by one", m.Nodes, len(m.Launches))
	}
	if kept.kept.Because != ReceivesPods || kept.forecast == wrongType {
		t.Errorf("c is kept for %q and its forecast is %d", kept.kept.Because, kept.forecast)
	}
}
