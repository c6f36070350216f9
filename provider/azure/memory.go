// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"log/slog"
	"sync"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// leastSeen is the share of the advertised memory below which an observed value is ignored:
// firmware and kernel take 3 to 7 % of it. Any client that may write a node's status could
// report a wrong value.
const leastSeen = 0.85

// seenMemory is the memory of nodes of each size, the least observed: nodes of a size differ a
// little, and a pod that needs more than a node has would never start.
type seenMemory struct {
	share   float64 // of the advertised memory that firmware and kernel are expected to take
	mu      sync.Mutex
	bytes   map[string]int64 // by size; whole MiB
	version uint64           // changes with every new value
}

// ObserveCapacity records the memory of a size. It is kept in memory only: after a restart the
// existing nodes are observed again.
func (p *Provider) ObserveCapacity(ctx context.Context, node provider.ObservedCapacity) error {
	if err := p.catalogs.ensureSizes(ctx); err != nil {
		return err
	}
	s := p.catalogs.sizes()[node.Type]
	if s == nil || !plausibleMemory(s, node.Memory) {
		return nil
	}
	if p.memory.learn(s.Name, node.Memory/mebibyte*mebibyte) {
		p.opts.Log.Info("memory of a size learnt", slog.String("size", s.Name), slog.Int64("advertisedMiB", s.MemoryMiB), slog.Int64("seenMiB", node.Memory/mebibyte))
	}
	return nil
}

var _ provider.CapacityObserver = (*Provider)(nil)

func plausibleMemory(s *sku.SKU, bytes int64) bool {
	advertised := s.MemoryMiB * mebibyte
	return bytes <= advertised && float64(bytes) >= leastSeen*float64(advertised)
}

func (m *seenMemory) learn(size string, bytes int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.bytes[size]; ok && known <= bytes {
		return false
	}
	m.bytes[size] = bytes
	m.version++
	return true
}

func (m *seenMemory) now() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// of returns the memory of a node of the size, in bytes: the observed value, or until then the
// advertised one less the usual share.
func (m *seenMemory) of(s *sku.SKU) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seen, ok := m.bytes[s.Name]; ok {
		return seen
	}
	return usableMemory(s.MemoryMiB, m.share)
}
