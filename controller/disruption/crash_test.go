// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/disrupt"
)

// Whichever write of a move fails or is the last before a crash, in the end the move is made,
// all pods run, and nothing is left over.
//
// Rule MOVE-1.
func TestMovesEndWellWhateverWriteFails(t *testing.T) {
	for name, tc := range map[string]struct {
		turn  turn
		every map[controllertest.Mode]int // write is struck
	}{
		"two by one":   {turn{cause: disrupt.Underutilized, nodes: 2, by: 1}, map[controllertest.Mode]int{controllertest.DieAfter: 1, controllertest.Refuse: 3, controllertest.LoseAnswer: 3}},
		"three by two": {turn{cause: disrupt.Underutilized, nodes: 3, by: 2}, map[controllertest.Mode]int{controllertest.DieAfter: 2, controllertest.Refuse: 5, controllertest.LoseAnswer: 5}},
		"due":          {turn{cause: disrupt.Drifted, nodes: 1, by: 1}, map[controllertest.Mode]int{controllertest.DieAfter: 2, controllertest.Refuse: 3, controllertest.LoseAnswer: 3}},
		"deleted":      {turn{cause: disrupt.Underutilized, nodes: 3}, map[controllertest.Mode]int{controllertest.DieAfter: 2, controllertest.Refuse: 3, controllertest.LoseAnswer: 3}},
	} {
		for mode, every := range tc.every {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				for at, struck := 1, true; struck; at += every {
					synctest.Test(t, func(t *testing.T) { struck = tc.turn.strike(t, mode, at) })
					if t.Failed() {
						t.Fatalf("%s write %d", mode, at)
					}
				}
			})
		}
	}
}

// turn is a move: so many nodes by so many others, or without any to one of them.
type turn struct {
	cause     disrupt.Cause
	nodes, by int
}

// strike applies the fault to the given write after the cluster is ready, and reports whether the
// fault happened.
func (x turn) strike(t *testing.T, mode controllertest.Mode, at int) (struck bool) {
	e, s := scripted(t, x.nodes, x.cause)
	s.by = x.by
	if x.by == 0 {
		s.keeps = e.Claims()[0].Name
	}
	old := e.Claims()
	before := e.Faults.Writes()
	e.Faults.Mode, e.Faults.At = mode, before+at
	s.off = false
	e.Until(300, "as few nodes as planned that run everything", func() bool {
		live(e, x.nodes)
		return settledOn(e, max(x.by, 1), x.nodes) && !slices.ContainsFunc(e.Claims(), func(c karpv1.NodeClaim) bool {
			return c.Name != s.keeps && slices.ContainsFunc(old, func(o karpv1.NodeClaim) bool { return o.Name == c.Name })
		})
	})
	if launched, most := e.Cloud.Launched(), x.nodes+2*x.by; launched > most {
		t.Errorf("launched %d instances, at most %d were needed", launched, most)
	}
	return e.Faults.Writes() >= before+at
}

// If karve crashes while it takes back a move, the next leader finishes that: the pod that became
// do-not-disrupt keeps its node, and so does the other.
//
// Rule MOVE-1, Rule MOVE-3.
func TestTakingBackEndsWellWhereverItDies(t *testing.T) {
	for at, struck := 1, true; struck; at++ {
		synctest.Test(t, func(t *testing.T) { struck = takeOneBack(t, at) })
		if t.Failed() {
			t.Fatalf("write %d", at)
		}
	}
}

// takeOneBack makes a pod do-not-disrupt when the replacement is ready, crashes after the
// given write from there on, and reports whether that write was ever made.
func takeOneBack(t *testing.T, at int) (struck bool) {
	e, s := scripted(t, 2, disrupt.Underutilized)
	e.Pace = time.Second
	s.off = false
	e.Until(20, "a replacement", func() bool { return replacement(e) != nil })
	s.off = true
	protect(e, &corev1.Pod{}, "web-1")
	before := e.Faults.Writes()
	e.Faults.Mode, e.Faults.At = controllertest.DieAfter, before+at
	e.Until(120, "everything as before", func() bool {
		e.Join()
		return unmarked(e) && len(e.Pods()) == 2 && (deleted(e) || replacement(e) == nil || time.Since(replacement(e).CreationTimestamp.Time) > 90*time.Second)
	})
	if deleted(e) {
		t.Error("a node was taken although a pod of the move asked to stay")
	}
	return e.Faults.Writes() >= before+at
}
