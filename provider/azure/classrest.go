package azure

import (
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
)

const (
	// alikeSizes is of how many sizes an unknown refusal is no matter of sizes.
	alikeSizes = 3
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
	case r.kind == otherRefusal && l.p.stockouts.alike(l.class.Name, r.code):
		r.advice = fmt.Sprintf("machines of %d sizes were refused alike: correct what the AKSNodeClass asks for, or what the subscription allows", alikeSizes)
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
	now := m.now()
	m.put(blockKey{class: class}, block{until: now.Add(ttl), reason: reason, code: r.code, words: r.restWords(now.Add(ttl))})
	for key, b := range m.blocks {
		if key.class == class && key.size != "" && b.code == r.code {
			b.until = now.Add(refusedSizesTTL)
			m.blocks[key] = b
		}
	}
	m.version++
}

// alike reports whether a code was had for several sizes of a class, and no machine of it was
// bought meanwhile.
func (m *stockouts) alike(class, code string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sells(class) {
		return false
	}
	sizes := map[string]bool{}
	for key, b := range m.view() {
		if key.class == class && b.code == code {
			sizes[key.size] = true
		}
	}
	return len(sizes) >= alikeSizes
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
}
