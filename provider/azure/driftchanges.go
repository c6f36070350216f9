// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"slices"
	"sync"
	"time"
)

// driftChanges remembers what the last list said about drift. The zero driftChanges remembers no
// list.
type driftChanges struct {
	mu      sync.Mutex
	started time.Time         // start of that list
	states  map[string]string // drift state by handle
}

// takeChanged returns the claims whose machine AKS has come to recreate, or no longer to recreate,
// and those whose VM size changed, since the last call. It returns each change once. A virtual
// machine that is seen for the first time has not changed.
func (d *driftChecker) takeChanged() []string {
	v, c := d.vms.Last(), &d.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.ByName == nil || v.Started.Equal(c.started) {
		return nil
	}
	states := make(map[string]string, len(v.ByName))
	var claims []string
	for handle, vm := range v.ByName {
		if !d.owner.ours(vm) {
			continue
		}
		states[handle] = vm.driftState()
		if before, known := c.states[handle]; known && before != states[handle] {
			claims = append(claims, claimOf(vm))
		}
	}
	c.started, c.states = v.Started, states
	slices.Sort(claims)
	return claims
}

// driftState returns the properties in the list that matter for drift.
func (m *virtualMachine) driftState() string {
	size, drift := "", ""
	if hw := m.Properties.HardwareProfile; hw != nil && hw.VMSize != nil {
		size = string(*hw.VMSize)
	}
	if m.aksMachine != nil {
		drift = m.aksMachine.drift
	}
	return size + " " + drift
}
