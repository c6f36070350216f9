// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/schedule"
)

// Decider makes the decisions. Engine is the real one; tests use broken ones to see that the
// Checker notices.
type Decider interface {
	Solve(snapshot *cluster.Snapshot) schedule.Plan
	Search(snapshot *cluster.Snapshot, in disrupt.Input) disrupt.Plan
	// Recheck returns the move as it is still right, or why it is not.
	Recheck(snapshot *cluster.Snapshot, in disrupt.Input, m disrupt.Move) (disrupt.Move, disrupt.Kept)
}

// Engine is the Decider that runs the real engine.
type Engine struct{}

// Solve decides which nodes to launch for pods that wait.
func (Engine) Solve(snapshot *cluster.Snapshot) schedule.Plan { return schedule.Solve(snapshot) }

// Search looks for nodes to disrupt.
func (Engine) Search(snapshot *cluster.Snapshot, in disrupt.Input) disrupt.Plan {
	return disrupt.Search(snapshot, in, disrupt.Cursor{})
}

// Recheck looks at a move again.
func (Engine) Recheck(snapshot *cluster.Snapshot, in disrupt.Input, m disrupt.Move) (disrupt.Move, disrupt.Kept) {
	return disrupt.Recheck(snapshot, in, m)
}
