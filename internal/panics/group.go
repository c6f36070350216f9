// SPDX-License-Identifier: Apache-2.0

package panics

import (
	"sync"

	"golang.org/x/sync/errgroup"
)

// Group is an errgroup.Group whose Wait panics when one of its functions did: the panic
// continues in the goroutine that waits and can be recovered there. The zero Group has no limit.
type Group struct {
	inner errgroup.Group

	mu    sync.Mutex
	first *Panic
}

// SetLimit bounds how many functions run at a time. Call it before Go.
func (g *Group) SetLimit(n int) { g.inner.SetLimit(n) }

// Go runs f in a goroutine of its own, once the limit allows it.
func (g *Group) Go(f func() error) {
	g.inner.Go(func() error {
		defer g.catch()
		return f()
	})
}

func (g *Group) catch() {
	value := recover()
	if value == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = panicOf("", "", value)
	}
}

// Wait returns when all functions have, with the first error, or panics with the first panic.
func (g *Group) Wait() error {
	err := g.inner.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		panic(g.first)
	}
	return err
}
