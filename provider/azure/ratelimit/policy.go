// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// maxHold is how long the policy holds a request at most. It equals the longest wait of the
// SDK's own retries, so that callers see no difference.
const maxHold = 5 * time.Second

// Policy returns the part of an SDK pipeline that takes tokens for requests, holds back requests
// without tokens, and applies the counts in the answers. It belongs behind the retry policy:
// every attempt counts.
func (b *Buckets) Policy() policy.Policy { return pipeline{b} }

type pipeline struct{ b *Buckets }

// Do implements policy.Policy.
func (p pipeline) Do(req *policy.Request) (*http.Response, error) {
	raw := req.Raw()
	c := callOf(raw)
	wait, err := p.b.enter(raw.Context(), c)
	if err != nil {
		return nil, fmt.Errorf("waiting for a turn to ask Azure: %w", err)
	}
	if wait > 0 {
		p.b.count(c, outcomeHeld)
		return heldBack(raw, wait), nil
	}
	sent := p.b.now()
	resp, err := req.Next()
	p.b.recordAnswer(c, sent, resp, err)
	return resp, err
}

// enter waits for the call's tokens, unless a ticket was granted already. It returns the rest of
// the wait when that is too long.
func (b *Buckets) enter(ctx context.Context, c call) (time.Duration, error) {
	if b.use(ticketOf(c.key, c.classes)) {
		return 0, nil
	}
	pass := b.newTicket(c)
	defer b.forget(pass)
	for stayed := time.Duration(0); ; {
		wait := b.tryPass(pass, c)
		if wait == 0 {
			b.use(pass)
			return 0, nil
		}
		if stayed += wait; stayed > maxHold {
			return wait, nil
		}
		if err := sleep(ctx, wait); err != nil {
			return 0, err
		}
	}
}

// use spends a granted ticket, if there is one.
func (b *Buckets) use(id ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.granted[id]
	delete(b.granted, id)
	return ok
}

// newTicket makes a ticket for one request.
func (b *Buckets) newTicket(c call) ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tickets++
	id := ticketOf(c.key, c.classes)
	id.serial = b.tickets
	return id
}

func (b *Buckets) tryPass(id ticket, c call) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ask(id, c.priority, c.classes)
}

// forget removes all state of a request that was sent or gave up.
func (b *Buckets) forget(id ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(id)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// heldBack returns the answer that Azure would have given.
func heldBack(req *http.Request, wait time.Duration) *http.Response {
	seconds := int((wait + time.Second - 1) / time.Second)
	body := fmt.Sprintf(`{"error":{"code":"TooManyRequests","message":"Held back by karve for %d seconds: Azure's request limits are used up."}}`, seconds)
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Status: "429 Too Many Requests",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {strconv.Itoa(seconds)}},
		Body:   io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
	}
}
