// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
)

// Wait returns when ctx ends, with its cause, or when a part ends by itself for good,
// with the reason.
func (e *Environment) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.cluster.Done():
	case <-e.karve.endedForGood():
	}
	if err := e.Err(); err != nil {
		return err
	}
	return errors.New("the system was stopped")
}
