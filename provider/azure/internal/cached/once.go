// SPDX-License-Identifier: Apache-2.0

package cached

import (
	"context"

	"golang.org/x/sync/singleflight"

	"github.com/karve-dev/karve/internal/panics"
)

// PanicsName is the name under which panics of the provider's goroutines are counted.
const PanicsName = "azure"

// Once runs read once for all concurrent callers with the same key. A caller that gives up does
// not cancel the read, because the others share its result.
func Once[T any](ctx context.Context, inFlight *Reads, key string, p *panics.Reporter, read func(context.Context) (T, error)) (T, error) {
	answers := inFlight.DoChan(key, func() (any, error) {
		var out T
		err := p.Do(PanicsName, func() (err error) { out, err = read(context.WithoutCancel(ctx)); return err })
		return out, err
	})
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case answer := <-answers:
		return answer.Val.(T), answer.Err
	}
}

// Reads are the reads in flight, by key; see Once.
type Reads = singleflight.Group
