package azureemulator

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

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
	s.later(s.options.Latency.Eviction, func() { s.schedule(v, preempt, preemptNotice) })
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
	s.schedule(v, preempt, noticeOr(notice, preemptNotice))
	return nil
}

// vmNamed is the machine of that name, in whatever group it is: mostly in that of the nodes,
// whose agents ask every second.
func (s *Server) vmNamed(name string) *vm {
	if v := s.vms[key(s.options.NodeResourceGroup, name)]; v != nil {
		return v
	}
	for _, v := range s.vms {
		if strings.EqualFold(v.name, name) {
			return v
		}
	}
	return nil
}

// evict takes the machine back, by deletion or deallocation as its policy says.
func (s *Server) evict(v *vm) {
	if evictable(v) != nil {
		return
	}
	s.log.Info("virtual machine evicted", slog.String("vm", v.name), slog.String("size", v.size.Name))
	if strings.EqualFold(v.spec.Properties.EvictionPolicy, "Delete") {
		s.beginDelete(v, ErrEvicted)
		return
	}
	s.beginDeallocate(v, ErrEvicted)
}
