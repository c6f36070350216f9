// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"maps"
	"time"
)

const (
	// tidyEvery is the interval at which unused state is removed.
	tidyEvery = time.Minute
	// catalogKept is how long an unused catalog is kept. Catalogs of classes that NodePools or
	// NodeClaims name are used every few seconds; one takes a megabyte or two.
	catalogKept = 2 * time.Minute
	// flightKept is how long in-flight state is kept after the last request: far longer than a
	// creation or deletion takes.
	flightKept = 2 * time.Hour
)

// tidy forgets the state of node classes, subnets and virtual machines that do not exist any
// more. All of it is learned again when it is needed again.
func (p *Provider) tidy() {
	now := p.opts.Now()
	p.tidying.Lock()
	defer p.tidying.Unlock()
	if now.Sub(p.tidied) < tidyEvery {
		return
	}
	p.tidied = now
	p.catalogs.tidy(now)
	p.quota.Tidy(now)
	p.stockouts.Tidy(now)
	p.policies.Tidy(now)
	p.network.Tidy(now)
	p.inFlight.tidy(now)
}

func (c *catalogs) tidy(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.classes, func(_ string, x *catalog) bool { return now.Sub(x.asked) > catalogKept })
}

func (f *inFlights) tidy(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.byName, func(_ string, x inFlight) bool { return now.Sub(x.asked) > flightKept })
}
