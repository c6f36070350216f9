package azure

import (
	"context"
	"log/slog"
	"sync"

	"github.com/karve-dev/karve/provider"
)

// leastSeen is the share of the advertised memory below which a node is not believed:
// firmware and kernel take 3 to 7 % of it. Anybody who may write a node's status may say
// anything.
const leastSeen = 0.85

// seenMemory is what nodes of each size had, the least of them: hosts differ by little,
// and a pod that was promised more than there is would never start.
type seenMemory struct {
	mu      sync.Mutex
	bytes   map[string]int64 // by size, whole MiB
	version uint64           // moves when anything is learnt
}

// Observe learns the memory of a size. It is forgotten with the process: the nodes that
// there are tell the next one.
func (p *Provider) ObserveCapacity(ctx context.Context, node provider.ObservedCapacity) error {
	if err := p.skus.ensure(ctx); err != nil {
		return err
	}
	s := p.skus.read().value.byName[node.Type]
	if s == nil || !s.mayHave(node.Memory) {
		return nil
	}
	if p.memory.learn(s.name, node.Memory/mebibyte*mebibyte) {
		p.opts.Log.Info("memory of a size learnt", slog.String("size", s.name), slog.Int64("advertisedMiB", s.memoryMiB), slog.Int64("seenMiB", node.Memory/mebibyte))
	}
	return nil
}

var _ provider.CapacityObserver = (*Provider)(nil)

func (s *sku) mayHave(bytes int64) bool {
	advertised := s.memoryMiB * mebibyte
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

// memoryOf is what a node of the size has, in bytes: what was seen, or until then what is
// left when the usual share is taken off.
func (p *Provider) memoryOf(s *sku) int64 {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	if seen, ok := p.memory.bytes[s.name]; ok {
		return seen
	}
	return usableMemory(s.memoryMiB, *p.opts.VMMemoryOverheadPercent)
}
