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
	Solve(w *cluster.Snapshot) schedule.Plan
	Search(w *cluster.Snapshot, c disrupt.Cluster) disrupt.Plan
	// Recheck returns the move as it is still right, or why it is not.
	Recheck(w *cluster.Snapshot, c disrupt.Cluster, m disrupt.Move) (disrupt.Move, disrupt.Kept)
}

// Engine is the Decider that runs the real engine.
type Engine struct{}

// Solve decides which nodes to launch for pods that wait.
func (Engine) Solve(w *cluster.Snapshot) schedule.Plan { return schedule.Solve(w) }

// Search looks for nodes to disrupt.
func (Engine) Search(w *cluster.Snapshot, c disrupt.Cluster) disrupt.Plan {
	return disrupt.Search(w, c, disrupt.Cursor{})
}

// Recheck looks at a move again.
func (Engine) Recheck(w *cluster.Snapshot, c disrupt.Cluster, m disrupt.Move) (disrupt.Move, disrupt.Kept) {
	return disrupt.Recheck(w, c, m)
}
