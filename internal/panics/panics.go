// SPDX-License-Identifier: Apache-2.0

// Package panics keeps a panic in one goroutine from ending the process. Every goroutine,
// loop and handler of the product runs through it: the panic is logged with its stack and
// counted, and the rest continues.
//
// It repairs no state after a panic: the caller that runs a function through it must
// undo or repeat an incomplete operation. A nil Reporter recovers nothing, so that
// tests see a panic as it is; the zero Reporter writes to standard error.
package panics

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// Panic is a panic that was recovered.
type Panic struct {
	Where string // which loop, handler or goroutine; one of few
	About string // the object that it was about, by kind and name; empty when it is not known
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error implements error.
func (p *Panic) Error() string {
	if p.About != "" {
		return fmt.Sprintf("panic in %s about %s: %v", p.Where, p.About, p.Value)
	}
	return fmt.Sprintf("panic in %s: %v", p.Where, p.Value)
}

// GoString returns the text that controller-runtime logs for a reconciler's panic: with the stack
// of the goroutine that panicked, which may be another one.
func (p *Panic) GoString() string { return p.Error() + "\n" + string(p.Stack) }

// Reporter is notified of panics. Set its fields before it is used; they are called by several
// goroutines at a time.
type Reporter struct {
	Log   func(*Panic)       // nil writes to standard error
	Count func(where string) // nil counts nothing
}

// Try runs f. If it panics, that is reported and returned.
func (r *Reporter) Try(where, about string, f func()) (caught *Panic) {
	if r == nil {
		f()
		return nil
	}
	defer func() {
		if value := recover(); value != nil {
			caught = panicOf(where, about, value)
			r.report(caught)
		}
	}()
	f()
	return nil
}

// Do runs f, and returns its error. A panic is reported and is an error.
func (r *Reporter) Do(where string, f func() error) error {
	var err error
	if p := r.Try(where, "", func() { err = f() }); p != nil {
		return p
	}
	return err
}

// Go runs f in a goroutine of its own.
func (r *Reporter) Go(where string, f func()) {
	go func() { _ = r.Try(where, "", f) }() // the panic is reported, and no caller waits
}

// The pause of a loop after a panic. The longer the loop has run, the shorter it is.
const (
	firstRest   = time.Second
	longestRest = time.Minute
)

// Loop runs f, which works until ctx ends. After a panic it runs again: a second later, then
// after twice as long each time, a minute at most. It returns the error of f.
func (r *Reporter) Loop(ctx context.Context, where string, f func(context.Context) error) error {
	rest := firstRest
	for {
		var err error
		began := time.Now()
		if r.Try(where, "", func() { err = f(ctx) }) == nil {
			return err
		}
		if time.Since(began) > longestRest {
			rest = firstRest
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rest):
		}
		rest = min(2*rest, longestRest)
	}
}

func (r *Reporter) report(p *Panic) {
	if r.Count != nil {
		r.Count(p.Where)
	}
	if r.Log != nil {
		r.Log(p)
		return
	}
	fmt.Fprintf(os.Stderr, "%#v\n", p)
}

// panicOf is the panic with the recovered value. One that a Group passed on has the stack of
// where it began.
func panicOf(where, about string, value any) *Panic {
	p := &Panic{Where: where, About: about, Value: value}
	if began, passed := value.(*Panic); passed {
		p.Value, p.Stack = began.Value, began.Stack
		return p
	}
	p.Stack = debug.Stack()
	return p
}
