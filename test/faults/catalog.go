// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/test/scarcity"
)

// catalog is where claims find what they accept. It looks at the catalog from
// time to time, as controllers do.
type catalog struct {
	provider *azure.Provider

	mu       sync.Mutex
	snapshot *provider.Catalog
	lists    [2 * zones][]offering.Ref // by capacity type and turn
}

const zones = 3

// refreshInterval is the pause between two looks at the catalog.
const refreshInterval = 10 * time.Second

// refreshUntil looks at the catalog until ctx ends. While it cannot be had, what was last seen holds.
func (m *catalog) refreshUntil(ctx context.Context) {
	for m.refresh(ctx); scarcity.Sleep(ctx, refreshInterval) == nil; {
		m.refresh(ctx)
	}
}

func (m *catalog) refresh(ctx context.Context) {
	if s, err := m.provider.Catalog(ctx, className); err == nil {
		m.set(s)
	}
}

func (m *catalog) set(s *provider.Catalog) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s != m.snapshot {
		m.snapshot, m.lists = s, [2 * zones][]offering.Ref{}
	}
}

// problem is what was last missing, prices for one; before the first look everything is.
func (m *catalog) problem() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.snapshot == nil {
		return "it cannot be had"
	}
	return m.snapshot.Problem
}

// choices are what an order accepts, cheapest first: on-demand VMs if its number is
// even, spot VMs if not. Equal zones take turns.
func (m *catalog) choices(order int) []offering.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.snapshot == nil {
		return nil
	}
	i := order % (2 * zones)
	if m.lists[i] == nil {
		m.lists[i] = accepted(m.snapshot, order)
	}
	return m.lists[i]
}

func accepted(s *provider.Catalog, order int) []offering.Ref {
	capacityType := offering.OnDemand
	if order%2 == 1 {
		capacityType = offering.Spot
	}
	all := []offering.Ref{}
	for i := range s.Types {
		for _, f := range s.Types[i].Offerings {
			if f.CapacityType == capacityType && f.Unavailable == "" && !f.Fallback {
				all = append(all, offering.Ref{Type: s.Types[i].Name, Zone: f.Zone, CapacityType: f.CapacityType, Price: f.Price})
			}
		}
	}
	turn := func(c offering.Ref) int { return (int(c.Zone[len(c.Zone)-1]) + order) % zones }
	slices.SortStableFunc(all, func(a, b offering.Ref) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(turn(a), turn(b)))
	})
	return all
}
