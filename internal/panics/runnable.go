// SPDX-License-Identifier: Apache-2.0

package panics

import "context"

// Runnable is a loop for controller-runtime's manager, which continues after a panic.
type Runnable struct {
	Panics *Reporter
	Where  string
	Run    func(context.Context) error
	// Everywhere has it run in every process, and not in the leader only.
	Everywhere bool
}

// Start runs the loop until ctx ends.
func (r Runnable) Start(ctx context.Context) error { return r.Panics.Loop(ctx, r.Where, r.Run) }

// NeedLeaderElection reports whether the loop runs on the leader only.
func (r Runnable) NeedLeaderElection() bool { return !r.Everywhere }
