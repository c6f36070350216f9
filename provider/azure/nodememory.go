// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"log/slog"
	"sync"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// minPlausibleShare is the share of the advertised memory below which an observed value is ignored:
// firmware and kernel take 3 to 7 % of it. Any client that may write a node's status could
// report a wrong value.
const minPlausibleShare = 0.85

// observedMemory is the memory of nodes of each instance type, the least observed: nodes of one
// type differ a little, and a pod that needs more than a node has would never start.
type observedMemory struct {
	skus    *skuList
	log     *slog.Logger
	share   float64 // of the advertised memory that firmware and kernel are expected to take
	mu      sync.Mutex
	bytes   map[string]int64 // by instance type; whole MiB
	version uint64           // changes with every new value
}

func newObservedMemory(o *Options, skus *skuList) *observedMemory {
	return &observedMemory{skus: skus, log: o.Log, share: *o.VMMemoryOverheadPercent, bytes: map[string]int64{}}
}

// observe records the memory of a node. It is kept in memory only: after a restart the
// existing nodes are observed again.
func (m *observedMemory) observe(ctx context.Context, node provider.ObservedCapacity) error {
	if err := m.skus.ensure(ctx); err != nil {
		return err
	}
	s := m.skus.byName()[node.Type]
	if s == nil || !plausibleMemory(s, node.Memory) {
		return nil
	}
	if m.record(s.Name, node.Memory/mebibyte*mebibyte) {
		m.log.Info("memory of an instance type observed", slog.String("instanceType", s.Name), slog.Int64("advertisedMiB", s.MemoryMiB), slog.Int64("seenMiB", node.Memory/mebibyte))
	}
	return nil
}

func plausibleMemory(s *sku.SKU, bytes int64) bool {
	advertised := s.MemoryMiB * mebibyte
	return bytes <= advertised && float64(bytes) >= minPlausibleShare*float64(advertised)
}

// record records the memory of a node, unless an equal or lower value is known of its instance
// type, and reports whether it did.
func (m *observedMemory) record(instanceType string, bytes int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.bytes[instanceType]; ok && known <= bytes {
		return false
	}
	m.bytes[instanceType] = bytes
	m.version++
	return true
}

// currentVersion changes with every new value.
func (m *observedMemory) currentVersion() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// of returns the memory of a node of the instance type, in bytes: the observed value, or until then
// the advertised one less the usual share.
func (m *observedMemory) of(s *sku.SKU) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if observed, ok := m.bytes[s.Name]; ok {
		return observed
	}
	return usableMemory(s.MemoryMiB, m.share)
}
