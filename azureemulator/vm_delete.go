package azureemulator

import (
	"log/slog"
	"net/http"
	"strings"
)

// deleteVM removes a machine. forceDeletion changes nothing here: nothing ever
// waits for a guest.
func (s *Server) deleteVM(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	v := s.vms[key(g.name, r.params["vm"])]
	if v == nil {
		return reply{status: http.StatusNoContent}, nil
	}
	if v.state == deleting && v.at != nil && !v.stuck {
		return s.accepted(v.at)
	}
	return s.accepted(s.beginDelete(v, ErrDeleted))
}

// beginDelete takes the machine from its guest and removes it after a delay.
// What else was going on with it has been overtaken.
func (s *Server) beginDelete(v *vm, cause error) *operation {
	s.operations.finish(v.at, preempted())
	v.endGuest(cause)
	v.state = deleting
	op := s.begin("Microsoft.Compute", computePace)
	v.at = op
	if v.stuck = s.quirk(stuckDeleting); v.stuck {
		return op
	}
	s.later(s.options.Latency.Delete, func() {
		s.removeVM(v)
		s.operations.finish(op, nil)
	})
	return op
}

// removeVM ends the machine's existence and that of what goes with it.
func (s *Server) removeVM(v *vm) {
	if s.vms[key(v.group, v.name)] != v {
		return
	}
	delete(s.vms, key(v.group, v.name))
	if host := strings.ToLower(v.spec.Properties.OSProfile.ComputerName); s.hosts[host] == v {
		delete(s.hosts, host)
	}
	s.quota.giveBack(claims(v.size, v.spec.isSpot()))
	s.releaseNICs(v)
	s.releaseDisk(v)
	s.bereave(v)
	s.log.Info("virtual machine gone", slog.String("vm", v.name), slog.String("size", v.size.Name))
}

func (s *Server) releaseDisk(v *vm) {
	if v.osDisk == nil {
		return
	}
	v.osDisk.vm = ""
	if strings.EqualFold(v.spec.Properties.StorageProfile.OSDisk.DeleteOption, "Delete") {
		s.removeDisk(v.osDisk)
	}
}

// deallocateVM stops a machine. It keeps its quota, interfaces and disk.
func (s *Server) deallocateVM(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := find(s, r, s.vms, vmKind, "vm")
	if err != nil {
		return reply{}, err
	}
	if v.state == deleting {
		return reply{}, beingDeleted(v)
	}
	if v.power == deallocated {
		return reply{status: http.StatusOK}, nil
	}
	return s.accepted(s.beginDeallocate(v, ErrDeallocated))
}

func (s *Server) beginDeallocate(v *vm, cause error) *operation {
	s.operations.finish(v.at, preempted())
	v.endGuest(cause)
	v.state, v.power, v.events = updating, deallocating, nil
	v.incarnation++
	v.at = s.begin("Microsoft.Compute", computePace)
	op, life := v.at, v.life
	s.later(s.options.Latency.Power, func() {
		if v.life == life {
			s.endDeallocation(v, op)
		}
	})
	return op
}

func (s *Server) endDeallocation(v *vm, op *operation) {
	v.state, v.power, v.at = succeeded, deallocated, nil
	s.operations.finish(op, nil)
}

// startVM allocates a stopped machine again. Stock may have run out meanwhile.
func (s *Server) startVM(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := find(s, r, s.vms, vmKind, "vm")
	if err != nil {
		return reply{}, err
	}
	if v.state == deleting {
		return reply{}, beingDeleted(v)
	}
	if v.power != deallocated {
		return reply{status: http.StatusOK}, nil
	}
	refusal, late := s.shortage(v)
	if refusal != nil {
		return reply{}, refusal
	}
	v.life++
	v.state, v.power, v.at = updating, starting, s.begin("Microsoft.Compute", computePace)
	op, life := v.at, v.life
	s.later(s.options.Latency.Power, func() {
		if v.life == life {
			s.endStart(v, op, late)
		}
	})
	return s.accepted(op)
}

func (s *Server) endStart(v *vm, op *operation, failure *Error) {
	v.at = nil
	s.operations.finish(op, failure)
	if failure != nil {
		v.state, v.failure, v.power = failed, failure, deallocated
		return
	}
	v.state, v.failure = succeeded, nil
	s.bootLater(v)
}
