package azure

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

// evictedFor is how long an offer comes last after Azure took a machine of it back: what
// it takes back here and now it has little of.
const evictedFor = 10 * time.Minute

// evictions remembers which spot offers Azure takes machines of back. They are not barred:
// when many offers lose machines at once, somewhere others must be bought all the same.
type evictions struct {
	now func() time.Time

	mu    sync.Mutex
	until map[spotOffer]time.Time
}

type spotOffer struct{ size, zone string } // size in lower case

func spotOfferOf(c offering.Ref) spotOffer { return spotOffer{strings.ToLower(c.Type), c.Zone} }

func newEvictions(now func() time.Time) *evictions {
	return &evictions{now: now, until: map[spotOffer]time.Time{}}
}

var _ provider.EvictionObserver = (*Provider)(nil)

// Evicted has the offer come last for ten minutes.
func (p *Provider) EvictionAnnounced(c offering.Ref) {
	if c.CapacityType == offering.Spot {
		p.evictions.learn(c)
	}
}

func (e *evictions) learn(c offering.Ref) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until[spotOfferOf(c)] = e.now().Add(evictedFor)
}

// last returns choices in their order, but those that were evicted lately behind all others.
func (e *evictions) last(choices []offering.Ref) []offering.Ref {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for o, until := range e.until {
		if !until.After(now) {
			delete(e.until, o)
		}
	}
	if len(e.until) == 0 {
		return choices
	}
	calm, taken := make([]offering.Ref, 0, len(choices)), []offering.Ref(nil)
	for _, c := range choices {
		if _, lately := e.until[spotOfferOf(c)]; lately && c.CapacityType == offering.Spot {
			taken = append(taken, c)
			continue
		}
		calm = append(calm, c)
	}
	return slices.Concat(calm, taken)
}
