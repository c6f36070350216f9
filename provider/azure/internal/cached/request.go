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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	return &Request{started: now, cancel: cancel, done: make(chan struct{})}, ctx
}

// Finish records the result.
func (req *Request) Finish(err error) {
	req.err = err
	req.cancel()
	close(req.done)
}

// Stop cancels the request, and returns when it has ended. It accepts nil.
func (req *Request) Stop() {
	if req != nil {
		req.cancel()
		<-req.done
	}
}

const (
	// firstRetry is how long a source without any result waits between attempts, so that many
	// callers do not become many requests.
	firstRetry = 3 * time.Second
	// requestTimeout is the timeout of a request, pages and retries included.
	requestTimeout = 5 * time.Minute
	// EmptyFor is how long a value that may be empty by mistake is kept.
	EmptyFor = 30 * time.Minute
)

// errNoAnswerYet reports that there is no result yet and the caller stopped waiting.
var errNoAnswerYet = errors.New("going on without")

// Wait waits for the result.
func (req *Request) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-req.done:
		return req.err
	}
}

// WaitBriefly waits until patience has passed since the start of the request.
func (req *Request) WaitBriefly(ctx context.Context, now time.Time, patience time.Duration) error {
	t := time.NewTimer(req.started.Add(patience).Sub(now))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-req.done:
		return req.err
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
	h.wait = min(max(2*h.wait, firstRetry), time.Minute)
	h.Err, h.Until = err, now.Add(h.wait)
}
