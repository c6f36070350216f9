// SPDX-License-Identifier: Apache-2.0

// Package apilimit limits the requests of a client to what the Kubernetes API server bears, which
// nobody knows beforehand: the servers of small clusters bear a fraction of what large ones do.
//
// A Limiter begins with a part of its highest rate, rises with each response while the server accepts
// requests, and halves when the server rejects one because there are too many (429). After that it
// sends nothing for as long as the response asks (Retry-After). A rejected eviction is no such
// sign: the API answers 429 also where a PodDisruptionBudget forbids it.
package apilimit

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
)

const (
	// first is the part of the highest rate that a Limiter begins with.
	first = 4
	// least is the rate below which none falls: a controller that sends less is as good as stopped.
	least = 5.0
	// riseOver is over how many seconds of uninterrupted requests the rate rises from nothing to the highest.
	riseOver = 20
	// halveEvery is how long further rejections are taken for answers to requests that were sent
	// before the rate was halved.
	halveEvery = time.Second
	// longestPause bounds what a response can ask for.
	longestPause = time.Minute
)

// Limiter limits requests. It may be used from several goroutines, and for several clients. The zero
// Limiter is not usable; see New.
type Limiter struct {
	// Dated is called with the date of each answer of the server; nil is allowed. Set it before the
	// first request.
	Dated func(time.Time)
	// Rejected is called for each request that the server rejected; nil is allowed. Set it before
	// the first request.
	Rejected func()

	highest float64
	burst   int
	bucket  *rate.Limiter

	mu     sync.Mutex
	rate   float64
	halved time.Time // last time
	until  time.Time // nothing is sent before
}

// New returns a Limiter to a highest rate, in requests a second, and bursts at that rate; lower rates
// have shorter bursts.
func New(highest float32, burst int) *Limiter {
	l := &Limiter{highest: float64(highest), burst: burst}
	l.rate = max(min(least, l.highest), l.highest/first)
	l.bucket = rate.NewLimiter(rate.Limit(l.rate), l.burstNow())
	return l
}

// burstNow is in proportion to the rate. Callers hold mu, or are alone.
func (l *Limiter) burstNow() int { return max(1, int(float64(l.burst)*l.rate/l.highest)) }

// Rate is how many requests a second are sent now at most.
func (l *Limiter) Rate() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rate
}

// Apply makes the clients of a configuration keep to the limit, all of them together.
func (l *Limiter) Apply(cfg *rest.Config) {
	cfg.RateLimiter = l
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return observer{l, next} })
}

// Wait implements flowcontrol.RateLimiter.
func (l *Limiter) Wait(ctx context.Context) error {
	if err := l.bucket.Wait(ctx); err != nil {
		return err
	}
	for pause := l.pause(); pause > 0; pause = l.pause() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until the API server accepts requests: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
	}
	return nil
}

// Accept implements flowcontrol.RateLimiter.
func (l *Limiter) Accept() { _ = l.Wait(context.Background()) } // which cannot end before

// TryAccept implements flowcontrol.RateLimiter.
func (l *Limiter) TryAccept() bool { return l.pause() <= 0 && l.bucket.Allow() }

// Stop implements flowcontrol.RateLimiter.
func (l *Limiter) Stop() {}

// QPS implements flowcontrol.RateLimiter.
func (l *Limiter) QPS() float32 { return float32(l.Rate()) }

func (l *Limiter) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}

// accepted raises the rate a little.
func (l *Limiter) accepted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate < l.highest {
		l.set(l.rate + l.highest/(riseOver*l.rate))
	}
}

// rejected halves the rate and pauses.
func (l *Limiter) rejected(after time.Duration) {
	if l.Rejected != nil {
		l.Rejected()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if until := now.Add(min(after, longestPause)); until.After(l.until) {
		l.until = until
	}
	if now.Sub(l.halved) >= halveEvery {
		l.halved = now
		l.set(l.rate / 2)
	}
}

// set changes the rate, within its bounds. Callers hold mu.
func (l *Limiter) set(to float64) {
	l.rate = min(max(to, least), l.highest)
	l.bucket.SetLimit(rate.Limit(l.rate))
	l.bucket.SetBurst(l.burstNow())
}

// observer tells a Limiter how the server answers.
type observer struct {
	limiter *Limiter
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o observer) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if err == nil && o.limiter.Dated != nil {
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			o.limiter.Dated(date)
		}
	}
	switch {
	case err != nil: // no answer says nothing about rates
	case response.StatusCode != http.StatusTooManyRequests:
		o.limiter.accepted()
	case !eviction(r):
		o.limiter.rejected(retryAfter(response.Header))
	}
	return response, err
}

func eviction(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/eviction")
}

// retryAfter is zero without a header that can be read. Kubernetes gives seconds.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(longestPause/time.Second))) * time.Second
}
