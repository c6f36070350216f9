// SPDX-License-Identifier: Apache-2.0

// Package aksmachine uses AKS's machine API: it converts an AKSNodeClass to the API's types, sends
// several orders (creations or deletions of AKS machines) as one request, and reads the result of
// each from the error. The provider decides which AKS machines to create.
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
	// Idle is how long a request waits for the next one, MaxWait how long any request waits at all.
	Idle, MaxWait time.Duration
	// Size is how many orders one request holds.
	Size int
}

// A Batcher combines orders that Azure accepts as one request: orders with the same key that come
// within Idle of each other, for at most MaxWait, and up to Size of them.
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
	item   T
	result chan error
}

func NewBatcher[T any](b Batching, p *panics.Reporter, send func(context.Context, []T) []error) *Batcher[T] {
	return &Batcher[T]{panics: p, Batching: b, send: send, open: map[string]*batch[T]{}}
}

// Submit sends an order together with others of its key, and returns its result. When ctx ends
// before the order is sent, it is not sent, and the error is an ErrNotSent; when ctx ends later,
// the result is unknown.
func (b *Batcher[T]) Submit(ctx context.Context, key string, item T) error {
	if b.Size == 1 {
		return b.send(ctx, []T{item})[0]
	}
	o := b.join(ctx, key, item)
	select {
	case err := <-o.result:
		return err
	case <-ctx.Done():
	}
	if b.withdraw(key, o) {
		return fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
	return ctx.Err()
}

// join adds an order to the open batch of its key, and starts one if there is none.
func (b *Batcher[T]) join(ctx context.Context, key string, item T) *order[T] {
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
	o := &order[T]{item: item, result: make(chan error, 1)}
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
	x.wait(b.Idle, b.MaxWait)
	orders := b.close(key, x)
	if len(orders) == 0 {
		return // all were withdrawn
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	items := make([]T, len(orders))
	for i, o := range orders {
		items[i] = o.item
	}
	for i, err := range b.sendRecovered(ctx, items) {
		orders[i].result <- err
	}
}

// sendRecovered sends orders and recovers panics: the result of every order is unknown then.
func (b *Batcher[T]) sendRecovered(ctx context.Context, orders []T) (results []error) {
	if err := b.panics.Do(cached.PanicsName, func() error { results = b.send(ctx, orders); return nil }); err != nil {
		return slices.Repeat([]error{err}, len(orders))
	}
	return results
}

// wait returns when the batch is full, no order has come for idle, or maxWait has passed.
func (x *batch[T]) wait(idle, maxWait time.Duration) {
	idleTimer, maxTimer := time.NewTimer(idle), time.NewTimer(maxWait)
	defer idleTimer.Stop()
	defer maxTimer.Stop()
	for {
		select {
		case <-x.joined:
			idleTimer.Reset(idle)
		case <-x.full:
			return
		case <-idleTimer.C:
			return
		case <-maxTimer.C:
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
