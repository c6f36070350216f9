// SPDX-License-Identifier: Apache-2.0

package cached

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Request is a request in flight. It continues when the callers that wait for it give up,
// because other callers share its result.
type Request struct {
	started time.Time
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // safe for concurrent reads, once done
}

// NewRequest returns a request, and a context for sending it that outlives ctx.
func NewRequest(ctx context.Context, now time.Time) (*Request, context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestRequest)
	return &Request{started: now, cancel: cancel, done: make(chan struct{})}, ctx
}

// Finish records the result.
func (a *Request) Finish(err error) {
	a.err = err
	a.cancel()
	close(a.done)
}

// Stop cancels the request, and returns when it has ended. It accepts nil.
func (a *Request) Stop() {
	if a != nil {
		a.cancel()
		<-a.done
	}
}

const (
	// retryFirst is how long a source without any result waits between attempts, so that many
	// callers do not become many requests.
	retryFirst = 3 * time.Second
	// longestRequest is the timeout of a request, pages and retries included.
	longestRequest = 5 * time.Minute
	// EmptyFor is how long a value that may be empty by mistake is kept.
	EmptyFor = 30 * time.Minute
)

// errNoAnswerYet reports that there is no result yet and the caller stopped waiting.
var errNoAnswerYet = errors.New("going on without")

// Wait waits for the result.
func (a *Request) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return a.err
	}
}

// WaitBriefly waits until patience has passed since the start of the request.
func (a *Request) WaitBriefly(ctx context.Context, now time.Time, patience time.Duration) error {
	t := time.NewTimer(a.started.Add(patience).Sub(now))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return a.err
	case <-t.C:
		return fmt.Errorf("no answer for %v: %w", patience, errNoAnswerYet)
	}
}

// Pause waits for d and reports false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// A Backoff is the last failure and when to try again: after 3 seconds, and twice as long each
// time, up to a minute.
type Backoff struct {
	Err   error
	wait  time.Duration
	Until time.Time
}

func (h *Backoff) Failed(err error, now time.Time) {
	if now.Before(h.Until) {
		return // a concurrent attempt
	}
	h.wait = min(max(2*h.wait, retryFirst), time.Minute)
	h.Err, h.Until = err, now.Add(h.wait)
}
