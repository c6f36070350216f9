// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"math/rand/v2"
	"time"
)

// Quirks are what VMs and interfaces do that they should not.
const (
	stuckCreating   = "StuckCreating"   // a creation never ends
	stuckUpdating   = "StuckUpdating"   // a VM comes up, and is never reported as done: its state stays Updating
	stuckDeleting   = "StuckDeleting"   // a deletion does not end, unless it is asked for again
	lateSuccess     = "LateSuccess"     // a creation is reported as failed, and succeeds a minute later
	lateFailure     = "LateFailure"     // a creation is reported as done, and has failed twenty seconds later
	wrongFinalState = "WrongFinalState" // a creation is reported as done, and its VM's state is Canceled: it has no power
	deletionUndone  = "DeletionUndone"  // a deletion is reported as done, and the VM is still there and starts again
	nicOrphaned     = "NicOrphaned"     // a creation fails without a VM, and leaves its interface
	addressesLinger = "AddressesLinger" // an interface's addresses stay taken for five minutes after it is gone
)

// late is how much later than its failure was reported a VM comes up after all.
const late = time.Minute

// turnsOut is how much later than its success was reported a VM turns out to have
// failed: before most have booted.
const turnsOut = 20 * time.Second

// lingers is how long an address stays taken after its interface is gone.
const lingers = 5 * time.Minute

// A quirk shows so many times yet; negative is for ever.
type quirk struct {
	left int
	luck luck
}

// quirks are those that show.
type quirks struct {
	byName map[string]*quirk
	struck *strikes
	clock  *clock
}

func (qs *quirks) add(name string, times int, seed uint64) {
	qs.clock.Lock()
	defer qs.clock.Unlock()
	if qs.byName == nil {
		qs.byName = map[string]*quirk{}
	}
	if times == 0 {
		times = 1
	}
	qs.byName[name] = &quirk{times, luck{seed: seed}}
}

// takeTurn spends one of a quirk's times. Callers hold the lock.
func (qs *quirks) takeTurn(name string) bool {
	q := qs.byName[name]
	if q == nil || q.left == 0 || q.luck.passes() {
		return false
	}
	q.left = max(q.left-1, -1)
	qs.struck.note(name)
	return true
}

// clear ends all of them.
func (qs *quirks) clear() {
	qs.clock.Lock()
	defer qs.clock.Unlock()
	qs.byName = nil
}

// luck decides what a fault passes over: nothing without a seed, else about two of three,
// always the same ones for the same seed.
type luck struct {
	seed  uint64
	draws int
}

func (l *luck) passes() bool {
	if l.seed == 0 {
		return false
	}
	l.draws++
	return rand.NewPCG(l.seed, uint64(l.draws)).Uint64()%3 > 0
}
