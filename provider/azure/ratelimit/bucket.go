package ratelimit

import (
	"math"
	"time"
)

// A bucket is what we believe we may still take of one limit. It is always a
// little behind Azure's own, never ahead of it.
type bucket struct {
	perSecond float64 // gain by the table
	full      float64 // most that we let gather
	reserve   float64 // tokens that stay for others, and for the network's jitter
	share     float64 // of the gain that is ours while others are below their reserve
	lendable  float64 // part of the others' reserve that what is urgent may borrow

	tokens  float64
	loan    float64   // what urgent requests borrowed and has not been gained back
	taken   float64   // what others had taken of the lendable, when last heard of
	last    time.Time // when tokens was true
	closed  time.Time // refused until then
	cut     float64   // part of the gain that refusals let us believe in, up to 1
	cutAt   time.Time
	crowded bool // others take so much that their reserve is touched
}

const (
	// jitter is how far apart requests may arrive that were sent with a pause: what
	// is gained in that time stays untouched, or a burst could come too early.
	jitter = 200 * time.Millisecond
	// regain is how long it takes to believe in the table again after refusals made
	// us doubt all of it.
	regain = 10 * time.Minute
	// leastCut bounds the doubt.
	leastCut = 1.0 / 64
	// askAgain is the most that anybody is told to wait for tokens before asking again: who
	// was before them may have gone, or others may use less.
	askAgain = time.Minute
	// hair forgives the rounding of sums of fractions.
	hair = 1e-6
)

// newBucket is full. Share is the part of the burst that is ours, pace how many
// times faster than by the table it refills.
func newBucket(l limit, share, pace float64, now time.Time) *bucket {
	b := &bucket{perSecond: l.perMinute / 60 * pace, share: share, last: now, cut: 1}
	margin, others := math.Min(b.perSecond*jitter.Seconds(), l.burst/4), l.burst*(1-share)
	b.reserve, b.lendable = others+margin, others/2
	b.full = math.Max(1, l.burst-b.reserve)
	b.tokens = b.full
	return b
}

// rate is the gain for a second by the table, as far as it is ours.
func (b *bucket) rate() float64 {
	if b.crowded {
		return b.perSecond * b.share
	}
	return b.perSecond
}

// gained is what comes in so many seconds, while the belief in the table grows from cut on.
func (b *bucket) gained(cut, seconds float64) float64 {
	growing := math.Min(seconds, (1-cut)*regain.Seconds())
	return b.rate() * (cut*growing + growing*growing/2/regain.Seconds() + seconds - growing)
}

// takes is how many seconds n tokens take to come: gained the other way round.
func (b *bucket) takes(cut, n float64) float64 {
	growing := (1 - cut) * regain.Seconds()
	if inTime := b.gained(cut, growing); n > inTime {
		return growing + (n-inTime)/b.rate()
	}
	return regain.Seconds() * (math.Sqrt(cut*cut+2*n/b.rate()/regain.Seconds()) - cut)
}

// believed is the cut after d without another refusal.
func (b *bucket) believed(d time.Duration) float64 {
	return math.Min(1, b.cut+d.Seconds()/regain.Seconds())
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
		b.add(b.gained(b.believed(from.Sub(b.last)), seconds))
		b.taken = math.Max(0, b.taken-b.perSecond*(1-b.share)*seconds)
	}
	b.cut = b.believed(now.Sub(b.last))
	b.last = now
}

// add gains n tokens, or spends them when n is negative. Loans are paid back first.
func (b *bucket) add(n float64) {
	level := b.tokens - b.loan + n
	b.tokens, b.loan = math.Min(b.full, math.Max(0, level)), math.Max(0, -level)
}

// wait is how long until n tokens are there; those who are urgent need not wait for what
// they may borrow. The bucket has been brought up to now.
func (b *bucket) wait(n float64, urgent bool, now time.Time) time.Duration {
	shut := max(0, b.closed.Sub(now))
	missing := n - b.tokens + b.loan
	if urgent {
		missing -= math.Max(0, b.lendable-b.taken)
	}
	if missing <= hair {
		return shut
	}
	seconds := math.Min(b.takes(b.believed(shut), missing), askAgain.Seconds())
	return shut + time.Duration(math.Ceil(seconds*float64(time.Second)))
}

// lower takes Azure's word for what is left, where that is less than we thought.
// The word was true at some time since the request was sent.
func (b *bucket) lower(left float64, sent, now time.Time) {
	b.refill(now)
	usable := left + 1 + b.perSecond*now.Sub(sent).Seconds() - b.reserve
	others := math.Max(0, -usable-b.loan) // what is missing, and we did not borrow
	b.crowded, b.taken = others > 0, others
	b.tokens = math.Min(b.tokens, math.Max(0, usable))
}

// refused empties the bucket until Azure wants to be asked again, and halves what
// we believe it to gain. Refusals of requests that were on their way when the
// first came back say nothing new.
func (b *bucket) refused(after time.Duration, sent, now time.Time) {
	b.refill(now)
	b.tokens, b.taken = 0, b.lendable
	if until := now.Add(after); until.After(b.closed) {
		b.closed = until
	}
	if sent.After(b.cutAt) {
		b.cut, b.cutAt = math.Max(leastCut, b.cut/2), now
	}
}

func (b *bucket) isFull() bool { return b.tokens >= b.full-hair && b.loan == 0 }
