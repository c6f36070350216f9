package azure

import (
	"cmp"
	"fmt"
	"time"

	"github.com/karve-dev/karve/provider"
)

// What may be wrong with a class so that no machine of it can be bought. These are reasons of
// an AKSNodeClass's ValidationSucceeded condition.
const (
	// ClassRefused: Azure refused machines of several sizes with one code that nobody knows.
	ClassRefused = "MachinesRefused"
	// ClassDenied: karve lacks a permission that machines of the class need.
	ClassDenied = "PermissionMissing"
	// ClassWithoutPool: the agent pool in which AKS is to make machines does not exist.
	ClassWithoutPool = "MachinePoolNotFound"
)

// poolMissingTTL is how long a class then rests: somebody may be adding the pool.
const poolMissingTTL = time.Minute

const (
	// alikeSizes is of how many sizes an unknown refusal is, it seems, no matter of sizes. After each
	// rest twice as many are tried, up to mostTried: with a class that is wrong a purchase costs
	// little, and where it was a matter of sizes the one that can be had is found in the end.
	alikeSizes = 3
	mostTried  = 24
	// refusedTTL is how long a class then rests. Its sizes rest longer, so that others are tried
	// next, in case it was they after all.
	refusedTTL      = 3 * time.Minute
	refusedSizesTTL = 10 * time.Minute
)

// ClassTrouble says why no machine of a class is asked for now, and what to do about it; an
// empty reason when that is not so.
func (p *Provider) ClassTrouble(class string) (reason, detail string) {
	b, _ := p.stockouts.ofClass(class)
	return b.reason, b.words
}

// mayNotBuy returns why the class rests, for a launch.
func (p *Provider) mayNotBuy(class string) error {
	reason, detail := p.ClassTrouble(class)
	if reason == "" {
		return nil
	}
	return &provider.NotReadyError{Class: class, Reason: reason, Detail: detail}
}

// blame has the class rest for a refusal that is about it rather than about an offer, and
// reports whether it was.
func (l *launch) blame(r refusal) bool {
	switch {
	case r.lacks != "" && l.p.stockouts.buysNow(l.class.Name):
		return false // a role that is still spreading, mostly
	case r.lacks != "":
		l.p.stockouts.rest(l.class.Name, ClassDenied, r, deniedTTL)
	case r.kind == otherRefusal:
		sizes, alike := l.p.stockouts.alike(l.class.Name, r.code)
		if !alike {
			return false
		}
		r.advice = cmp.Or(r.advice, fmt.Sprintf("machines of %d sizes were refused alike: correct what the AKSNodeClass asks for, or what the subscription allows", sizes))
		l.p.stockouts.rest(l.class.Name, ClassRefused, r, refusedTTL)
	default:
		return false
	}
	return true
}

// ofClass is why all of a class rests.
func (m *stockouts) ofClass(class string) (block, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, resting := m.view()[blockKey{class: class}]
	return b, resting
}

// rest has a whole class rest.
func (m *stockouts) rest(class, reason string, r refusal, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.now().Add(ttl)
	m.put(blockKey{class: class}, block{until: until, reason: reason, code: r.code, words: r.restWords(until)})
	m.restSizes(class, r.code)
	m.version++
}

// restSizes has the sizes that were refused with one code rest for longer, in all zones. Callers
// hold the lock.
func (m *stockouts) restSizes(class, code string) {
	sizes := map[blockKey]block{}
	for key, b := range m.blocks {
		if key.class == class && key.size != "" && b.code == code {
			b.until, key.zone = m.now().Add(refusedSizesTTL), ""
			sizes[key] = b
		}
	}
	for key, b := range sizes {
		m.put(key, b)
	}
}

// A suspicion is that a class is wrong, for which machines of several sizes are refused with
// one code.
type suspicion struct {
	code string
	// at is of how many sizes that were refused the class rests (again), and step how many more
	// it takes after that.
	at, step int
}

// alike reports whether a code was had for so many sizes of a class, none of which was bought
// meanwhile, that it is to rest, and for how many.
func (m *stockouts) alike(class, code string) (sizes int, rests bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes = m.sizesRefused(class, code)
	s, known := m.suspects[class]
	if !known || s.code != code || sizes <= 1 { // what was had earlier is over
		s = suspicion{code: code, at: alikeSizes, step: 2 * alikeSizes}
	}
	switch {
	case m.sells(class):
		s.at = sizes + s.step
	case sizes >= s.at:
		s.at, s.step, rests = sizes+s.step, min(2*s.step, mostTried), true
	case s.at > alikeSizes:
		m.restSizes(class, code) // it has rested: others tell more than the same size in another zone
	}
	m.suspects[class] = s
	return sizes, rests
}

// sizesRefused counts sizes that rest because of a code. Callers hold the lock.
func (m *stockouts) sizesRefused(class, code string) int {
	sizes := map[string]bool{}
	for key, b := range m.view() {
		if key.class == class && key.size != "" && b.code == code {
			sizes[key.size] = true
		}
	}
	return len(sizes)
}

// buysNow reports whether a machine of the class was bought lately.
func (m *stockouts) buysNow(class string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sells(class)
}

func (m *stockouts) sells(class string) bool { return m.now().Sub(m.bought[class]) < refusedTTL }

// sold notes that machines of a class can be bought.
func (m *stockouts) sold(class string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bought[class] = m.now()
	if s, suspect := m.suspects[class]; suspect {
		s.at = m.sizesRefused(class, s.code) + s.step // they were wrong, and not the class
		m.suspects[class] = s
	}
}
