// SPDX-License-Identifier: Apache-2.0

package panics

import (
	"runtime"
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

// Each calls f for every index below n, on all processors: f runs in several goroutines at a time. It
// returns when all calls have, and panics when one of them did.
func Each(n int, f func(i int)) {
	var g Group
	workers := min(runtime.GOMAXPROCS(0), n)
	for w := range workers {
		g.Go(func() error {
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				f(i)
			}
			return nil
		})
	}
	_ = g.Wait() // f returns no error
}
