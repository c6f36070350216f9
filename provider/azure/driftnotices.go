package azure

import (
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/provider"
)

// driftNotices remembers what machines were like in the list that Stirred looked at last. The zero
// driftNotices has looked at none.
type driftNotices struct {
	mu      sync.Mutex
	started time.Time         // of that list
	seen    map[string]string // by handle
}

var _ provider.DriftNotifier = (*Provider)(nil)

// Stirred lists the claims of machines that AKS would make anew now, or would not any more, and
// of those whose size has changed. A machine that is seen for the first time has not changed.
func (p *Provider) DriftChanged() []string {
	v := p.machines.current()
	r := &p.driftNotices
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.byName == nil || v.started.Equal(r.started) {
		return nil
	}
	seen := make(map[string]string, len(v.byName))
	var claims []string
	for handle, vm := range v.byName {
		if !p.ours(vm) {
			continue
		}
		seen[handle] = vm.likeness()
		if was, known := r.seen[handle]; known && was != seen[handle] {
			claims = append(claims, claimOf(vm))
		}
	}
	r.started, r.seen = v.started, seen
	slices.Sort(claims)
	return claims
}

// likeness is what a list says of a machine's drift.
func (m *machine) likeness() string {
	size, drift := "", ""
	if hw := m.Properties.HardwareProfile; hw != nil && hw.VMSize != nil {
		size = string(*hw.VMSize)
	}
	if m.said != nil {
		drift = m.said.drift
	}
	return size + " " + drift
}
