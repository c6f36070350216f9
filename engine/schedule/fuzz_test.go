// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// FuzzSnapshot plans for any snapshot: it never panics and never loses or invents a pod. For
// input that an API server accepts, it never plans a placement that the scheduler would
// refuse.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a world of some bytes, each of them a choice"))
	// More first offerings than quota.
	f.Add([]byte("X210010007007\x060070001060700070X7A0007A00000000000"))
	f.Add([]byte{200, 3, 17, 99, 4, 250, 1, 0, 0, 0, 77, 5, 130, 60, 31, 8, 9, 10, 200, 201, 202, 5, 5, 5})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 600 {
			return
		}
		script, wild := enginetest.Decode(data)
		plan := schedule.Solve(script.Snapshot())
		if wild {
			accountedFor(t, script, plan)
			return
		}
		if err := enginetest.Check(script, plan); err != nil {
			t.Errorf("%v\n%s----\n%s", err, enginetest.Format(script), enginetest.Print(plan))
		}
	})
}

// accountedFor checks that every pending pod is in the plan exactly once.
func accountedFor(t *testing.T, s *enginetest.Script, p schedule.Plan) {
	t.Helper()
	seen := map[string]int{}
	for _, l := range p.Launches {
		for _, ref := range l.Pods {
			seen[ref.UID]++
		}
	}
	for _, n := range p.Nominations {
		for _, ref := range n.Pods {
			seen[ref.UID]++
		}
	}
	for _, u := range p.Unplaced {
		for _, ref := range u.Pods {
			seen[ref.UID]++
		}
		if u.Because == "" {
			t.Errorf("%v is left out without a reason", u.Pods)
		}
	}
	for _, pod := range s.Pods {
		if n := seen[pod.UID]; pod.Node == "" && n != 1 {
			t.Errorf("pod %s is %d times in the plan", pod.Name, n)
		}
	}
}
