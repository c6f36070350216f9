// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"time"
)

// A bucket is the estimate of what is left of one limit. It is always a little behind Azure's
// own count, never ahead of it.
type bucket struct {
	perSecond float64 // tokens gained, by the table
	capacity  float64 // maximum number of tokens
	reserve   float64 // tokens left to other clients, and for network jitter
	share     float64 // karve's share of the gain while others use more than theirs
	lendable  float64 // part of the others' reserve that urgent requests may borrow

	tokens          float64
	loan            float64   // borrowed by urgent requests and not gained back yet
	othersTaken     float64   // the lendable part others had taken, by the last answer
	last            time.Time // when tokens was computed
	closed          time.Time // Azure refuses until then
	gainFactor      float64   // factor on the gain after refusals, up to 1
	gainFactorSetAt time.Time
	othersInReserve bool // others use so much that their reserve is touched
}

const (
	// jitter is how much the time between requests may shrink in the network: the tokens gained
	// in that time are not used, or a burst could arrive too early.
	jitter = 200 * time.Millisecond
	// recoveryTime is how long it takes to trust the table fully again after refusals.
	recoveryTime = 10 * time.Minute
	// minGainFactor is the lower bound of gainFactor.
	minGainFactor = 1.0 / 64
	// maxTokenWait is the longest wait for tokens that is returned to a caller: requests ahead of
	// it may have been dropped, or other clients may use less.
	maxTokenWait = time.Minute
	// roundingTolerance tolerates the rounding of sums of fractions.
	roundingTolerance = 1e-6
)

// newBucket returns a full bucket. share is karve's part of the burst, pace how many times
// faster than by the table it refills.
func newBucket(l limit, share, pace float64, now time.Time) *bucket {
	b := &bucket{perSecond: l.perMinute / 60 * pace, share: share, last: now, gainFactor: 1}
	margin, others := math.Min(b.perSecond*jitter.Seconds(), l.burst/4), l.burst*(1-share)
	b.reserve, b.lendable = others+margin, others/2
	b.capacity = math.Max(1, l.burst-b.reserve)
	b.tokens = b.capacity
	return b
}

// rate returns karve's gain per second by the table.
func (b *bucket) rate() float64 {
	if b.othersInReserve {
		return b.perSecond * b.share
	}
	return b.perSecond
}

// gained returns the tokens gained in so many seconds, while the factor grows from cut to 1.
func (b *bucket) gained(cut, seconds float64) float64 {
	growing := math.Min(seconds, (1-cut)*recoveryTime.Seconds())
	return b.rate() * (cut*growing + growing*growing/2/recoveryTime.Seconds() + seconds - growing)
}

// secondsToGain returns how many seconds it takes to gain n tokens: the inverse of gained.
func (b *bucket) secondsToGain(cut, n float64) float64 {
	growing := (1 - cut) * recoveryTime.Seconds()
	if inTime := b.gained(cut, growing); n > inTime {
		return growing + (n-inTime)/b.rate()
	}
	return recoveryTime.Seconds() * (math.Sqrt(cut*cut+2*n/b.rate()/recoveryTime.Seconds()) - cut)
}

// gainFactorAfter returns gainFactor after d without another refusal.
func (b *bucket) gainFactorAfter(d time.Duration) float64 {
	return math.Min(1, b.gainFactor+d.Seconds()/recoveryTime.Seconds())
}

// refill brings the bucket up to now. Nothing is gained while it is closed.
func (b *bucket) refill(now time.Time) {
	if !now.After(b.last) {
		return
	}
	from := b.last
	if b.closed.After(from) {
		from = b.closed
	}
	if now.After(from) {
		seconds := now.Sub(from).Seconds()
		b.add(b.gained(b.gainFactorAfter(from.Sub(b.last)), seconds))
		b.othersTaken = math.Max(0, b.othersTaken-b.perSecond*(1-b.share)*seconds)
	}
	b.gainFactor = b.gainFactorAfter(now.Sub(b.last))
	b.last = now
}

// add adds n tokens, or spends them when n is negative. Loans are paid back first.
func (b *bucket) add(n float64) {
	level := b.tokens - b.loan + n
	b.tokens, b.loan = math.Min(b.capacity, math.Max(0, level)), math.Max(0, -level)
}

// wait returns how long until n tokens are available; an urgent request need not wait for tokens
// that it may borrow. The caller has called refill.
func (b *bucket) wait(n float64, urgent bool, now time.Time) time.Duration {
	closed := max(0, b.closed.Sub(now))
	missing := n - b.tokens + b.loan
	if urgent {
		missing -= math.Max(0, b.lendable-b.othersTaken)
	}
	if missing <= roundingTolerance {
		return closed
	}
	seconds := math.Min(b.secondsToGain(b.gainFactorAfter(closed), missing), maxTokenWait.Seconds())
	return closed + time.Duration(math.Ceil(seconds*float64(time.Second)))
}

// lower applies the count that Azure reports, if it is lower than the estimate. The count was
// true at some time since the request was sent.
func (b *bucket) lower(left float64, sent, now time.Time) {
	b.refill(now)
	usable := left + 1 + b.perSecond*now.Sub(sent).Seconds() - b.reserve
	others := math.Max(0, -usable-b.loan) // missing, and not borrowed by karve
	b.othersInReserve, b.othersTaken = others > 0, others
	b.tokens = math.Min(b.tokens, math.Max(0, usable))
}

// refused empties the bucket until Azure accepts requests again, and halves gainFactor. Refusals of
// requests that were in flight when the first came back change nothing more.
func (b *bucket) refused(after time.Duration, sent, now time.Time) {
	b.refill(now)
	b.tokens, b.othersTaken = 0, b.lendable
	if until := now.Add(after); until.After(b.closed) {
		b.closed = until
	}
	if sent.After(b.gainFactorSetAt) {
		b.gainFactor, b.gainFactorSetAt = math.Max(minGainFactor, b.gainFactor/2), now
	}
}

func (b *bucket) isFull() bool { return b.tokens >= b.capacity-roundingTolerance && b.loan == 0 }
