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
	unproven map[string]unprovenVM // by virtual machine name
}

// A Key is an offering that may or may not be in stock.
type Key struct{ size, zone, capacityType string }

func KeyOf(c offering.Ref) Key { return Key{c.Type, c.Zone, c.CapacityType} }

// A window limits the unproven virtual machines of one offering.
type window struct {
	wide     int             // how many may be unproven; grows by one with each that is proven
	doubted  bool            // it was refused, and none was proven since
	unproven map[string]bool // by virtual machine name
	asked    time.Time
	// turnedAway are the virtual machines that found no place in the window since that time;
	// turnedAwayBefore is how many did in the period before.
	turnedAway       map[string]bool
	since            time.Time
	turnedAwayBefore int
}

// room returns how many virtual machines may be unproven at a time. It grows with the demand: the
// unproven ones remain a small share of the launches that want the offering.
func (w *window) room() int {
	if w.doubted {
		return w.wide
	}
	return max(w.wide, max(w.turnedAwayBefore, len(w.turnedAway))/oneIn)
}

// turn records a virtual machine that found no place. A new period starts every provenAfter.
func (w *window) turn(machine string, now time.Time) {
	if now.Sub(w.since) >= provenAfter {
		w.turnedAwayBefore, w.since, w.turnedAway = len(w.turnedAway), now, map[string]bool{}
	}
	w.turnedAway[machine] = true
}

// An unprovenVM is one virtual machine that is not proven yet.
type unprovenVM struct {
	on    Key
	taken time.Time
}

const (
	// firstWindow is how many requests an unknown offering may cost when it is out of stock.
	// Doubling from eight, a thousand virtual machines take seven rounds on one offering; claims
	// name several.
	firstWindow = 8
	// oneIn is how many launches must want an offering for one more virtual machine to be
	// requested: if none is in stock, 95 of 100 have lost nothing.
	oneIn = 20
	// provenAfter is how long a virtual machine is in creation before it counts as proven: Azure
	// refuses for lack of stock long before the creation ends.
	provenAfter = 15 * time.Second
	// windowKept is how long an unused offering keeps its window.
	windowKept = time.Hour
)

func NewProbes(now func() time.Time) *Probes {
	return &Probes{now: now, windows: map[Key]*window{}, unproven: map[string]unprovenVM{}}
}

// Take adds a virtual machine to the offering's window, or returns false when the window is
// full.
func (p *Probes) Take(machine string, on Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(machine)
	now := p.now()
	w := p.window(on, now)
	if len(w.unproven) >= w.room() {
		p.proveOld(w, now)
	}
	if len(w.unproven) >= w.room() {
		w.turn(machine, now)
		return false
	}
	w.unproven[machine] = true
	p.unproven[machine] = unprovenVM{on, now}
	return true
}

// Proven records that the virtual machine came up.
func (p *Probes) Proven(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.drop(machine); w != nil {
		w.prove()
	}
}

// Lost records that the virtual machine was refused: the offering's window starts again from
// firstWindow.
func (p *Probes) Lost(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.drop(machine); w != nil {
		w.wide, w.doubted = firstWindow, true
	}
}

// Withdraw records that the virtual machine was not requested after all.
func (p *Probes) Withdraw(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(machine)
}

// window returns an offering's window. When it makes a new one, it forgets windows unused for
// windowKept. Callers hold the lock.
func (p *Probes) window(on Key, now time.Time) *window {
	w := p.windows[on]
	if w == nil {
		p.fade(now)
		w = &window{wide: firstWindow, unproven: map[string]bool{}, turnedAway: map[string]bool{}, since: now}
		p.windows[on] = w
	}
	w.asked = now
	return w
}

func (p *Probes) fade(now time.Time) {
	for on, w := range p.windows {
		if now.Sub(w.asked) < windowKept {
			continue
		}
		for machine := range w.unproven {
			delete(p.unproven, machine)
		}
		delete(p.windows, on)
	}
}

// proveOld counts virtual machines that are in creation for longer than provenAfter as proven,
// even if no call follows them any more.
func (p *Probes) proveOld(w *window, now time.Time) {
	for machine := range w.unproven {
		if now.Sub(p.unproven[machine].taken) >= provenAfter {
			p.drop(machine)
			w.prove()
		}
	}
}

func (w *window) prove() { w.wide, w.doubted = w.wide+1, false }

// drop removes a virtual machine from its window and returns the window; nil when it was in
// none.
func (p *Probes) drop(machine string) *window {
	r, ok := p.unproven[machine]
	if !ok {
		return nil
	}
	delete(p.unproven, machine)
	w := p.windows[r.on]
	delete(w.unproven, machine)
	return w
}
