package disruption_test

import (
	"testing"
	"testing/synctest"

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
