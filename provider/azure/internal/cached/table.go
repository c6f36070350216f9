// SPDX-License-Identifier: Apache-2.0

package cached

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
)

// A Table caches facts by key. Concurrent callers share one read: in a burst of a thousand
// launches the first ones ask at the same time. When a read fails, the cached value is kept and
// is read again after a minute. A slow read blocks no caller for longer than the patience: the
// caller then gets the cached value, or an error.
type Table[V any] struct {
	Name string // of the facts, for errors; the key follows
	// MaybeEmpty reports whether a value may be empty by mistake. Such a value is read again
	// after a minute, and ignored if there was another before; nil means never.
	MaybeEmpty func(V) bool
	TTL        time.Duration
	Env

	reads Reads

	mu    sync.Mutex
	known map[string]fact[V]
}

// A fact is a value with the time it was read; a zero time means never.
type fact[V any] struct {
	value V
	read  time.Time
}

const (
	// readTimeout is the timeout of a read, retries included.
	readTimeout = 30 * time.Second
	// retryAfter is how soon a read that failed or was empty is repeated.
	retryAfter = time.Minute
)

// Get returns the cached value, or reads it again when it has expired.
func (t *Table[V]) Get(ctx context.Context, key string, read func(context.Context) (V, error)) (V, error) {
	known, now := t.cached(key), t.Now()
	if !known.read.IsZero() && now.Sub(known.read) < t.TTL {
		return known.value, nil
	}
	brief, stop := context.WithTimeout(ctx, t.Patience)
	defer stop()
	value, err := Once(brief, &t.reads, key, t.Panics, func(ctx context.Context) (V, error) {
		ctx, stop := context.WithTimeout(ctx, readTimeout)
		defer stop()
		value, err := read(ctx)
		return t.store(key, value, err, now)
	})
	switch {
	case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
		return value, err
	case !known.read.IsZero():
		return known.value, nil
	}
	return value, fmt.Errorf("reading %s: no answer for %v: %w", strings.TrimSpace(t.Name+" "+key), t.Patience, err) // passes by itself
}

func (t *Table[V]) cached(key string) fact[V] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[key]
}

// store stores the result of a read that began at startedAt, and returns the value that now counts.
func (t *Table[V]) store(key string, value V, err error, startedAt time.Time) (V, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.known[key]
	again := startedAt.Add(retryAfter - t.TTL) // a value read at that time expires in a minute
	switch {
	case err != nil && last.read.IsZero():
		return value, err
	case err != nil, t.MaybeEmpty != nil && t.MaybeEmpty(value):
		t.set(key, fact[V]{last.value, again})
	default:
		t.set(key, fact[V]{value, startedAt})
	}
	return t.known[key].value, nil
}

func (t *Table[V]) set(key string, f fact[V]) {
	if t.known == nil {
		t.known = map[string]fact[V]{}
	}
	t.known[key] = f
}

// Put caches a value that was read for another purpose.
func (t *Table[V]) Put(key string, value V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(key, fact[V]{value, t.Now()})
}

// Clear makes the next Get of every key read.
func (t *Table[V]) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.known)
}

// DropOlder drops values read before that time. A value in use whose read fails is renewed
// every minute.
func (t *Table[V]) DropOlder(than time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.known, func(_ string, f fact[V]) bool { return f.read.Before(than) })
}
