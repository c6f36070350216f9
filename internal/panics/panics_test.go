// SPDX-License-Identifier: Apache-2.0

package panics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heard returns a Reporter that records panics.
func heard() (*Reporter, *[]*Panic, map[string]int) {
	var all []*Panic
	counts := map[string]int{}
	return &Reporter{Log: func(p *Panic) { all = append(all, p) }, Count: func(where string) { counts[where]++ }}, &all, counts
}

// A panic is reported with its location, its object, and the stack that led there.
//
// Rule PANIC-1.
func TestPanicIsToldOnce(t *testing.T) {
	r, all, counts := heard()
	p := r.Try("informer", "Pod default/a", explode)
	if p == nil || len(*all) != 1 || (*all)[0] != p || counts["informer"] != 1 {
		t.Fatalf("returned %v, told %v, counted %v", p, *all, counts)
	}
	if p.Error() != "panic in informer about Pod default/a: boom" || !strings.Contains(fmt.Sprintf("%#v", p), "panics.explode") {
		t.Errorf("%#v", p)
	}
	if p := r.Try("informer", "", func() {}); p != nil || len(*all) != 1 {
		t.Errorf("nothing happened, and %v was told", p)
	}
}

func explode() { panic("boom") }

// Without a Reporter a panic in a test fails as loudly as ever.
func TestNilReporterRecoversNothing(t *testing.T) {
	defer func() {
		if recover() != "boom" {
			t.Error("the panic was swallowed")
		}
	}()
	(*Reporter)(nil).Try("x", "", explode)
}

func TestErrorsPassThrough(t *testing.T) {
	r, all, _ := heard()
	refused := errors.New("refused")
	if err := r.Do("x", func() error { return refused }); err != refused || len(*all) != 0 {
		t.Errorf("%v, told %v", err, *all)
	}
	var p *Panic
	if err := r.Do("x", func() error { explode(); return nil }); !errors.As(err, &p) {
		t.Errorf("%v is no Panic", err)
	}
}

// A loop that panics runs again, ever more rarely, until its context ends.
//
// Rule PANIC-1.
func TestLoopGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all, _ := heard()
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		began := time.Now()
		var at []time.Duration
		err := r.Loop(ctx, "loop", func(ctx context.Context) error {
			at = append(at, time.Since(began))
			if len(at) < 10 {
				explode()
			}
			<-ctx.Done()
			return ctx.Err()
		})
		want := "[0s 1s 3s 7s 15s 31s 1m3s 2m3s 3m3s 4m3s]"
		if fmt.Sprint(at) != want || len(*all) != 9 || err != context.DeadlineExceeded {
			t.Errorf("ran at %v, want %v; told %d times; %v", at, want, len(*all), err)
		}
	})
}

// A panic of one of several goroutines reaches the goroutine that waits for them, with its own
// stack, once all have ended.
//
// Rule PANIC-1.
func TestGroupPassesPanicsOn(t *testing.T) {
	r, all, _ := heard()
	ended := 0
	p := r.Try("caller", "", func() {
		var g Group
		g.SetLimit(1)
		g.Go(func() error { explode(); return nil })
		g.Go(func() error { ended++; return nil })
		_ = g.Wait()
		t.Error("Wait returned")
	})
	if p == nil || p.Where != "caller" || p.Value != "boom" || !strings.Contains(string(p.Stack), "panics.explode") || ended != 1 || len(*all) != 1 {
		t.Errorf("%#v; %d others ended; told %d", p, ended, len(*all))
	}
}

func TestEachCallsEveryIndexOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 1000} {
		calls := make([]int, n)
		Each(n, func(i int) { calls[i]++ })
		if slices.ContainsFunc(calls, func(c int) bool { return c != 1 }) {
			t.Errorf("of %d: %v", n, calls)
		}
	}
	defer func() {
		if p, ok := recover().(*Panic); !ok || p.Value != "boom" {
			t.Errorf("recovered %v", p)
		}
	}()
	Each(3, func(i int) {
		if i == 1 {
			explode()
		}
	})
	t.Error("the panic was swallowed")
}

// A goroutine whose end no caller awaits ends alone.
func TestGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, all, _ := heard()
		r.Go("apart", explode)
		synctest.Wait()
		if len(*all) != 1 || (*all)[0].Where != "apart" {
			t.Errorf("told %v", *all)
		}
	})
}
