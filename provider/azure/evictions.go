package azure

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

// evictedFor is how long an offering comes last after Azure evicted a spot instance of it: Azure
// has little capacity of it.
const evictedFor = 10 * time.Minute

// evictions remembers the spot offerings that Azure evicted from. They are not blocked: when
// many offerings lose instances at once, launches still need some offering.
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

// EvictionAnnounced puts the offering last for ten minutes.
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

// last returns the offerings in their order, with recently evicted ones moved behind all others.
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
