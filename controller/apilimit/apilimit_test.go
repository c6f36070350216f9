// SPDX-License-Identifier: Apache-2.0

package apilimit

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// server is an API server that bears so many requests a second.
type server struct {
	bears int
	after string // what it says in Retry-After

	second, seen       time.Time
	inSecond           int
	requests, rejected int
	early              int // requests before the time that a rejection asked for
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now()
	s.requests++
	if now.Before(s.seen) {
		s.early++
	}
	if now.Sub(s.second) >= time.Second {
		s.second, s.inSecond = now, 0
	}
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	if s.inSecond++; s.inSecond > s.bears {
		s.rejected++
		response.StatusCode = http.StatusTooManyRequests
		response.Header.Set("Retry-After", s.after)
		if s.after != "" {
			s.seen = now.Add(retryAfter(response.Header))
		}
	}
	return response, nil
}

// ask sends one request after the other for a while, as fast as the limiter lets it.
func ask(t *testing.T, l *Limiter, s http.RoundTripper, path string, d time.Duration) {
	t.Helper()
	cfg := &rest.Config{}
	l.Apply(cfg)
	transport := cfg.WrapTransport(s)
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := cfg.RateLimiter.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://server"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
}

// The rate begins low and rises to the highest while the server accepts everything.
//
// Rule APIRATE-1.
func TestTheRateRises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := New(200, 300), &server{bears: 1000}
		if l.Rate() != 50 {
			t.Errorf("begins at %v a second", l.Rate())
		}
		ask(t, l, s, "/api/v1/nodes", 10*time.Second)
		if l.Rate() <= 60 || l.Rate() >= 200 {
			t.Errorf("after ten seconds: %v a second", l.Rate())
		}
		ask(t, l, s, "/api/v1/nodes", 30*time.Second)
		if l.Rate() != 200 || s.rejected > 0 {
			t.Errorf("after forty: %v a second, %d rejected", l.Rate(), s.rejected)
		}
	})
}

// A server that bears little rejects a few requests of many, and most of what it bears is used.
//
// Rule APIRATE-1.
func TestTheRateFollowsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rejections := 0
		l, s := New(200, 300), &server{bears: 40, after: "1"}
		l.Rejected = func() { rejections++ }
		ask(t, l, s, "/api/v1/nodes", 5*time.Minute)
		served := s.requests - s.rejected
		if s.rejected == 0 || s.rejected > s.requests/20 || rejections != s.rejected || s.early > 0 {
			t.Errorf("%d of %d requests rejected, %d of them known, %d sent too early", s.rejected, s.requests, rejections, s.early)
		}
		if served < 40*300/3 {
			t.Errorf("%d requests served in five minutes, of 12000 that the server bears", served)
		}
		s.bears = 1000
		ask(t, l, s, "/api/v1/nodes", time.Minute)
		if l.Rate() != 200 {
			t.Errorf("once the server bears more: %v a second", l.Rate())
		}
	})
}

// Several rejections within a second halve the rate once, and never below the least.
//
// Rule APIRATE-1.
func TestRejectionsHalveTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(200, 300)
		for range 10 {
			l.rejected(0)
		}
		if l.Rate() != 25 {
			t.Errorf("after ten rejections at once: %v a second", l.Rate())
		}
		for range 20 {
			time.Sleep(halveEvery)
			l.rejected(0)
		}
		if l.Rate() != least {
			t.Errorf("after many: %v a second", l.Rate())
		}
		if small := New(2, 3); small.Rate() != 2 {
			t.Errorf("a highest rate of 2 begins at %v", small.Rate())
		}
	})
}

// Nothing is sent for as long as Retry-After asks, though not for ever.
//
// Rule APIRATE-1.
func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(200, 300)
		l.rejected(10 * time.Second)
		l.rejected(time.Second) // which ends before
		began := time.Now()
		if l.TryAccept() {
			t.Error("a request may be sent at once")
		}
		l.Accept()
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("waited %v", waited)
		}
		l.rejected(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request that cannot wait: %v", err)
		}
		began = time.Now()
		l.Accept()
		if waited := time.Since(began); waited > longestPause {
			t.Errorf("waited %v", waited)
		}
	})
	for value, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0, "99999999999": longestPause} {
		if got := retryAfter(http.Header{"Retry-After": {value}}); got != want {
			t.Errorf("Retry-After %q: %v, want %v", value, got, want)
		}
	}
}

// An eviction that a PodDisruptionBudget forbids says nothing about the server.
//
// Rule APIRATE-1.
func TestForbiddenEvictionsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := New(200, 300), &server{bears: 0, after: "10"}
		ask(t, l, s, "/api/v1/namespaces/default/pods/a/eviction", 2*time.Second)
		if l.Rate() != 50 || s.rejected < 50 {
			t.Errorf("%v a second after %d forbidden evictions", l.Rate(), s.rejected)
		}
	})
}
