package azureemulator

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// scheduledEvent is what Azure announces to a machine before it does it.
type scheduledEvent struct {
	id, kind, status, source string
	notBefore                time.Time
	description              string
	lasts                    int // seconds; -1 when nobody knows
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

// frozen is how long a freeze lasts, and restart how long a machine is away when it starts
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

// Announce schedules an event of a kind (Freeze, Reboot, Redeploy, Terminate, or Preempt for a
// spot machine) for a machine, found by its name in any resource group, and has it happen
// after notice (at TimeScale 1; zero means Azure's least for the kind, negative none at
// all), or sooner when the machine acknowledges it.
func (s *Server) Announce(name, kind string, notice time.Duration) error {
	usual, known := leastNotice(kind)
	if !known {
		return fmt.Errorf("announcing %q to %s: there are Freeze, Reboot, Redeploy, Terminate and Preempt", kind, name)
	}
	if kind == preempt {
		return s.Evict(name, notice)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vmNamed(name)
	if v == nil || v.power != running {
		return fmt.Errorf("announcing %s to %s: no such machine is running", kind, name)
	}
	s.schedule(v, kind, noticeOr(notice, usual))
	return nil
}

// Withdraw takes back every event of a machine that has not started.
func (s *Server) Withdraw(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vmNamed(name)
	if v == nil {
		return fmt.Errorf("withdrawing the events of %s: there is no such virtual machine", name)
	}
	v.events = slices.DeleteFunc(v.events, func(e *scheduledEvent) bool { return e.status == scheduled })
	v.incarnation++
	return nil
}

// schedule shows an event and puts what it announces on the agenda. Scheduling the same
// kind twice changes nothing. Callers hold mu.
func (s *Server) schedule(v *vm, kind string, notice time.Duration) {
	if v.event(kind) != nil || s.vms[key(v.group, v.name)] != v || kind == preempt && evictable(v) != nil {
		return
	}
	event := &scheduledEvent{
		id: strings.ToUpper(s.chance.uuid()), kind: kind, status: scheduled, source: "Platform",
		notBefore: time.Now().Add(s.scaled(notice)), lasts: -1, description: descriptionOf(kind),
	}
	if kind == freeze {
		event.lasts = int(frozen.Seconds())
	}
	v.events = append(v.events, event)
	v.incarnation++
	s.log.Info("event announced", slog.String("vm", v.name), slog.String("kind", kind), slog.Time("notBefore", event.notBefore))
	s.tellGuest(v, event)
	s.afterScaled(notice, func() { s.begins(v, event) })
}

func (s *Server) tellGuest(v *vm, e *scheduledEvent) {
	listener, listens := s.options.Guest.(Preempter)
	if !listens || v.stopGuest == nil || e.kind != preempt {
		return
	}
	name, notice := v.name, Preemption{EventID: e.id, NotBefore: e.notBefore}
	s.guests.Go(func() { listener.Preempt(name, notice) })
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

// begins has an event happen, if it is still on. Callers hold mu.
func (s *Server) begins(v *vm, e *scheduledEvent) {
	if e.status != scheduled || !slices.Contains(v.events, e) || s.vms[key(v.group, v.name)] != v {
		return
	}
	e.status = started
	v.incarnation++
	switch e.kind {
	case preempt:
		s.evict(v)
	case terminate:
		s.beginDelete(v, ErrDeleted)
	case freeze:
		s.afterScaled(frozen, func() { v.over(e) })
	case reboot, redeploy:
		s.restart(v, e)
	}
}

// restart ends what runs on the machine and boots it again.
func (s *Server) restart(v *vm, e *scheduledEvent) {
	s.log.Info("virtual machine restarts", slog.String("vm", v.name), slog.String("kind", e.kind))
	s.restartAfter(v, restart, func() { v.over(e) })
}

// restartAfter has the machine's guest end and another begin, then after what has to be done.
func (s *Server) restartAfter(v *vm, d time.Duration, then func()) {
	v.endGuest(ErrRestarted)
	v.power = starting
	life := v.life
	s.afterScaled(d, func() {
		then()
		if v.life == life {
			s.boot(v)
		}
	})
}

// event is the machine's of a kind, or nil.
func (v *vm) event(kind string) *scheduledEvent {
	for _, e := range v.events {
		if e.kind == kind {
			return e
		}
	}
	return nil
}

// over takes an event off the machine's document.
func (v *vm) over(e *scheduledEvent) {
	v.events = slices.DeleteFunc(v.events, func(other *scheduledEvent) bool { return other == e })
	v.incarnation++
}

// scheduledEvents is the document of the machine, as the metadata service shows it.
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
func (s *Server) adminScheduledEvents(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vmNamed(r.params["vm"])
	if v == nil {
		return reply{}, notFound("ResourceNotFound", "There is no virtual machine named %s.", r.params["vm"])
	}
	return ok(v.scheduledEvents())
}

func (s *Server) adminAnnounce(r *request) (reply, error) {
	var e struct {
		Kind string `json:"kind"`
		// NoticeSeconds is at TimeScale 1: 0 means Azure's least, -1 none.
		NoticeSeconds float64 `json:"noticeSeconds"`
	}
	return decodeThen(r, &e, func() error {
		return s.Announce(r.params["vm"], e.Kind, time.Duration(e.NoticeSeconds*float64(time.Second)))
	})
}

func (s *Server) adminWithdraw(r *request) (reply, error) {
	if err := s.Withdraw(r.params["vm"]); err != nil {
		return reply{}, notFound("ResourceNotFound", "%v", err)
	}
	return done()
}
