package ratelimit

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Priority orders requests that wait for the same tokens.
type Priority int

// The higher goes first. Giving back what is paid for and not wanted comes
// before anything that would cost more.
const (
	Upkeep   Priority = iota // of what runs well as it is: tags, identities
	Read                     // to know more: drift, prices, sizes
	Create                   // a machine for pods that wait
	Replace                  // a machine for one that is about to be taken away
	StopLeak                 // the end of a machine, or of what it left behind
	Shared                   // one list that many of all these wait for, ends of machines too
)

// Options say how much of Azure's limits to use. The zero Options work.
type Options struct {
	// Share is the part of each burst that is ours to use, above 0 and up to 1; zero means 0.5.
	// The rest is left to others in the subscription: while they use it, our part of
	// what is gained shrinks to the same share. Replacements and ends of machines may borrow half
	// of the others' part, and it is given back first. Limits of single machines are ours alone.
	Share float64
	// Pace is how many times faster than Azure's a simulated cloud's limits refill;
	// infinite when it has none. Zero means 1.
	Pace float64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Buckets are all limits that one principal has in one region. They are safe for
// concurrent use.
type Buckets struct {
	share, pace float64
	now         func() time.Time

	mu      sync.Mutex
	all     map[Class]*bucket
	each    map[resource]*bucket
	queue   queue
	places  map[ticket]*place
	granted map[ticket]grant
	serial  uint64 // of places
	passes  uint64
	swept   time.Time
	tally   tally
}

// resource is one that has limits of its own.
type resource struct {
	class Class
	name  string
}

// ticket names a request before it is made: the resource it is about and the most
// particular of its classes. Requests that nobody asked a ticket for get one in
// passing, with a number of their own.
type ticket struct {
	key     string
	class   Class
	passing uint64
}

func ticketOf(key string, cs []Class) ticket {
	return ticket{key: strings.ToLower(key), class: cs[len(cs)-1]}
}

// A grant is tokens taken for a request that has not been made yet.
type grant struct {
	classes []Class
	at      time.Time
}

const (
	// patience is how long a place stays free for someone who is late.
	patience = 30 * time.Second
	// unused is how long tokens stay reserved for a request that is not made.
	unused = 30 * time.Second
	// sweepEvery is how often lapsed places and grants are looked for.
	sweepEvery = time.Second
	// bucketsKept bounds the buckets of single resources: beyond it full ones go,
	// which are no different from new ones.
	bucketsKept = 10000
)

// New makes buckets that are full.
func New(o Options) *Buckets {
	b := &Buckets{
		share: cmp.Or(o.Share, 0.5), pace: cmp.Or(o.Pace, 1), now: o.Now,
		all: map[Class]*bucket{}, each: map[resource]*bucket{},
		places: map[ticket]*place{}, granted: map[ticket]grant{},
		tally: newTally(),
	}
	if b.now == nil {
		b.now = time.Now
	}
	return b
}

// Ticket asks for one request of the classes cs, the most particular last, on the
// resource named key. Zero means go: the tokens are taken, and the policy lets the
// next such request through. Otherwise come back after the wait; the place in the
// queue is kept meanwhile. Asking again changes nothing but the priority, which
// only rises.
func (b *Buckets) Ticket(key string, p Priority, cs ...Class) (wait time.Duration) {
	if len(cs) == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ask(ticketOf(key, cs), p, cs)
}

func (b *Buckets) ask(id ticket, p Priority, cs []Class) time.Duration {
	if math.IsInf(b.pace, 1) {
		return 0
	}
	now := b.now()
	b.sweep(now)
	if _, ok := b.granted[id]; ok {
		return 0
	}
	pl := b.enqueue(id, p, cs, now)
	wait := b.waitOf(pl, now)
	if wait > 0 {
		pl.due = now.Add(wait)
		return wait
	}
	b.take(pl, now)
	return 0
}

// Drop gives up a ticket, waiting or granted: what it took is free again. The
// class is the most particular of those it was asked for.
func (b *Buckets) Drop(key string, c Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(ticketOf(key, []Class{c}))
}

func (b *Buckets) drop(id ticket) {
	b.leave(id)
	b.refund(id)
}

// enqueue finds the ticket's place, or makes one.
func (b *Buckets) enqueue(id ticket, p Priority, cs []Class, now time.Time) *place {
	pl := b.places[id]
	switch {
	case pl == nil:
		b.serial++
		pl = &place{ticket: id, classes: slices.Clone(cs), priority: p, serial: b.serial, since: now}
	case pl.priority < p:
		b.leave(id)
		pl.priority = p
	default:
		return pl
	}
	b.queue.enter(pl)
	b.places[id] = pl
	return pl
}

func (b *Buckets) leave(id ticket) {
	pl := b.places[id]
	if pl == nil {
		return
	}
	b.queue.leave(pl)
	delete(b.places, id)
}

// waitOf is how long until there are tokens for a place and for all before it.
func (b *Buckets) waitOf(pl *place, now time.Time) time.Duration {
	ahead := b.queue.ahead(pl, b.shutBeside(pl, now), now)
	var common, own time.Duration
	for i, c := range pl.classes {
		if k := b.bucketOf(c, now); k != nil {
			common = max(common, k.wait(ahead[i]+1, pl.priority >= Replace, now))
		}
		if k := b.bucketOfEach(c, pl.key, now); k != nil {
			own = max(own, k.wait(1, true, now))
		}
	}
	pl.block(now.Add(own))
	return max(common, own)
}

// shutBeside lists the classes that Azure refuses for now, but for the place's.
func (b *Buckets) shutBeside(pl *place, now time.Time) []Class {
	var shut []Class
	for c, k := range b.all {
		if k.closed.After(now) && !slices.Contains(pl.classes, c) {
			shut = append(shut, c)
		}
	}
	return shut
}

// take turns a place into a grant.
func (b *Buckets) take(pl *place, now time.Time) {
	b.pay(pl.ticket, pl.classes, -1, now)
	b.leave(pl.ticket)
	b.granted[pl.ticket] = grant{classes: pl.classes, at: now}
	b.tally.waited(pl.class, now.Sub(pl.since))
}

func (b *Buckets) refund(id ticket) {
	g, ok := b.granted[id]
	if !ok {
		return
	}
	delete(b.granted, id)
	b.pay(id, g.classes, 1, b.now())
}

func (b *Buckets) pay(id ticket, cs []Class, n float64, now time.Time) {
	for _, c := range cs {
		for _, k := range []*bucket{b.bucketOf(c, now), b.bucketOfEach(c, id.key, now)} {
			if k != nil {
				k.add(n)
			}
		}
	}
}

// bucketOf is the bucket of everything of a class, brought up to now; nil when
// the class has no such limit.
func (b *Buckets) bucketOf(c Class, now time.Time) *bucket {
	k := b.all[c]
	if k == nil {
		l := limitsOf(c).all
		if l == (limit{}) {
			return nil
		}
		k = newBucket(l, b.share, b.pace, now)
		b.all[c] = k
	}
	k.refill(now)
	return k
}

// bucketOfEach is the bucket of a single resource. Nobody but us works on our
// machines, so we use all of it.
func (b *Buckets) bucketOfEach(c Class, name string, now time.Time) *bucket {
	r := resource{c, name}
	k := b.each[r]
	if k == nil {
		l := limitsOf(c).each
		if l == (limit{}) {
			return nil
		}
		b.prune(now)
		k = newBucket(l, 1, b.pace, now)
		b.each[r] = k
	}
	k.refill(now)
	return k
}

func (b *Buckets) prune(now time.Time) {
	if len(b.each) < bucketsKept {
		return
	}
	for r, k := range b.each {
		if k.refill(now); k.isFull() {
			delete(b.each, r)
		}
	}
}

// sweep drops places that nobody came back to and grants that nobody used.
func (b *Buckets) sweep(now time.Time) {
	if now.Sub(b.swept) < sweepEvery {
		return
	}
	b.swept = now
	b.queue.forget(func(pl *place) bool {
		lapsed := now.Sub(pl.due) > patience
		if lapsed {
			delete(b.places, pl.ticket)
		}
		return lapsed
	})
	for id, g := range b.granted {
		if now.Sub(g.at) > unused {
			b.refund(id)
		}
	}
}
