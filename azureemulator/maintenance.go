// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maintenance announces to VMs what Azure is about to do to them, and has it happen.
type maintenance struct {
	vms      *virtualMachines
	fabric   *fabric
	guests   *guests
	sub      *subscription
	clock    *clock
	chance   *chance
	eviction Distribution // from simulateEviction to the notice
	log      *slog.Logger
}

func (mt *maintenance) routes() []route {
	return []route{
		azure("POST", computeIn+"virtualmachines/{vm}/simulateeviction", "VirtualMachines.SimulateEviction", deleteVM, mt.simulateEviction),
		admin("GET", "vms/{vm}/scheduledevents", mt.adminScheduledEvents),
	}
}

// scheduledEvent is what Azure announces to a VM before it does it.
type scheduledEvent struct {
	id, kind, status, source string
	notBefore                time.Time
	description              string
	lasts                    int // seconds; -1 when unknown
}

// The kinds of scheduled events.
const (
	preempt   = "Preempt"
	terminate = "Terminate"
	redeploy  = "Redeploy"
	reboot    = "Reboot"
	freeze    = "Freeze"
)

// How a scheduled event stands. One that is over is not shown any more.
const (
	scheduled = "Scheduled"
	started   = "Started"
)

// frozen is how long a freeze lasts, and restart how long a VM is away when it starts
// anew or moves; at TimeScale 1.
const (
	frozen  = 5 * time.Second
	restart = 60 * time.Second
)

// leastNotice is how long before an event Azure announces it, at the least.
func leastNotice(kind string) (time.Duration, bool) {
	switch kind {
	case preempt:
		return preemptNotice, true
	case terminate:
		return 5 * time.Minute, true
	case redeploy:
		return 10 * time.Minute, true
	case reboot, freeze:
		return 15 * time.Minute, true
	}
	return 0, false
}

func noticeOr(notice, usual time.Duration) time.Duration {
	if notice == 0 {
		return usual
	}
	return max(notice, 0)
}

// announce schedules an event of a kind (Freeze, Reboot, Redeploy, Terminate, or Preempt for a
// spot VM) for a VM, found by its name in any resource group, and has it happen
// after notice (at TimeScale 1; zero means Azure's least for the kind, negative none at
// all), or sooner when the VM acknowledges it.
func (mt *maintenance) announce(name, kind string, notice time.Duration) error {
	usual, known := leastNotice(kind)
	if !known {
		return fmt.Errorf("announcing %q to %s: there are Freeze, Reboot, Redeploy, Terminate and Preempt", kind, name)
	}
	if kind == preempt {
		return mt.evictNamed(name, notice)
	}
	mt.clock.Lock()
	defer mt.clock.Unlock()
	v := mt.vms.named(name)
	if v == nil || v.power != running {
		return fmt.Errorf("announcing %s to %s: no such VM is running", kind, name)
	}
	mt.schedule(v, kind, noticeOr(notice, usual))
	return nil
}

// withdraw takes back every event of a VM that has not started.
func (mt *maintenance) withdraw(name string) error {
	mt.clock.Lock()
	defer mt.clock.Unlock()
	v := mt.vms.named(name)
	if v == nil {
		return fmt.Errorf("withdrawing the events of %s: there is no such VM", name)
	}
	v.events = slices.DeleteFunc(v.events, func(e *scheduledEvent) bool { return e.status == scheduled })
	v.incarnation++
	return nil
}

// schedule shows an event and puts what it announces on the agenda. Scheduling the same
// kind twice changes nothing. Callers hold the lock.
func (mt *maintenance) schedule(v *vm, kind string, notice time.Duration) {
	if v.event(kind) != nil || !mt.vms.has(v) || kind == preempt && evictable(v) != nil {
		return
	}
	event := &scheduledEvent{
		id: strings.ToUpper(mt.chance.uuid()), kind: kind, status: scheduled, source: "Platform",
		notBefore: time.Now().Add(mt.clock.scaled(notice)), lasts: -1, description: descriptionOf(kind),
	}
	if kind == freeze {
		event.lasts = int(frozen.Seconds())
	}
	v.events = append(v.events, event)
	v.incarnation++
	mt.log.Info("event announced", slog.String("vm", v.name), slog.String("kind", kind), slog.Time("notBefore", event.notBefore))
	mt.guests.preempt(v, event)
	mt.clock.afterScaled(notice, func() { mt.begins(v, event) })
}

func descriptionOf(kind string) string {
	switch kind {
	case preempt:
		return "This VM is being evicted: Azure needs the capacity back."
	case terminate:
		return "This VM is being deleted."
	case redeploy:
		return "This VM is moved to another host: its host is failing."
	case reboot:
		return "This VM is restarted for host maintenance."
	}
	return "This VM is paused for host maintenance."
}

// begins has an event happen, if it is still on. Callers hold the lock.
func (mt *maintenance) begins(v *vm, e *scheduledEvent) {
	if e.status != scheduled || !slices.Contains(v.events, e) || !mt.vms.has(v) {
		return
	}
	e.status = started
	v.incarnation++
	switch e.kind {
	case preempt:
		mt.evict(v)
	case terminate:
		mt.fabric.beginDelete(v, ErrDeleted)
	case freeze:
		mt.clock.afterScaled(frozen, func() { v.over(e) })
	case reboot, redeploy:
		mt.restart(v, e)
	}
}

// restart ends what runs on the VM and boots it again.
func (mt *maintenance) restart(v *vm, e *scheduledEvent) {
	mt.log.Info("VM restarts", slog.String("vm", v.name), slog.String("kind", e.kind))
	mt.fabric.restartAfter(v, restart, func() { v.over(e) })
}

// event is the VM's of a kind, or nil.
func (v *vm) event(kind string) *scheduledEvent {
	for _, e := range v.events {
		if e.kind == kind {
			return e
		}
	}
	return nil
}

// over takes an event off the VM's document.
func (v *vm) over(e *scheduledEvent) {
	v.events = slices.DeleteFunc(v.events, func(other *scheduledEvent) bool { return other == e })
	v.incarnation++
}

// scheduledEvents is the document of the VM, as the metadata service shows it.
func (v *vm) scheduledEvents() any {
	events := []any{}
	for _, e := range v.events {
		events = append(events, e.view(v.name))
	}
	return map[string]any{"DocumentIncarnation": 1 + v.incarnation, "Events": events}
}

func (e *scheduledEvent) view(vm string) any {
	notBefore := ""
	if e.status == scheduled {
		notBefore = e.notBefore.UTC().Format(http.TimeFormat)
	}
	return map[string]any{
		"EventId": e.id, "EventType": e.kind, "ResourceType": "VirtualMachine", "Resources": []string{vm},
		"EventStatus": e.status, "NotBefore": notBefore, "EventSource": e.source, "DurationInSeconds": e.lasts,
		"Description": e.description,
	}
}

// adminScheduledEvents is the document without the metadata service's manners.
func (mt *maintenance) adminScheduledEvents(r *request) (reply, error) {
	mt.clock.Lock()
	defer mt.clock.Unlock()
	v := mt.vms.named(r.params["vm"])
	if v == nil {
		return reply{}, notFound("ResourceNotFound", "There is no VM named %s.", r.params["vm"])
	}
	return ok(v.scheduledEvents())
}

// evictNamed announces to a spot VM, found by its name in any resource group,
// that it will be taken back, and takes it after notice (at TimeScale 1; zero
// means the usual 30 seconds, negative no notice at all).
func (mt *maintenance) evictNamed(name string, notice time.Duration) error {
	mt.clock.Lock()
	defer mt.clock.Unlock()
	v := mt.vms.named(name)
	if v == nil {
		return fmt.Errorf("evicting %s: there is no such VM", name)
	}
	if err := evictable(v); err != nil {
		return fmt.Errorf("evicting %s: %w", name, err)
	}
	mt.schedule(v, preempt, noticeOr(notice, preemptNotice))
	return nil
}

// evict takes the VM back, by deletion or deallocation as its policy says.
func (mt *maintenance) evict(v *vm) {
	if evictable(v) != nil {
		return
	}
	mt.log.Info("VM evicted", slog.String("vm", v.name), slog.String("size", v.size.Name))
	if strings.EqualFold(v.spec.Properties.EvictionPolicy, "Delete") {
		mt.fabric.beginDelete(v, ErrEvicted)
		return
	}
	mt.fabric.beginDeallocate(v, ErrEvicted)
}

func (mt *maintenance) simulateEviction(r *request) (reply, error) {
	mt.clock.Lock()
	defer mt.clock.Unlock()
	v, err := mt.vms.find(r)
	if err != nil {
		return reply{}, err
	}
	if err := evictable(v); err != nil {
		return reply{}, err
	}
	mt.clock.later(mt.eviction, func() { mt.schedule(v, preempt, preemptNotice) })
	return reply{status: http.StatusNoContent}, nil
}

func evictable(v *vm) error {
	if !v.spec.isSpot() {
		return conflict("OperationNotAllowed", "Simulating an eviction is possible only for Azure Spot virtual machines; '%s' is not one.", v.name)
	}
	if v.state == deleting || v.power == deallocated || v.power == deallocating {
		return conflict("OperationNotAllowed", "The virtual machine '%s' is stopped or being deleted and cannot be evicted.", v.name)
	}
	return nil
}
