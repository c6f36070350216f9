// SPDX-License-Identifier: Apache-2.0

// Package aksmachine speaks to the AKS machine API: it writes what an AKSNodeClass requires of a
// machine in the API's types, sends several orders as one request, and reads the result of each
// from the error. The provider decides which machines to create and what to remember of them.
package aksmachine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
)

// Batching says how long requests wait to be sent as one.
type Batching struct {
	// Idle is how long a request waits for the next one, Most how long any request waits at all.
	Idle, Most time.Duration
	// Size is how many orders one request holds.
	Size int
}

// A Batcher combines orders that Azure accepts as one request: orders with the same key that come
// within Idle of each other, for at most Most, and up to Size of them.
type Batcher[T any] struct {
	Batching
	// send sends orders of one key. It returns the result of each.
	send   func(ctx context.Context, orders []T) []error
	panics *panics.Reporter

	mu   sync.Mutex
	open map[string]*batch[T] // batches that still accept orders, by key
}

// ErrNotSent reports that an order was withdrawn before it was sent.
var ErrNotSent = errors.New("the request was not sent")

// sendTimeout is the timeout of one request, retries included.
const sendTimeout = 2 * time.Minute

// A batch is a set of orders that wait for each other. Batcher.mu guards it.
type batch[T any] struct {
	orders []*order[T]
	joined chan struct{} // signals a new order
	full   chan struct{} // closed when the batch has Size orders
}

type order[T any] struct {
	what   T
	answer chan error
}

func NewBatcher[T any](b Batching, p *panics.Reporter, send func(context.Context, []T) []error) *Batcher[T] {
	return &Batcher[T]{panics: p, Batching: b, send: send, open: map[string]*batch[T]{}}
}

// Order sends an order together with others of its key, and returns its result. When ctx ends
// before the order was sent, it will not be sent, and the error is an ErrNotSent; when
// ctx ends later, the result is unknown.
func (b *Batcher[T]) Order(ctx context.Context, key string, what T) error {
	if b.Size == 1 {
		return b.send(ctx, []T{what})[0]
	}
	o := b.join(ctx, key, what)
	select {
	case err := <-o.answer:
		return err
	case <-ctx.Done():
	}
	if b.withdraw(key, o) {
		return fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
	return ctx.Err()
}

func (b *Batcher[T]) join(ctx context.Context, key string, what T) *order[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.open[key]
	if x == nil {
		x = &batch[T]{joined: make(chan struct{}, 1), full: make(chan struct{})}
		b.open[key] = x
		// The batch must be sent even if the first caller gives up.
		lasting := context.WithoutCancel(ctx)
		b.panics.Go(cached.PanicsName, func() { b.run(lasting, key, x) })
	}
	o := &order[T]{what: what, answer: make(chan error, 1)}
	x.orders = append(x.orders, o)
	if len(x.orders) == b.Size {
		delete(b.open, key)
		close(x.full)
	}
	select {
	case x.joined <- struct{}{}:
	default:
	}
	return o
}

// withdraw removes an order, if its batch is still open.
func (b *Batcher[T]) withdraw(key string, o *order[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.open[key]
	if x == nil {
		return false
	}
	for i := range x.orders {
		if x.orders[i] == o {
			x.orders = append(x.orders[:i], x.orders[i+1:]...)
			return true
		}
	}
	return false
}

// run waits until a batch is complete and sends it.
func (b *Batcher[T]) run(ctx context.Context, key string, x *batch[T]) {
	x.wait(b.Idle, b.Most)
	orders := b.close(key, x)
	if len(orders) == 0 {
		return // all were withdrawn
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	whats := make([]T, len(orders))
	for i, o := range orders {
		whats[i] = o.what
	}
	for i, err := range b.sent(ctx, whats) {
		orders[i].answer <- err
	}
}

// sent sends orders. After a panic the result of every order is unknown.
func (b *Batcher[T]) sent(ctx context.Context, orders []T) (became []error) {
	if err := b.panics.Do(cached.PanicsName, func() error { became = b.send(ctx, orders); return nil }); err != nil {
		return slices.Repeat([]error{err}, len(orders))
	}
	return became
}

// wait returns when the batch is full, no order has come for idle, or most has passed.
func (x *batch[T]) wait(idle, most time.Duration) {
	quiet, end := time.NewTimer(idle), time.NewTimer(most)
	defer quiet.Stop()
	defer end.Stop()
	for {
		select {
		case <-x.joined:
			quiet.Reset(idle)
		case <-x.full:
			return
		case <-quiet.C:
			return
		case <-end.C:
			return
		}
	}
}

// close takes a batch's orders; none can be added or withdrawn any more.
func (b *Batcher[T]) close(key string, x *batch[T]) []*order[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[key] == x {
		delete(b.open, key)
	}
	return x.orders
}
