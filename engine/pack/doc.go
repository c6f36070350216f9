// Package pack answers one question: where do these pods go, and what must be
// bought for them? Solve is pure: the same World gives the same Plan.
//
// It refuses to guess. A pod whose constraints it cannot plan for is left out
// with a reason, never placed on a hunch.
package pack

import "github.com/karve-dev/karve/engine/world"

// Solve decides which machines to buy for the World's pending pods.
func Solve(w *world.World) Plan { return Plan{} }
