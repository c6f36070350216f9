// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"log/slog"
	"net/http"
	"time"
)

// fabric has VMs allocated, booted, stopped and removed, each of which takes its time.
type fabric struct {
	vms     *virtualMachines
	nics    *interfaces
	disks   *disks
	quota   *quota
	quirks  *quirks
	ops     *operations
	guests  *guests
	owner   vmOwner
	clock   *clock
	chance  *chance
	latency Latency
	log     *slog.Logger
}

// vmOwner is the service that makes VMs for its own clients.
type vmOwner interface {
	// vmSettled is called when the creation of v has ended, well or not.
	vmSettled(v *vm)
	// vmGone is called when v does not exist any more.
	vmGone(v *vm)
}

// beginDelete takes the VM from its guest and removes it after a delay.
// What else was going on with it has been overtaken.
func (f *fabric) beginDelete(v *vm, cause error) *operation {
	f.ops.finish(v.at, preempted())
	v.endGuest(cause)
	v.state = deleting
	op := f.ops.begin("Microsoft.Compute", computePace)
	v.at = op
	if v.stuck = f.quirks.takeTurn(stuckDeleting); v.stuck {
		return op
	}
	undone := cause == ErrDeleted && v.machine == nil && f.quirks.takeTurn(deletionUndone)
	life := v.life
	f.clock.later(f.latency.Delete, func() {
		if undone && v.life == life {
			v.state, v.power, v.at = succeeded, starting, nil
			f.bootLater(v)
		} else {
			f.remove(v)
		}
		f.ops.finish(op, nil)
	})
	return op
}

// remove ends the VM's existence and that of what goes with it.
func (f *fabric) remove(v *vm) {
	if !f.vms.has(v) {
		return
	}
	f.vms.remove(v)
	f.quota.giveBack(v.quotaUse())
	f.nics.release(v)
	f.disks.release(v)
	f.owner.vmGone(v)
	f.log.Info("VM gone", slog.String("vm", v.name), slog.String("size", v.size.Name))
}

func (f *fabric) beginDeallocate(v *vm, cause error) *operation {
	f.ops.finish(v.at, preempted())
	v.endGuest(cause)
	v.state, v.power, v.events = updating, deallocating, nil
	v.incarnation++
	v.at = f.ops.begin("Microsoft.Compute", computePace)
	op, life := v.at, v.life
	f.clock.later(f.latency.Power, func() {
		if v.life == life {
			f.endDeallocation(v, op)
		}
	})
	return op
}

func (f *fabric) endDeallocation(v *vm, op *operation) {
	v.state, v.power, v.at = succeeded, deallocated, nil
	f.ops.finish(op, nil)
}

// start allocates a stopped VM again; failure is what that will fail of.
func (f *fabric) start(v *vm, failure *Error) *operation {
	v.life++
	v.state, v.power, v.at = updating, starting, f.ops.begin("Microsoft.Compute", computePace)
	op, life := v.at, v.life
	f.clock.later(f.latency.Power, func() {
		if v.life == life {
			f.endStart(v, op, failure)
		}
	})
	return op
}

func (f *fabric) endStart(v *vm, op *operation, failure *Error) {
	v.at = nil
	f.ops.finish(op, failure)
	if failure != nil {
		v.state, v.failure, v.power = failed, failure, deallocated
		return
	}
	v.state, v.failure = succeeded, nil
	f.bootLater(v)
}

// allocate puts the end of a creation on the agenda. failure is what it will
// fail of, which shows sooner than success.
func (f *fabric) allocate(v *vm, failure *Error) {
	v.life++
	v.state, v.failure = creating, nil
	v.at = f.ops.begin("Microsoft.Compute", computePace)
	life, wait := v.life, f.chance.draw(f.latency.Create)
	if failure != nil {
		wait /= 3
	}
	if failure == nil && f.quirks.takeTurn(stuckCreating) {
		return
	}
	f.clock.afterScaled(wait, func() {
		if v.life == life {
			f.endCreation(v, failure)
		}
	})
}

func (f *fabric) endCreation(v *vm, failure *Error) {
	defer f.owner.vmSettled(v)
	if failure == nil && f.quirks.takeTurn(stuckUpdating) {
		v.state, v.power = updating, starting // and its operation goes on
		f.bootLater(v)
		return
	}
	op := v.at
	f.ops.finish(op, failure)
	v.at = nil
	if failure != nil {
		v.state, v.failure = failed, failure
		f.log.Info("allocation failed", slog.String("vm", v.name), slog.String("size", v.size.Name), slog.String("code", failure.Code))
		return
	}
	if f.quirks.takeTurn(wrongFinalState) {
		v.state = canceled
		return
	}
	if f.quirks.takeTurn(lateSuccess) {
		f.succeedLate(v, op)
		return
	}
	v.state, v.power = succeeded, starting
	f.bootLater(v)
	if f.quirks.takeTurn(lateFailure) {
		f.failLate(v, op)
	}
}

// failLate has a VM fail whose creation was reported as done: it has no power any more,
// and its operation has failed, which had succeeded before.
func (f *fabric) failLate(v *vm, op *operation) {
	life := v.life
	f.clock.afterScaled(turnsOut, func() {
		if v.life != life {
			return
		}
		v.endGuest(ErrDeallocated)
		v.state, v.power = failed, ""
		v.failure = refuse(http.StatusInternalServerError, "InternalExecutionError", "An internal execution error occurred. Please retry later.")
		if op != nil {
			op.status, op.failure = failed, v.failure
		}
		f.log.Info("VM failed after it was made", slog.String("vm", v.name))
	})
}

// succeedLate has a VM come up whose creation was reported as failed.
func (f *fabric) succeedLate(v *vm, op *operation) {
	v.state, v.failure = failed, refuse(http.StatusInternalServerError, "InternalExecutionError", "An internal execution error occurred. Please retry later.")
	if op != nil {
		op.status, op.failure = failed, v.failure
	}
	life := v.life
	f.clock.afterScaled(late, func() {
		if v.life == life {
			v.state, v.power, v.failure = succeeded, starting, nil
			f.bootLater(v)
		}
	})
}

// bootLater boots the VM after its delay, unless something ends its life.
func (f *fabric) bootLater(v *vm) {
	life := v.life
	f.clock.later(f.latency.Boot, func() {
		if v.life == life {
			f.boot(v)
		}
	})
}

// boot hands the VM to the guest. Callers hold the lock.
func (f *fabric) boot(v *vm) {
	v.power = running
	f.log.Info("VM booted", slog.String("vm", v.name), slog.String("size", v.size.Name))
	if !v.system {
		v.stopGuest = f.guests.start(v)
	}
}

// restartAfter has the VM's guest end and another begin, then after what has to be done.
func (f *fabric) restartAfter(v *vm, d time.Duration, then func()) {
	v.endGuest(ErrRestarted)
	v.power = starting
	life := v.life
	f.clock.afterScaled(d, func() {
		then()
		if v.life == life {
			f.boot(v)
		}
	})
}
