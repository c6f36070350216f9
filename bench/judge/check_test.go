package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestCheckSeesWhatTheSchedulerSees spoils plans by moving pods about. Whatever the
// scheduler then refuses, the engine's own invariants must find wrong too: they
// run far more often than the scheduler does.
func TestCheckSeesWhatTheSchedulerSees(t *testing.T) {
	refused := 0
	for seed := *first; seed < *first+uint64(*worlds)/4; seed++ {
		s := enginetest.RandomFull(seed, 1+int(seed%32))
		p := spoil(schedule.Solve(s.World()), rand.New(rand.NewPCG(seed, 3)))
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
	if refused < *worlds/40 {
		t.Errorf("only %d spoilt plans were refused: they are not spoilt enough", refused)
	}
}

// spoil moves up to three pods of the plan to other machines in it.
func spoil(p schedule.Plan, r *rand.Rand) schedule.Plan {
	var homes []*[]cluster.PodRef
	for i := range p.Nominations {
		homes = append(homes, &p.Nominations[i].Pods)
	}
	for i := range p.Launches {
		homes = append(homes, &p.Launches[i].Pods)
	}
	if len(homes) < 2 {
		return p
	}
	for range 1 + r.IntN(3) {
		from, to := homes[r.IntN(len(homes))], homes[r.IntN(len(homes))]
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
