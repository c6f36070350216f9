package local

import (
	"context"
	"errors"
)

// Wait returns when ctx ends, with its cause, or when a part ends by itself, with
// the reason.
func (e *Environment) Wait(ctx context.Context) error {
	process, _ := e.karve.current()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.cluster.Done():
	case <-process.ended:
	}
	if err := e.Err(); err != nil {
		return err
	}
	return errors.New("the system was stopped")
}
