// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestAlikePools: pods are placed on pools that are alike as on pools that are not.
func TestAlikePools(t *testing.T) {
	launches := 0
	for name, script := range lawClusters(100, 25) {
		addCopiesOfPools(script)
		plan := schedule.Solve(script.Snapshot())
		launches += len(plan.Launches)
		tellPoolsApart(script)
		if diff := cmp.Diff(enginetest.Print(schedule.Solve(script.Snapshot())), enginetest.Print(plan)); diff != "" {
			t.Errorf("%s: pools that are alike change the plan:\n%s", name, diff)
		}
	}
	if launches < 500 {
		t.Errorf("only %d nodes were launched", launches)
	}
}

// addCopiesOfPools adds pools that differ in labels, limits and weight from those of the script,
// and has some pods look at the labels.
func addCopiesOfPools(s *enginetest.Script) {
	r := rand.New(rand.NewPCG(uint64(len(s.Pods)), uint64(len(s.Types))))
	const team = "example.com/team"
	for _, p := range slices.Clone(s.Pools) {
		for i := range 3 {
			c := p
			c.Name = fmt.Sprint(p.Name, "-", i)
			c.Labels = maps.Clone(p.Labels)
			if c.Labels == nil {
				c.Labels = map[string]string{}
			}
			c.Labels[team] = fmt.Sprint(i % 2)
			c.Weight += int32(r.IntN(4) / 3)
			if r.IntN(2) == 0 {
				c.Limits = quantity.Amounts{quantity.NameCPU: int64(r.IntN(16) * 1000), quantity.NameNodes: int64(r.IntN(4))}
			}
			s.Pools = append(s.Pools, c)
		}
	}
	for i := range s.Pods {
		if r.IntN(8) == 0 {
			s.Pods[i].Required = append(slices.Clone(s.Pods[i].Required), constraint.Rule{Key: team, Operator: constraint.In, Values: []string{"1"}})
		}
	}
}

// tellPoolsApart adds a DaemonSet for each pool that takes nothing of its nodes: no two are alike
// then.
func tellPoolsApart(s *enginetest.Script) {
	for _, p := range s.Pools {
		s.Daemons = append(s.Daemons, cluster.DaemonSet{
			PodRef:      cluster.PodRef{UID: "only on " + p.Name, Namespace: "default", Name: "only-on-" + p.Name},
			Required:    cluster.Term{{Key: cluster.LabelNodePool, Operator: constraint.In, Values: []string{p.Name}}},
			Tolerations: []cluster.Toleration{{Operator: "Exists"}},
		})
	}
}
