// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/provider"
)

// driftNotices remembers the virtual machines in the list that DriftChanged compared last. The
// zero driftNotices has compared none.
type driftNotices struct {
	mu      sync.Mutex
	started time.Time         // start of that list
	seen    map[string]string // by handle
}

var _ provider.DriftNotifier = (*Provider)(nil)

// DriftChanged returns the claims whose machine AKS would now recreate, or would no longer
// recreate, and those whose size has changed. A virtual machine that is seen for the first time
// has not changed.
func (p *Provider) DriftChanged() []string {
	v := p.machines.Last()
	r := &p.driftNotices
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.ByName == nil || v.Started.Equal(r.started) {
		return nil
	}
	seen := make(map[string]string, len(v.ByName))
	var claims []string
	for handle, vm := range v.ByName {
		if !p.owner.ours(vm) {
			continue
		}
		seen[handle] = vm.likeness()
		if was, known := r.seen[handle]; known && was != seen[handle] {
			claims = append(claims, claimOf(vm))
		}
	}
	r.started, r.seen = v.Started, seen
	slices.Sort(claims)
	return claims
}

// likeness returns the properties in the list that matter for drift.
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
