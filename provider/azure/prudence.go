package azure

import (
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offer"
)

// prudence keeps a burst of launches from buying all of one offer before anybody
// knows that it is in stock: nothing tells beforehand, and what is refused costs a
// write, a deletion and half a minute. Each offer has a window of machines that may
// be on their way unproven. It opens as they come up.
//
// It lives in memory: after a restart windows are small again.
type prudence struct {
	now func() time.Time

	mu    sync.Mutex
	odds  map[venture]*window
	risks map[string]risk // by machine name
}

// A venture is an offer that may or may not be in stock.
type venture struct{ size, zone, capacityType string }

func ventureOf(c offer.Choice) venture { return venture{c.Type, c.Zone, c.CapacityType} }

// A window is how much is ventured on an offer.
type window struct {
	wide     int             // how many machines may be unproven; grows by one with each that is proven
	unproven map[string]bool // machine names
	asked    time.Time
}

// A risk is one machine that is not proven yet.
type risk struct {
	on    venture
	taken time.Time
}

const (
	// firstWindow is what an unknown offer may cost when it is out of stock. Doubling
	// from eight, a thousand machines take seven rounds on one offer; plans name several.
	firstWindow = 8
	// proof is how long a machine is on its way before it counts as proven: Azure
	// refuses for want of stock long before it is done.
	proof = 15 * time.Second
	// proofHolds is how long an offer nobody asks for keeps its window.
	proofHolds = time.Hour
)

func newPrudence(now func() time.Time) *prudence {
	return &prudence{now: now, odds: map[venture]*window{}, risks: map[string]risk{}}
}

// take ventures a machine on an offer, or reports that enough are.
func (p *prudence) take(machine string, on venture) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(machine)
	now := p.now()
	w := p.window(on, now)
	if len(w.unproven) >= w.wide {
		p.ripen(w, now)
	}
	if len(w.unproven) >= w.wide {
		return false
	}
	w.unproven[machine] = true
	p.risks[machine] = risk{on, now}
	return true
}

// proven says that the machine came up.
func (p *prudence) proven(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.drop(machine); w != nil {
		w.wide++
	}
}

// lost says that the machine was refused: the offer must prove itself anew.
func (p *prudence) lost(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.drop(machine); w != nil {
		w.wide = firstWindow
	}
}

// withdraw says that the machine was not asked for after all.
func (p *prudence) withdraw(machine string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(machine)
}

// window finds an offer's window, and forgets those nobody has asked for in a while.
// Callers hold the lock.
func (p *prudence) window(on venture, now time.Time) *window {
	w := p.odds[on]
	if w == nil {
		p.fade(now)
		w = &window{wide: firstWindow, unproven: map[string]bool{}}
		p.odds[on] = w
	}
	w.asked = now
	return w
}

func (p *prudence) fade(now time.Time) {
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
func (p *prudence) ripen(w *window, now time.Time) {
	for machine := range w.unproven {
		if now.Sub(p.risks[machine].taken) >= proof {
			p.drop(machine)
			w.wide++
		}
	}
}

// drop ends a machine's risk and returns the window it was in; nil when it ran none.
func (p *prudence) drop(machine string) *window {
	r, ok := p.risks[machine]
	if !ok {
		return nil
	}
	delete(p.risks, machine)
	w := p.odds[r.on]
	delete(w.unproven, machine)
	return w
}
