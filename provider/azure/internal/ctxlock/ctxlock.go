// SPDX-License-Identifier: Apache-2.0

// Package ctxlock has mutexes that a caller stops waiting for when its context ends.
package ctxlock

import (
	"context"
	"sync"
)

// A Mutex is a mutex whose Lock gives up when the caller's context ends. Make one with New.
type Mutex chan struct{}

func New() Mutex { return make(Mutex, 1) }

func (g Mutex) Lock(ctx context.Context) error {
	if g.TryLock() {
		return nil
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g Mutex) TryLock() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g Mutex) Unlock() { <-g }

// ByName are mutexes by name, so that two calls about one NodeClaim do not run at the same time.
// Make them with NewByName.
type ByName struct {
	mu   sync.Mutex
	held map[string]*named
}

func NewByName() *ByName { return &ByName{held: map[string]*named{}} }

type named struct {
	mutex Mutex
	users int
}

// Lock waits for the name and returns a function that releases it.
func (l *ByName) Lock(ctx context.Context, name string) (release func(), err error) {
	l.mu.Lock()
	k := l.held[name]
	if k == nil {
		k = &named{mutex: New()}
		l.held[name] = k
	}
	k.users++
	l.mu.Unlock()

	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, name)
		}
	}
	if err := k.mutex.Lock(ctx); err != nil {
		forget()
		return nil, err
	}
	return func() { k.mutex.Unlock(); forget() }, nil
}
