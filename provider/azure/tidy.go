package azure

import (
	"maps"
	"time"
)

const (
	// tidyEvery is how often what nothing asks for any more is looked for.
	tidyEvery = time.Minute
	// catalogKept is how long a class's catalog is kept that nothing asks for. Those of classes
	// that NodePools or NodeClaims name are asked for every few seconds; one is a megabyte or two.
	catalogKept = 2 * time.Minute
	// subnetKept is how long a subnet is followed that no class is in any more.
	subnetKept = time.Hour
	// flightKept is how long a machine is remembered that was asked for or asked to end, and
	// that nothing was heard of since: far longer than either takes.
	flightKept = 2 * time.Hour
)

// tidy forgets what is known about classes, subnets and machines that are gone. All of it is
// learnt anew where it is asked for again.
func (p *Provider) tidy() {
	now := p.opts.Now()
	p.tidying.Lock()
	defer p.tidying.Unlock()
	if now.Sub(p.tidied) < tidyEvery {
		return
	}
	p.tidied = now
	p.catalogs.tidy(now)
	p.addresses.tidy(now)
	p.pressure.tidy(now)
	p.stockouts.tidy(now)
	p.policies.tidy(now)
	p.network.tidy(now)
	p.inFlight.tidy(now)
}

func (c *catalogs) tidy(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.classes, func(_ string, x *catalog) bool { return now.Sub(x.asked) > catalogKept })
}

// tidy ends following subnets that no class is in: what was bought there is long counted.
func (b *addressBooks) tidy(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.byID, func(_ string, book *addressBook) bool {
		over := now.Sub(book.asked) > subnetKept
		if over {
			book.source.stop()
		}
		return over
	})
}

// tidy forgets the paces of budgets that no class draws on: of what was measured so long ago a
// pace holds next to nothing.
func (p *pressure) tidy(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.paces, func(_ string, x pace) bool { return now.Sub(x.seen) > 6*paceMemory })
}

// tidy drops what would be believed no more. Blocks fade by themselves.
func (m *stockouts) tidy(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.bought, func(_ string, at time.Time) bool { return now.Sub(at) >= refusedTTL })
	maps.DeleteFunc(m.hitches, func(_ string, h hitch) bool { return now.Sub(h.last) >= unpreparedForgotten })
	maps.DeleteFunc(m.suspects, func(class string, s suspicion) bool { return m.sizesRefused(class, s.code) == 0 })
}

func (d *policies) tidy(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.denied, func(_ string, known memo[string]) bool { return now.Sub(known.read) >= policyTTL })
}

// tidy drops what is long due to be read again: nothing has asked for it. What cannot be read
// is noted anew each minute as long as something asks.
func (n *network) tidy(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.denied, func(_ string, known memo[string]) bool { return now.Sub(known.read) >= deniedTTL })
	maps.DeleteFunc(n.guids, func(_ string, known memo[string]) bool { return now.Sub(known.read) > 2*guidTTL })
	maps.DeleteFunc(n.dual, func(_ string, known memo[bool]) bool { return now.Sub(known.read) > 2*guidTTL })
}

func (f *inFlights) tidy(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.byName, func(_ string, x inFlight) bool { return now.Sub(x.asked) > flightKept })
}
