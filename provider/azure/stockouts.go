package azure

import (
	"fmt"
	"sync"
	"time"
)

// stockouts remembers what the cloud refused to sell, how widely that holds and
// for how long. It lives in memory: after a restart the first purchase learns it
// again. The version moves when a memory appears or fades.
type stockouts struct {
	now func() time.Time

	mu      sync.Mutex
	blocks  map[blockKey]block
	version uint64
	next    time.Time            // when the first block ends; zero when there is none
	bought  map[string]time.Time // the last machine, by class
	// suspects are classes of which several sizes were refused alike.
	suspects map[string]suspicion
	// hitches are what machines could not be prepared for last, by class.
	hitches map[string]hitch
}

// A blockKey says what is blocked; an empty field means any. At most one of size
// and family is set, and at most one of zone and scope. A class is set where it may be the
// class that is wrong; its other fields are then those of a size, or none.
type blockKey struct {
	class                      string
	size, family, capacityType string
	zone                       string // zone label value
	scope                      string // zonal or regional
	subnet                     string // lower case
}

// A buyer is whom something is refused or sold to: a class, and the subnet (lower case) that
// its machines join.
type buyer struct{ class, subnet string }

// A block ends at until and holds for sizes of at least minVCPUs.
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

// regionalZone is the zone label of a machine without a zone.
const regionalZone = "0"

func scopeOf(zone string) string {
	if zone == regionalZone {
		return scopeRegional
	}
	return scopeZonal
}

// learn remembers a refusal of s in a zone.
func (m *stockouts) learn(r refusal, s *sku, zone, capacityType string, by buyer) {
	keys, floor := r.spread(s, zone, capacityType, by)
	if len(keys) == 0 {
		return
	}
	until := m.now().Add(r.rests(capacityType))
	words := r.restWords(until)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		b := block{until: until, minVCPUs: floor, reason: r.reason(), code: r.code, words: words}
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

// put remembers a block. Callers hold the lock.
func (m *stockouts) put(key blockKey, b block) {
	m.blocks[key] = b
	if m.next.IsZero() || b.until.Before(m.next) {
		m.next = b.until
	}
}

// restWords are a refusal's words, and until when it is minded.
func (r refusal) restWords(until time.Time) string {
	return fmt.Sprintf("%s; tried again after %s", r.words(), until.UTC().Format("15:04:05Z"))
}

// recall returns the memory that speaks against buying s there.
func (m *stockouts) recall(s *sku, zone, capacityType string, by buyer) (block, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view().recall(s, zone, capacityType, by)
}

// snapshot returns the memories that still hold, and their version. The map may
// be read without a lock.
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

// current is the version alone.
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

// fade drops what has ended.
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

// blockView answers from a set of memories.
type blockView map[blockKey]block

func (v blockView) recall(s *sku, zone, capacityType string, by buyer) (block, bool) {
	if len(v) == 0 {
		return block{}, false
	}
	scope := scopeOf(zone)
	for _, key := range [...]blockKey{
		{class: by.class},
		{class: by.class, size: s.name, capacityType: capacityType},
		{class: by.class, size: s.name, capacityType: capacityType, zone: zone},
		{subnet: by.subnet},
		{capacityType: capacityType},
		{family: s.family, capacityType: capacityType},
		{family: s.family, capacityType: capacityType, zone: zone},
		{family: s.family, capacityType: capacityType, scope: scope},
		{size: s.name, capacityType: capacityType},
		{size: s.name, capacityType: capacityType, zone: zone},
		{size: s.name, capacityType: capacityType, scope: scope},
	} {
		if b, ok := v[key]; ok && s.vcpus >= b.minVCPUs {
			return b, true
		}
	}
	return block{}, false
}
