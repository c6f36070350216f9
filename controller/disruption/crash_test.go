package disruption_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/disrupt"
)

// Whatever write karve fails or dies at while it replaces two nodes by one, in the
// end that one runs everything, and nothing is left over.
//
// Rule 140.
func TestReplacementEndsWellWhateverWriteFails(t *testing.T) {
	for mode, every := range map[controllertest.Mode]int{
		controllertest.DieAfter: 1, // the hardest
		controllertest.Refuse:   3, controllertest.LoseAnswer: 3,
	} {
		t.Run(string(mode), func(t *testing.T) {
			for at, struck := 1, true; struck; at += every {
				synctest.Test(t, func(t *testing.T) { struck = replaceTwo(t, mode, at) })
				if t.Failed() {
					t.Fatalf("%s write %d", mode, at)
				}
			}
		})
	}
}

// replaceTwo strikes the given write after everything is up, and reports whether the
// fault came into play.
func replaceTwo(t *testing.T, mode controllertest.Mode, at int) (struck bool) {
	e, s := scripted(t, 2, disrupt.Underutilized)
	before := e.Faults.Writes()
	e.Faults.Mode, e.Faults.At = mode, before+at
	s.off = false
	e.Until(300, "one node that runs everything", func() bool {
		live(e, 2)
		return settled(e, 2)
	})
	if bought := e.Cloud.Bought(); bought > 4 {
		t.Errorf("bought %d machines, 3 or 4 were needed", bought)
	}
	return e.Faults.Writes() >= before+at
}

// Whoever dies while a move is taken back, the next finishes that: the pod that asked to
// be left alone keeps its node, and so does the other.
//
// Rule 140, Rule 141.
func TestUndoingEndsWellWhereverItDies(t *testing.T) {
	for at, struck := 1, true; struck; at++ {
		synctest.Test(t, func(t *testing.T) { struck = undoOne(t, at) })
		if t.Failed() {
			t.Fatalf("write %d", at)
		}
	}
}

// undoOne has a pod ask to be left alone when the replacement is ready, dies after the
// given write from there on, and reports whether that write was ever made.
func undoOne(t *testing.T, at int) (struck bool) {
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
