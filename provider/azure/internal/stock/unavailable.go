// SPDX-License-Identifier: Apache-2.0

// Package stock remembers what cannot be launched for now, and for which node classes.
// UnavailableOfferings blocks the offerings that a refusal is about, or a whole node class;
// Probes keeps a burst of launches from requesting an offering that may be out of stock;
// SpotReclaims puts offerings last whose spot instances Azure evicted; Policies keeps refusals by
// policies. All of it lives in memory: after a restart the first launch learns it again. Package
// armerr determines what a refusal means.
package stock

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// UnavailableOfferings remembers what Azure refused to launch, how widely the refusal applies and
// for how long. It lives in memory: after a restart the first launch learns it again. The version
// changes when a block is added or ends.
type UnavailableOfferings struct {
	now func() time.Time

	mu         sync.Mutex
	blocks     map[blockKey]block
	version    uint64
	nextExpiry time.Time            // when the first block ends; zero when there is none
	launched   map[string]time.Time // last launch, by node class
	// suspicions are the node classes of which several sizes were refused with one code.
	suspicions map[string]classSuspicion
	// preparationErrors are the last errors of preparing a launch, by node class.
	preparationErrors map[string]preparationError
}

// A blockKey identifies the blocked offerings; an empty field means any. At most one of size and
// family is set, and at most one of zone and scope. class is set when the node class may be the
// cause; the other fields are then those of a size, or empty.
type blockKey struct {
	class                      string
	size, family, capacityType string
	zone                       string // zone label value
	scope                      string // zonal or regional
	subnet                     string // lower case
}

// A Requester is the node class that launches, and the subnet (lower case) that its nodes join.
type Requester struct{ Class, Subnet string }

// A block ends at until and applies to sizes of at least minVCPUs.
type block struct {
	until       time.Time
	minVCPUs    int64
	Reason      string // as in provider.RefusedOffering; for a paused class, of its ValidationSucceeded condition
	Code        string
	Description string
}

func NewUnavailableOfferings(now func() time.Time) *UnavailableOfferings {
	return &UnavailableOfferings{now: now, blocks: map[blockKey]block{}, launched: map[string]time.Time{}, suspicions: map[string]classSuspicion{}, preparationErrors: map[string]preparationError{}}
}

// Scopes of placement, as the placement-scope label spells them.
const (
	scopeZonal    = "zonal"
	scopeRegional = "regional"
)

// RegionalZone is the zone label of a node without a zone.
const RegionalZone = "0"

func ScopeOf(zone string) string {
	if zone == RegionalZone {
		return scopeRegional
	}
	return scopeZonal
}

// RecordFailure records a failure of s in a zone.
func (m *UnavailableOfferings) RecordFailure(r armerr.Failure, s *sku.SKU, zone, capacityType string, by Requester) {
	keys, minVCPUs := keysBlockedBy(r, s, zone, capacityType, by)
	if len(keys) == 0 {
		return
	}
	until := m.now().Add(r.BlockedFor(capacityType))
	description := describeBlock(r, until)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		b := block{until: until, minVCPUs: minVCPUs, Reason: r.Reason(), Code: r.Code, Description: description}
		if old, ok := m.blocks[key]; ok && old.until.After(m.now()) {
			b.minVCPUs = min(b.minVCPUs, old.minVCPUs) // the block of more sizes counts
			if old.until.After(until) {
				b.until, b.Description = old.until, old.Description
			}
		}
		m.put(key, b)
	}
	m.version++
}

// put records a block. Callers hold the lock.
func (m *UnavailableOfferings) put(key blockKey, b block) {
	m.blocks[key] = b
	if m.nextExpiry.IsZero() || b.until.Before(m.nextExpiry) {
		m.nextExpiry = b.until
	}
}

// describeBlock describes a refusal and until when it applies.
func describeBlock(r armerr.Failure, until time.Time) string {
	return fmt.Sprintf("%s; tried again after %s", r.Describe(), until.UTC().Format("15:04:05Z"))
}

// Blocked returns the block that applies to s there, if any.
func (m *UnavailableOfferings) Blocked(s *sku.SKU, zone, capacityType string, by Requester) (block, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.activeBlocks().Blocked(s, zone, capacityType, by)
}

// Blocks returns the current blocks and their version. The map may be read without a lock.
func (m *UnavailableOfferings) Blocks() (Blocks, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	copied := make(Blocks, len(m.blocks))
	for k, b := range m.blocks {
		copied[k] = b
	}
	return copied, m.version
}

// current returns the version.
func (m *UnavailableOfferings) current() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return m.version
}

// activeBlocks returns the blocks that have not ended. Callers hold the lock.
func (m *UnavailableOfferings) activeBlocks() Blocks {
	m.expire()
	return m.blocks
}

// expire drops blocks that have ended.
func (m *UnavailableOfferings) expire() {
	now := m.now()
	if m.nextExpiry.IsZero() || now.Before(m.nextExpiry) {
		return
	}
	m.nextExpiry = time.Time{}
	for k, b := range m.blocks {
		if !b.until.After(now) {
			delete(m.blocks, k)
			continue
		}
		if m.nextExpiry.IsZero() || b.until.Before(m.nextExpiry) {
			m.nextExpiry = b.until
		}
	}
	m.version++
}

// Blocks is a set of blocks.
type Blocks map[blockKey]block

func (v Blocks) Blocked(s *sku.SKU, zone, capacityType string, by Requester) (block, bool) {
	if len(v) == 0 {
		return block{}, false
	}
	scope := ScopeOf(zone)
	for _, key := range [...]blockKey{
		{class: by.Class},
		{class: by.Class, size: s.Name, capacityType: capacityType},
		{class: by.Class, size: s.Name, capacityType: capacityType, zone: zone},
		{subnet: by.Subnet},
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

// keysBlockedBy returns which offerings a refusal of s blocks, and from how many vCPUs on.
func keysBlockedBy(r armerr.Failure, s *sku.SKU, zone, capacityType string, by Requester) (keys []blockKey, minVCPUs int64) {
	c := r.Reaction()
	if c.OnlyLarger && !r.LimitIsZero {
		minVCPUs = s.VCPUs
	}
	keys = blockKeys(c.Blocks, s, zone, capacityType, by.Subnet)
	if c.ForClass {
		for i := range keys {
			keys[i].class = by.Class
		}
	}
	return keys, minVCPUs
}

// blockKeys returns the block keys of an extent.
func blockKeys(e armerr.Extent, s *sku.SKU, zone, capacityType, subnetID string) []blockKey {
	both := func(k blockKey) []blockKey {
		onDemand, spot := k, k
		onDemand.capacityType, spot.capacityType = offering.OnDemand, offering.Spot
		return []blockKey{onDemand, spot}
	}
	switch e {
	case armerr.ThisOffering:
		return []blockKey{{size: s.Name, zone: zone, capacityType: capacityType}}
	case armerr.ThisSizeInScope:
		return []blockKey{{size: s.Name, scope: ScopeOf(zone), capacityType: capacityType}}
	case armerr.ThisSizeAsSpot:
		return []blockKey{{size: s.Name, capacityType: offering.Spot}}
	case armerr.ThisSize:
		return both(blockKey{size: s.Name})
	case armerr.ThisFamily:
		return []blockKey{{family: s.Family, capacityType: capacityType}}
	case armerr.ThisFamilyInZone:
		return both(blockKey{family: s.Family, zone: zone})
	case armerr.ThisFamilyInScope:
		return both(blockKey{family: s.Family, scope: ScopeOf(zone)})
	case armerr.ThisCapacityType:
		return []blockKey{{capacityType: capacityType}}
	case armerr.Everything:
		return both(blockKey{})
	case armerr.ThisSubnet:
		return []blockKey{{subnet: subnetID}}
	}
	return nil
}

// DropExpired drops expired entries. expire removes the blocks.
func (m *UnavailableOfferings) DropExpired(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.launched, func(_ string, at time.Time) bool { return now.Sub(at) >= RefusedTTL })
	maps.DeleteFunc(m.preparationErrors, func(_ string, h preparationError) bool { return now.Sub(h.last) >= preparationErrorTTL })
	maps.DeleteFunc(m.suspicions, func(class string, s classSuspicion) bool { return m.sizesRefused(class, s.code) == 0 })
}
