package azure

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
)

// A batcher combines orders that Azure accepts as one request: orders with the same key that
// come within idle of each other, for at most most, and up to size of them.
type batcher[T any] struct {
	idle, most time.Duration
	size       int
	// send sends orders of one key. It returns the result of each.
	send   func(ctx context.Context, orders []T) []error
	panics *panics.Reporter

	mu   sync.Mutex
	open map[string]*batch[T] // batches that still accept orders, by key
}

// sendFor is the timeout of one request, retries included.
const sendFor = 2 * time.Minute

// A batch is a set of orders that wait for each other. batcher.mu guards it.
type batch[T any] struct {
	orders []*order[T]
	joined chan struct{} // signals a new order
	full   chan struct{} // closed when the batch has size orders
}

type order[T any] struct {
	what   T
	answer chan error
}

func newBatcher[T any](b Batching, p *panics.Reporter, send func(context.Context, []T) []error) *batcher[T] {
	return &batcher[T]{panics: p, idle: b.Idle, most: b.Most, size: b.Size, send: send, open: map[string]*batch[T]{}}
}

// ask sends an order together with others of its key, and returns its result. When ctx ends
// before the order was sent, it will not be sent, and the error is marked errBeforeRequest; when
// ctx ends later, the result is unknown.
func (b *batcher[T]) ask(ctx context.Context, key string, what T) error {
	if b.size == 1 {
		return b.send(ctx, []T{what})[0]
	}
	o := b.join(ctx, key, what)
	select {
	case err := <-o.answer:
		return err
	case <-ctx.Done():
	}
	if b.withdraw(key, o) {
		return prepare(ctx.Err())
	}
	return ctx.Err()
}

func (b *batcher[T]) join(ctx context.Context, key string, what T) *order[T] {
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
	if len(x.orders) == b.size {
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
func (b *batcher[T]) withdraw(key string, o *order[T]) bool {
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
func (b *batcher[T]) run(ctx context.Context, key string, x *batch[T]) {
	x.wait(b.idle, b.most)
	orders := b.close(key, x)
	if len(orders) == 0 {
		return // all were withdrawn
	}
	ctx, cancel := context.WithTimeout(ctx, sendFor)
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
func (b *batcher[T]) sent(ctx context.Context, orders []T) (became []error) {
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
func (b *batcher[T]) close(key string, x *batch[T]) []*order[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[key] == x {
		delete(b.open, key)
	}
	return x.orders
}
