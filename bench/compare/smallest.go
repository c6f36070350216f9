// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"fmt"

	"github.com/karve-dev/karve/bench/worlds"
)

// Smallest describes the smallest world with the same kind of result, for the same reasons, with
// both plans.
func Smallest(ctx context.Context, w *worlds.World) string {
	was := World(ctx, w)
	small := worlds.Shrink(w, 5000, func(w *worlds.World) bool {
		is := World(ctx, w)
		return is.Kind() == was.Kind() && is.Why() == was.Why()
	})
	r := World(ctx, small)
	return fmt.Sprintf("# The smallest world of this kind: %s %s\n%s---\n%s\n--- karve\n%s--- upstream\n%s",
		was.Kind(), was.Why(), small.Text(), r, worlds.Render(r.Ours.Plan), worlds.Render(r.Theirs.Plan))
}
