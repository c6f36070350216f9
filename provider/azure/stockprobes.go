package azure

import (
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// stockProbes keeps a burst of launches from buying all of one offer before anybody
// knows that it is in stock: nothing tells beforehand, and what is refused costs a
// write, a deletion and half a minute. Each offer has a window of machines that may
// be on their way unproven. It opens as they come up.
//
// It lives in memory: after a restart windows are small again.
type stockProbes struct {
	now func() time.Time

	mu    sync.Mutex
	odds  map[stockKey]*window
	risks map[string]risk // by machine name
}

// A venture is an offer that may or may not be in stock.
type stockKey struct{ size, zone, capacityType string }

func stockKeyOf(c offering.Ref) stockKey { return stockKey{c.Type, c.Zone, c.CapacityType} }

// A window is how much is ventured on an offer.
type window struct {
	wide     int             // how many machines may be unproven; grows by one with each that is proven
	doubted  bool            // it was refused, and nothing was proven since
	unproven map[string]bool // machine names
	asked    time.Time
	// turnedAway are machines that found no room since a while ago, crowd how many did in
	// the while before.
	turnedAway map[string]bool
	since      time.Time
	crowd      int
}

// room is how many machines may be unproven at a time. Of a crowd, a few more than of
// single ones: what is ventured on an offer stays a small part of what is wanted of it.
func (w *window) room() int {
	if w.doubted {
		return w.wide
	}
	return max(w.wide, max(w.crowd, len(w.turnedAway))/oneIn)
}

// turn a machine away, and remember how many there were.
func (w *window) turn(machine string, now time.Time) {
	if now.Sub(w.since) >= proof {
		w.crowd, w.since, w.turnedAway = len(w.turnedAway), now, map[string]bool{}
	}
	w.turnedAway[machine] = true
}

// A risk is one machine that is not proven yet.
type risk struct {
	on    stockKey
	taken time.Time
}

const (
	// firstWindow is what an unknown offer may cost when it is out of stock. Doubling
	// from eight, a thousand machines take seven rounds on one offer; plans name several.
	firstWindow = 8
	// oneIn is how many machines must want an offer for one more of them to be ventured:
	// should none be in stock, 95 of 100 have lost nothing.
	oneIn = 20
	// proof is how long a machine is on its way before it counts as proven: Azure
	// refuses for want of stock long before it is done.
	proof = 15 * time.Second
	// proofHolds is how long an offer nobody asks for keeps its window.
	proofHolds = time.Hour
)

func newStockProbes(now func() time.Time) *stockProbes {
	return &stockProbes{now: now, odds: map[stockKey]*window{}, risks: map[string]risk{}}
}

// take ventures a machine on an offer, or reports that enough are.
func (p *stockProbes) take(machine string, on stockKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(machine)
	now := p.now()
	w := p.window(on, now)
	if len(w.unproven) >= w.room() {
		p.ripen(w, now)
	}
	if len(w.unproven) >= w.room() {
		w.turn(machine, now)
		return false
	}
	w.unproven[machine] = true
	p.risks[machine] = risk{on, now}
	return true
}

// proven says that the machine came up.
func (p *stockProbes) proven(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.drop(machine); w != nil {
		w.prove()
	}
}

// lost says that the machine was refused: the offer must prove itself anew.
func (p *stockProbes) lost(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.drop(machine); w != nil {
		w.wide, w.doubted = firstWindow, true
	}
}

// withdraw says that the machine was not asked for after all.
func (p *stockProbes) withdraw(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(machine)
}

// window finds an offer's window, and forgets those nobody has asked for in a while.
// Callers hold the lock.
func (p *stockProbes) window(on stockKey, now time.Time) *window {
	w := p.odds[on]
	if w == nil {
		p.fade(now)
		w = &window{wide: firstWindow, unproven: map[string]bool{}, turnedAway: map[string]bool{}, since: now}
		p.odds[on] = w
	}
	w.asked = now
	return w
}

func (p *stockProbes) fade(now time.Time) {
	for on, w := range p.odds {
		if now.Sub(w.asked) < proofHolds {
			continue
		}
		for machine := range w.unproven {
			delete(p.risks, machine)
		}
		delete(p.odds, on)
	}
}

// ripen counts the machines that are long on their way as proven, whether or not
// anybody still follows them.
func (p *stockProbes) ripen(w *window, now time.Time) {
	for machine := range w.unproven {
		if now.Sub(p.risks[machine].taken) >= proof {
			p.drop(machine)
			w.prove()
		}
	}
}

func (w *window) prove() { w.wide, w.doubted = w.wide+1, false }

// drop ends a machine's risk and returns the window it was in; nil when it ran none.
func (p *stockProbes) drop(machine string) *window {
	r, ok := p.risks[machine]
	if !ok {
		return nil
	}
	delete(p.risks, machine)
	w := p.odds[r.on]
	delete(w.unproven, machine)
	return w
}
