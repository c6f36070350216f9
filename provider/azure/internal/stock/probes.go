// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// Probes keeps a burst of launches from requesting one offering for all of them before it
// is known to be in stock. Azure does not report stock beforehand, and a refusal costs a write,
// a deletion and half a minute. Each offering has a window: the number of virtual machines that
// may be in creation and unproven. It grows as they come up.
//
// It lives in memory: after a restart windows are small again.
type Probes struct {
	now func() time.Time

	mu       sync.Mutex
	windows  map[Key]*window
	unproven map[string]unprovenVM // by handle of the virtual machine
}

// A Key is an offering that may or may not be in stock.
type Key struct{ size, zone, capacityType string }

func KeyOf(c offering.Ref) Key { return Key{c.Type, c.Zone, c.CapacityType} }

// A window limits the unproven virtual machines of one offering.
type window struct {
	size     int             // how many may be unproven; grows by one with each that is proven
	refused  bool            // it was refused, and none was proven since
	unproven map[string]bool // by handle of the virtual machine
	usedAt   time.Time
	// turnedAway are the virtual machines that found no place in the window since that time;
	// turnedAwayBefore is how many did in the period before.
	turnedAway       map[string]bool
	since            time.Time
	turnedAwayBefore int
}

// limit returns how many virtual machines may be unproven at a time. It grows with the demand: the
// unproven ones remain a small share of the launches that want the offering.
func (w *window) limit() int {
	if w.refused {
		return w.size
	}
	return max(w.size, max(w.turnedAwayBefore, len(w.turnedAway))/launchesPerProbe)
}

// recordTurnedAway records a virtual machine that found no place. A new period starts every
// provenAfter.
func (w *window) recordTurnedAway(vm string, now time.Time) {
	if now.Sub(w.since) >= provenAfter {
		w.turnedAwayBefore, w.since, w.turnedAway = len(w.turnedAway), now, map[string]bool{}
	}
	w.turnedAway[vm] = true
}

// An unprovenVM is one virtual machine that is not proven yet.
type unprovenVM struct {
	key         Key
	requestedAt time.Time
}

const (
	// firstWindow is how many requests an unknown offering may cost when it is out of stock.
	// Doubling from eight, a thousand virtual machines take seven rounds on one offering; claims
	// name several.
	firstWindow = 8
	// launchesPerProbe is how many launches must want an offering for one more virtual machine to
	// be requested: if none is in stock, 95 of 100 have lost nothing.
	launchesPerProbe = 20
	// provenAfter is how long a virtual machine is in creation before it counts as proven: Azure
	// refuses for lack of stock long before the creation ends.
	provenAfter = 15 * time.Second
	// windowTTL is how long an unused offering keeps its window.
	windowTTL = time.Hour
)

func NewProbes(now func() time.Time) *Probes {
	return &Probes{now: now, windows: map[Key]*window{}, unproven: map[string]unprovenVM{}}
}

// Reserve adds a virtual machine to the offering's window, or returns false when the window is
// full.
func (p *Probes) Reserve(vm string, key Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(vm)
	now := p.now()
	w := p.window(key, now)
	if len(w.unproven) >= w.limit() {
		p.proveOverdue(w, now)
	}
	if len(w.unproven) >= w.limit() {
		w.recordTurnedAway(vm, now)
		return false
	}
	w.unproven[vm] = true
	p.unproven[vm] = unprovenVM{key, now}
	return true
}

// Proven records that the virtual machine came up.
func (p *Probes) Proven(vm string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.remove(vm); w != nil {
		w.recordProven()
	}
}

// Refused records that the virtual machine was refused: the offering's window starts again from
// firstWindow.
func (p *Probes) Refused(vm string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.remove(vm); w != nil {
		w.size, w.refused = firstWindow, true
	}
}

// Withdraw records that the virtual machine was not requested after all.
func (p *Probes) Withdraw(vm string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(vm)
}

// window returns an offering's window. When it makes a new one, it forgets windows unused for
// windowTTL. Callers hold the lock.
func (p *Probes) window(key Key, now time.Time) *window {
	w := p.windows[key]
	if w == nil {
		p.dropUnused(now)
		w = &window{size: firstWindow, unproven: map[string]bool{}, turnedAway: map[string]bool{}, since: now}
		p.windows[key] = w
	}
	w.usedAt = now
	return w
}

func (p *Probes) dropUnused(now time.Time) {
	for key, w := range p.windows {
		if now.Sub(w.usedAt) < windowTTL {
			continue
		}
		for vm := range w.unproven {
			delete(p.unproven, vm)
		}
		delete(p.windows, key)
	}
}

// proveOverdue counts virtual machines that are in creation for longer than provenAfter as proven,
// even if no call follows them any more.
func (p *Probes) proveOverdue(w *window, now time.Time) {
	for vm := range w.unproven {
		if now.Sub(p.unproven[vm].requestedAt) >= provenAfter {
			p.remove(vm)
			w.recordProven()
		}
	}
}

func (w *window) recordProven() { w.size, w.refused = w.size+1, false }

// remove removes a virtual machine from its window and returns the window; nil when it was in
// none.
func (p *Probes) remove(vm string) *window {
	r, ok := p.unproven[vm]
	if !ok {
		return nil
	}
	delete(p.unproven, vm)
	w := p.windows[r.key]
	delete(w.unproven, vm)
	return w
}
