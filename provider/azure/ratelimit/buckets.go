// SPDX-License-Identifier: Apache-2.0

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

// The higher priority is served first. Deleting resources that cost money and are not wanted
// comes before all requests that would cost more.
const (
	Upkeep  Priority = iota // changes to running nodes: tags, identities
	Read                    // reads without a ticket: sizes, quota, images, networks; and late virtual machines
	Create                  // a node for pending pods
	Replace                 // a node that replaces one about to be interrupted
	Delete                  // deleting a virtual machine, or what is left of it
	List                    // a list that many requests of all kinds wait for, deletions too
)

// Options say how much of Azure's limits to use. The zero Options work.
type Options struct {
	// Share is karve's part of each burst, above 0 and up to 1; zero means 0.5. The rest is left
	// to other clients of the subscription: while they use it, karve's part of the gain shrinks
	// to the same share. Replacements and deletions may borrow half of the others' part, and it
	// is given back first. Limits of single virtual machines are used in full.
	Share float64
	// Pace is how many times faster than Azure's the limits of a simulated cloud refill;
	// infinite when it has none. Zero means 1.
	Pace float64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Buckets are all limits of one principal in one region. They are safe for concurrent use.
type Buckets struct {
	share, pace float64
	now         func() time.Time

	mu      sync.Mutex
	all     map[Class]*bucket
	each    map[resource]*bucket
	queue   queue
	places  map[ticket]*place
	byKey   map[string][]*place // the places, by their resource
	granted map[ticket]grant
	serial  uint64 // last serial of a place
	tickets uint64
	swept   time.Time
	tally   tally
}

// resource is a resource that has limits of its own.
type resource struct {
	class Class
	name  string
}

// ticket identifies a request before it is made: its resource and the most specific of its
// classes. A request without a ticket gets one in the pipeline policy, with a number of its own.
type ticket struct {
	key    string
	class  Class
	serial uint64
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
	// placeKeptFor is how long a place is kept after its due time.
	placeKeptFor = 30 * time.Second
	// grantKeptFor is how long tokens stay reserved for a request that is not made.
	grantKeptFor = 30 * time.Second
	// sweepEvery is how often expired places and grants are removed.
	sweepEvery = time.Second
	// bucketsKept bounds the buckets of single resources: above it full ones are removed, which
	// equal new ones.
	bucketsKept = 10000
)

// New returns Buckets that are full.
func New(o Options) *Buckets {
	b := &Buckets{
		share: cmp.Or(o.Share, 0.5), pace: cmp.Or(o.Pace, 1), now: o.Now,
		all: map[Class]*bucket{}, each: map[resource]*bucket{},
		places: map[ticket]*place{}, byKey: map[string][]*place{}, granted: map[ticket]grant{},
		tally: newTally(),
	}
	if b.now == nil {
		b.now = time.Now
	}
	return b
}

// Ticket asks for one request of the classes cs, the most specific last, on the resource named
// key. Zero means that the request may be sent: its tokens are taken, and the policy lets the
// next such request through. Otherwise call again after the wait; the place in the queue is kept
// meanwhile. Calling again changes nothing but the priority, which only rises.
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

// Drop gives up a ticket, waiting or granted, and returns its tokens. The class is the most
// specific of those given to Ticket.
func (b *Buckets) Drop(key string, c Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(ticketOf(key, []Class{c}))
}

func (b *Buckets) drop(id ticket) {
	b.leave(id)
	b.refund(id)
}

// enqueue returns the ticket's place, or makes one.
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
	b.byKey[pl.key] = append(b.byKey[pl.key], pl)
	return pl
}

func (b *Buckets) leave(id ticket) {
	pl := b.places[id]
	if pl == nil {
		return
	}
	b.queue.leave(pl)
	b.remove(pl)
}

// remove forgets a place that is not in the queue any more.
func (b *Buckets) remove(pl *place) {
	delete(b.places, pl.ticket)
	if rest := slices.DeleteFunc(b.byKey[pl.key], func(o *place) bool { return o == pl }); len(rest) > 0 {
		b.byKey[pl.key] = rest
	} else {
		delete(b.byKey, pl.key)
	}
}

// aheadOnResource counts the requests of the class on the place's resource that come before it. The
// resource's own tokens are theirs first: reads that wait in line would otherwise take every token
// before one who asks every few seconds, such as a deletion, asks again.
func (b *Buckets) aheadOnResource(pl *place, c Class) (n float64) {
	for _, o := range b.byKey[pl.key] {
		if before := o.priority > pl.priority || o.priority == pl.priority && o.serial < pl.serial; before && slices.Contains(o.classes, c) {
			n++
		}
	}
	return n
}

// waitOf returns how long until there are tokens for a place and for all before it.
func (b *Buckets) waitOf(pl *place, now time.Time) time.Duration {
	ahead := b.queue.ahead(pl, b.closedClasses(pl, now), now)
	var common, own time.Duration
	for i, c := range pl.classes {
		if k := b.bucketOf(c, now); k != nil {
			common = max(common, k.wait(ahead[i]+1, pl.priority >= Replace, now))
		}
		if k := b.bucketOfEach(c, pl.key, now); k != nil {
			own = max(own, k.wait(b.aheadOnResource(pl, c)+1, true, now))
		}
	}
	pl.block(now.Add(own))
	return max(common, own)
}

// closedClasses returns the classes that Azure refuses for now, except the place's own.
func (b *Buckets) closedClasses(pl *place, now time.Time) []Class {
	var closed []Class
	for c, k := range b.all {
		if k.closed.After(now) && !slices.Contains(pl.classes, c) {
			closed = append(closed, c)
		}
	}
	return closed
}

// take turns a place into a grant.
func (b *Buckets) take(pl *place, now time.Time) {
	b.addTokens(pl.ticket, pl.classes, -1, now)
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
	b.addTokens(id, g.classes, 1, b.now())
}

func (b *Buckets) addTokens(id ticket, cs []Class, n float64, now time.Time) {
	for _, c := range cs {
		for _, k := range []*bucket{b.bucketOf(c, now), b.bucketOfEach(c, id.key, now)} {
			if k != nil {
				k.add(n)
			}
		}
	}
}

// bucketOf returns the bucket for all requests of a class, refilled up to now; nil when the
// class has no such limit.
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

// bucketOfEach returns the bucket of a single resource. Only karve works on its virtual
// machines, so it uses the whole limit.
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

// sweep drops places past their patience and grants that were not used.
func (b *Buckets) sweep(now time.Time) {
	if now.Sub(b.swept) < sweepEvery {
		return
	}
	b.swept = now
	b.queue.forget(func(pl *place) bool {
		lapsed := now.Sub(pl.due) > placeKeptFor
		if lapsed {
			b.remove(pl)
		}
		return lapsed
	})
	for id, g := range b.granted {
		if now.Sub(g.at) > grantKeptFor {
			b.refund(id)
		}
	}
}
