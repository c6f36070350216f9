package azure

import (
	"cmp"
	"fmt"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// Why no node of a node class can be launched. These are reasons of an AKSNodeClass's
// ValidationSucceeded condition.
const (
	// ClassRefused: Azure refused several sizes with the same unknown code.
	ClassRefused = "MachinesRefused"
	// ClassDenied: karve lacks a permission that nodes of the class need.
	ClassDenied = "PermissionMissing"
	// ClassWithoutPool: the agent pool in which AKS is to create machines does not exist.
	ClassWithoutPool = "MachinePoolNotFound"
)

// poolMissingTTL is how long the node class then pauses: the pool may be added meanwhile.
const poolMissingTTL = time.Minute

const (
	// alikeSizes is the number of sizes after which an unknown refusal is attributed to the node
	// class. After each pause up to twice as many more are tried, up to mostTried: if the class
	// is wrong a request costs little, and if the sizes are the cause an available one is found
	// in the end.
	alikeSizes = 3
	mostTried  = 24
	// refusedTTL is how long the node class then pauses. Its sizes are blocked for longer, so
	// that others are tried next, in case the sizes are the cause after all.
	refusedTTL      = 3 * time.Minute
	refusedSizesTTL = 10 * time.Minute
)

// ClassTrouble says why no node of a node class is launched now, and what to do about it; the
// reason is empty when launches are allowed.
func (p *Provider) ClassTrouble(class string) (reason, detail string) {
	b, _ := p.stockouts.ofClass(class)
	return b.reason, b.words
}

// mayNotBuy returns why launches of the node class pause; nil when they do not.
func (p *Provider) mayNotBuy(class string) error {
	reason, detail := p.ClassTrouble(class)
	if reason == "" {
		return nil
	}
	return &provider.NotReadyError{Class: class, Reason: reason, Detail: detail}
}

// blame pauses the node class after a refusal that concerns it rather than an offering, and
// reports whether it did.
func (l *launch) blame(r armerr.Refusal) bool {
	switch {
	case r.Lacks != "" && l.p.stockouts.buysNow(l.class.Name):
		return false // mostly a role assignment that is still propagating
	case r.Lacks != "":
		l.p.stockouts.rest(l.class.Name, ClassDenied, r, network.DeniedTTL)
	case r.Kind == armerr.OtherRefusal:
		sizes, alike := l.p.stockouts.alike(l.class.Name, r.Code)
		if !alike {
			return false
		}
		r.Advice = cmp.Or(r.Advice, fmt.Sprintf("machines of %d sizes were refused alike: correct what the AKSNodeClass asks for, or what the subscription allows", sizes))
		l.p.stockouts.rest(l.class.Name, ClassRefused, r, refusedTTL)
	default:
		return false
	}
	return true
}

// ofClass returns the block of the whole node class, if any.
func (m *stockouts) ofClass(class string) (block, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, resting := m.view()[blockKey{class: class}]
	return b, resting
}

// rest pauses a whole node class.
func (m *stockouts) rest(class, reason string, r armerr.Refusal, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.now().Add(ttl)
	m.put(blockKey{class: class}, block{until: until, reason: reason, code: r.Code, words: restWords(r, until)})
	m.restSizes(class, r.Code)
	m.version++
}

// restSizes blocks the sizes that were refused with one code for longer, in all zones. Callers
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

// A suspicion is that a node class is wrong, because several of its sizes were refused with one
// code.
type suspicion struct {
	code string
	// at is the number of refused sizes at which the node class pauses (again), and step how
	// many more it takes after that.
	at, step int
}

// alike reports whether so many sizes of a node class were refused with one code, and none was
// launched meanwhile, that the class must pause. It returns the number of sizes.
func (m *stockouts) alike(class, code string) (sizes int, rests bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes = m.sizesRefused(class, code)
	s, known := m.suspects[class]
	if !known || s.code != code || sizes <= 1 { // earlier refusals have ended
		s = suspicion{code: code, at: alikeSizes, step: 2 * alikeSizes}
	}
	switch {
	case m.sells(class):
		s.at = sizes + s.step
	case sizes >= s.at:
		s.at, s.step, rests = sizes+s.step, min(2*s.step, mostTried), true
	case s.at > alikeSizes:
		m.restSizes(class, code) // it has paused before: other sizes tell more than the same size in another zone
	}
	m.suspects[class] = s
	return sizes, rests
}

// sizesRefused counts the sizes that are blocked because of a code. Callers hold the lock.
func (m *stockouts) sizesRefused(class, code string) int {
	sizes := map[string]bool{}
	for key, b := range m.view() {
		if key.class == class && key.size != "" && b.code == code {
			sizes[key.size] = true
		}
	}
	return len(sizes)
}

// buysNow reports whether a node of the class was launched recently.
func (m *stockouts) buysNow(class string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sells(class)
}

func (m *stockouts) sells(class string) bool { return m.now().Sub(m.bought[class]) < refusedTTL }

// sold records that nodes of a class can be launched.
func (m *stockouts) sold(class string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bought[class] = m.now()
	if s, suspect := m.suspects[class]; suspect {
		s.at = m.sizesRefused(class, s.code) + s.step // the sizes were the cause, not the class
		m.suspects[class] = s
	}
}
