package emulator

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// scheduledEvent is the notice a machine gets of its eviction.
type scheduledEvent struct {
	id          string
	incarnation int
	status      string // Scheduled, then Started
	notBefore   time.Time
}

func (s *Server) simulateEviction(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := find(s, r, s.vms, vmKind, "vm")
	if err != nil {
		return reply{}, err
	}
	if err := evictable(v); err != nil {
		return reply{}, err
	}
	s.later(s.options.Latency.Eviction, func() { s.announceEviction(v, preemptNotice) })
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

// Evict announces to a spot machine, found by its name in any resource group,
// that it will be taken back, and takes it after notice (at TimeScale 1; zero
// means the usual 30 seconds, negative no notice at all).
func (s *Server) Evict(name string, notice time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vmNamed(name)
	if v == nil {
		return fmt.Errorf("evicting %s: there is no such virtual machine", name)
	}
	if err := evictable(v); err != nil {
		return fmt.Errorf("evicting %s: %w", name, err)
	}
	if notice == 0 {
		notice = preemptNotice
	}
	s.announceEviction(v, max(notice, 0))
	return nil
}

func (s *Server) vmNamed(name string) *vm {
	for _, v := range s.vms {
		if strings.EqualFold(v.name, name) {
			return v
		}
	}
	return nil
}

// announceEviction shows the notice and puts the eviction on the agenda.
// Announcing it twice changes nothing. Callers hold mu.
func (s *Server) announceEviction(v *vm, notice time.Duration) {
	if v.preempt != nil || evictable(v) != nil || s.vms[key(v.group, v.name)] != v {
		return
	}
	event := &scheduledEvent{id: strings.ToUpper(s.chance.uuid()), incarnation: 2, status: "Scheduled", notBefore: time.Now().Add(s.scaled(notice))}
	v.preempt = event
	s.log.Info("eviction announced", slog.String("vm", v.name), slog.Time("notBefore", event.notBefore))
	if listener, listens := s.options.Guest.(Preempter); listens && v.stopGuest != nil {
		name, notice := v.name, Preemption{EventID: event.id, NotBefore: event.notBefore}
		s.guests.Go(func() { listener.Preempt(name, notice) })
	}
	s.afterScaled(notice, func() {
		if v.preempt == event {
			s.evict(v)
		}
	})
}

// evict takes the machine back, by deletion or deallocation as its policy says.
func (s *Server) evict(v *vm) {
	if evictable(v) != nil || s.vms[key(v.group, v.name)] != v {
		return
	}
	v.preempt.status = "Started"
	v.preempt.incarnation++
	s.log.Info("virtual machine evicted", slog.String("vm", v.name), slog.String("size", v.size.Name))
	if strings.EqualFold(v.spec.Properties.EvictionPolicy, "Delete") {
		s.beginDelete(v, ErrEvicted)
		return
	}
	s.beginDeallocate(v, ErrEvicted)
}

// adminScheduledEvents is the metadata service's document for one machine.
func (s *Server) adminScheduledEvents(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vmNamed(r.params["vm"])
	if v == nil {
		return reply{}, notFound("ResourceNotFound", "There is no virtual machine named %s.", r.params["vm"])
	}
	if v.preempt == nil {
		return ok(map[string]any{"DocumentIncarnation": 1, "Events": []any{}})
	}
	return ok(map[string]any{"DocumentIncarnation": v.preempt.incarnation, "Events": []any{v.preempt.view(v.name)}})
}

func (e *scheduledEvent) view(vm string) any {
	notBefore := ""
	if e.status == "Scheduled" {
		notBefore = e.notBefore.UTC().Format(http.TimeFormat)
	}
	return map[string]any{
		"EventId": e.id, "EventType": "Preempt", "ResourceType": "VirtualMachine", "Resources": []string{vm},
		"EventStatus": e.status, "NotBefore": notBefore, "EventSource": "Platform", "DurationInSeconds": -1,
		"Description": "This VM is being evicted: Azure needs the capacity back.",
	}
}
