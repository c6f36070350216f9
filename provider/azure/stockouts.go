package azure

import (
	"fmt"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// stockouts remembers what Azure refused to sell, how widely the refusal applies and for how
// long. It lives in memory: after a restart the first launch learns it again. The version
// changes when a block is added or ends.
type stockouts struct {
	now func() time.Time

	mu      sync.Mutex
	blocks  map[blockKey]block
	version uint64
	next    time.Time            // when the first block ends; zero when there is none
	bought  map[string]time.Time // last launch, by node class
	// suspects are node classes of which several sizes were refused alike.
	suspects map[string]suspicion
	// hitches are the last errors of preparing a launch, by node class.
	hitches map[string]hitch
}

// A blockKey says what is blocked; an empty field means any. At most one of size and family is
// set, and at most one of zone and scope. class is set when the node class may be the cause; the
// other fields are then those of a size, or empty.
type blockKey struct {
	class                      string
	size, family, capacityType string
	zone                       string // zone label value
	scope                      string // zonal or regional
	subnet                     string // lower case
}

// A buyer is the node class that launches, and the subnet (lower case) that its nodes join.
type buyer struct{ class, subnet string }

// A block ends at until and applies to sizes of at least minVCPUs.
type block struct {
	until    time.Time
	minVCPUs int64
	reason   string // as in provider.Attempt
	code     string
	words    string
}

func newStockouts(now func() time.Time) *stockouts {
	return &stockouts{now: now, blocks: map[blockKey]block{}, bought: map[string]time.Time{}, suspects: map[string]suspicion{}, hitches: map[string]hitch{}}
}

// Scopes of placement, as the placement-scope label spells them.
const (
	scopeZonal    = "zonal"
	scopeRegional = "regional"
)

// regionalZone is the zone label of a node without a zone.
const regionalZone = "0"

func scopeOf(zone string) string {
	if zone == regionalZone {
		return scopeRegional
	}
	return scopeZonal
}

// learn records a refusal of s in a zone.
func (m *stockouts) learn(r armerr.Refusal, s *sku.SKU, zone, capacityType string, by buyer) {
	keys, floor := spread(r, s, zone, capacityType, by)
	if len(keys) == 0 {
		return
	}
	until := m.now().Add(r.BlockedFor(capacityType))
	words := restWords(r, until)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		b := block{until: until, minVCPUs: floor, reason: r.Reason(), code: r.Code, words: words}
		if old, ok := m.blocks[key]; ok && old.until.After(m.now()) {
			b.minVCPUs = min(b.minVCPUs, old.minVCPUs) // the wider of the two stays
			if old.until.After(until) {
				b.until, b.words = old.until, old.words
			}
		}
		m.put(key, b)
	}
	m.version++
}

// put records a block. Callers hold the lock.
func (m *stockouts) put(key blockKey, b block) {
	m.blocks[key] = b
	if m.next.IsZero() || b.until.Before(m.next) {
		m.next = b.until
	}
}

// restWords describes a refusal and until when it applies.
func restWords(r armerr.Refusal, until time.Time) string {
	return fmt.Sprintf("%s; tried again after %s", r.Words(), until.UTC().Format("15:04:05Z"))
}

// recall returns the block that applies to s there, if any.
func (m *stockouts) recall(s *sku.SKU, zone, capacityType string, by buyer) (block, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view().recall(s, zone, capacityType, by)
}

// snapshot returns the current blocks and their version. The map may be read without a lock.
func (m *stockouts) snapshot() (blockView, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fade()
	view := make(blockView, len(m.blocks))
	for k, b := range m.blocks {
		view[k] = b
	}
	return view, m.version
}

// current returns the version.
func (m *stockouts) current() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fade()
	return m.version
}

func (m *stockouts) view() blockView {
	m.fade()
	return m.blocks
}

// fade drops blocks that have ended.
func (m *stockouts) fade() {
	now := m.now()
	if m.next.IsZero() || now.Before(m.next) {
		return
	}
	m.next = time.Time{}
	for k, b := range m.blocks {
		if !b.until.After(now) {
			delete(m.blocks, k)
			continue
		}
		if m.next.IsZero() || b.until.Before(m.next) {
			m.next = b.until
		}
	}
	m.version++
}

// blockView is a set of blocks.
type blockView map[blockKey]block

func (v blockView) recall(s *sku.SKU, zone, capacityType string, by buyer) (block, bool) {
	if len(v) == 0 {
		return block{}, false
	}
	scope := scopeOf(zone)
	for _, key := range [...]blockKey{
		{class: by.class},
		{class: by.class, size: s.Name, capacityType: capacityType},
		{class: by.class, size: s.Name, capacityType: capacityType, zone: zone},
		{subnet: by.subnet},
		{capacityType: capacityType},
		{family: s.Family, capacityType: capacityType},
		{family: s.Family, capacityType: capacityType, zone: zone},
		{family: s.Family, capacityType: capacityType, scope: scope},
		{size: s.Name, capacityType: capacityType},
		{size: s.Name, capacityType: capacityType, zone: zone},
		{size: s.Name, capacityType: capacityType, scope: scope},
	} {
		if b, ok := v[key]; ok && s.VCPUs >= b.minVCPUs {
			return b, true
		}
	}
	return block{}, false
}

// spread returns which offerings a refusal of s blocks, and from which number of vCPUs on.
func spread(r armerr.Refusal, s *sku.SKU, zone, capacityType string, by buyer) (keys []blockKey, floor int64) {
	c := r.Conduct()
	if c.Larger && !r.LimitIsZero {
		floor = s.VCPUs
	}
	keys = blockKeys(c.Avoid, s, zone, capacityType, by.subnet)
	if c.OfClass {
		for i := range keys {
			keys[i].class = by.class
		}
	}
	return keys, floor
}

// blockKeys returns the block keys of an extent.
func blockKeys(e armerr.Extent, s *sku.SKU, zone, sold, subnetID string) []blockKey {
	both := func(k blockKey) []blockKey {
		onDemand, spot := k, k
		onDemand.capacityType, spot.capacityType = offering.OnDemand, offering.Spot
		return []blockKey{onDemand, spot}
	}
	switch e {
	case armerr.ThisOffering:
		return []blockKey{{size: s.Name, zone: zone, capacityType: sold}}
	case armerr.ThisSizeInScope:
		return []blockKey{{size: s.Name, scope: scopeOf(zone), capacityType: sold}}
	case armerr.ThisSizeAsSpot:
		return []blockKey{{size: s.Name, capacityType: offering.Spot}}
	case armerr.ThisSize:
		return both(blockKey{size: s.Name})
	case armerr.ThisFamily:
		return []blockKey{{family: s.Family, capacityType: sold}}
	case armerr.ThisFamilyInZone:
		return both(blockKey{family: s.Family, zone: zone})
	case armerr.ThisFamilyScope:
		return both(blockKey{family: s.Family, scope: scopeOf(zone)})
	case armerr.ThisCapacityType:
		return []blockKey{{capacityType: sold}}
	case armerr.Everything:
		return both(blockKey{})
	case armerr.ThisSubnet:
		return []blockKey{{subnet: subnetID}}
	}
	return nil
}
