package pack_test

import (
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/pack"
)

// TestFullWorlds (Rule 5) holds every invariant on worlds in which all semantics are mixed.
func TestFullWorlds(t *testing.T) {
	placed := 0
	for seed := range uint64(1500) {
		script := enginetest.RandomFull(seed, 1+int(seed%40))
		plan := pack.Solve(script.World())
		if err := enginetest.Check(script, plan); err != nil {
			t.Errorf("seed %d: %v\n%s\n%s", seed, err, enginetest.Format(script), enginetest.Print(plan))
		}
		for _, l := range plan.Launches {
			placed += len(l.Pods)
		}
	}
	if placed < 1500 {
		t.Errorf("only %d pods were placed over all worlds: they no longer exercise buying", placed)
	}
}
