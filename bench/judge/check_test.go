// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestCheckSeesWhatTheSchedulerSees spoils plans by moving pods about. The
// engine's own invariants must find every fault that the scheduler finds: they run far
// more often than the scheduler does.
func TestCheckSeesWhatTheSchedulerSees(t *testing.T) {
	refused := 0
	for seed := *first; seed < *first+uint64(*clusters)/4; seed++ {
		s := enginetest.RandomFull(seed, 1+int(seed%32))
		p := spoil(schedule.Solve(s.Snapshot()), rand.New(rand.NewPCG(seed, 3)))
		found := Replay(s, p)
		if len(found) == 0 {
			continue
		}
		refused++
		if enginetest.Check(s, p) == nil {
			t.Errorf("seed %d: Check sees nothing wrong, the scheduler says: %s", seed, found[0])
		}
	}
	t.Logf("%d spoilt plans refused", refused)
	if refused < *clusters/40 {
		t.Errorf("only %d spoilt plans were refused: they are not spoilt enough", refused)
	}
}

// spoil moves up to three pods of the plan to other nodes in it.
func spoil(p schedule.Plan, r *rand.Rand) schedule.Plan {
	var groups []*[]cluster.PodRef
	for i := range p.Nominations {
		groups = append(groups, &p.Nominations[i].Pods)
	}
	for i := range p.Launches {
		groups = append(groups, &p.Launches[i].Pods)
	}
	if len(groups) < 2 {
		return p
	}
	for range 1 + r.IntN(3) {
		from, to := groups[r.IntN(len(groups))], groups[r.IntN(len(groups))]
		if from == to || len(*from) == 0 {
			continue
		}
		i := r.IntN(len(*from))
		pod := (*from)[i]
		without(from, i, 1)
		*to = append((*to)[:len(*to):len(*to)], pod)
	}
	return p
}
