package azureemulator

import (
	"log/slog"
	"strings"
)

// deleteMachines ends the machines named that exist. Its operation is over when all of
// them are gone.
func (s *Server) deleteMachines(r *request) (reply, error) {
	var body struct {
		Names []string `json:"machineNames"`
	}
	if err := r.decode(&body); err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.poolOf(r)
	if err != nil {
		return reply{}, err
	}
	var found []*aksMachine
	for _, name := range body.Names {
		if m := s.machines[machineKey(p.name, name)]; m != nil {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return reply{}, flat(badRequest("InvalidParameter", "Cannot find any valid machines to delete. Please check your input machine names: %s.", strings.Join(body.Names, ",")))
	}
	op, left := s.begin(aksSpace, aksPace), len(found)
	for _, m := range found {
		s.endMachine(m, func() {
			if left--; left == 0 {
				s.operations.finish(op, nil)
			}
		})
	}
	return s.accepted(op)
}

func (s *Server) endMachine(m *aksMachine, gone func()) {
	m.gone = append(m.gone, gone)
	if m.leaving {
		return
	}
	m.leaving = true
	s.operations.finish(m.at, preempted())
	switch {
	case m.vm == nil:
		s.later(s.options.Latency.Network, func() { s.removeMachine(m) })
	case m.vm.state != deleting:
		s.beginDelete(m.vm, ErrDeleted)
	}
}

func (s *Server) removeMachine(m *aksMachine) {
	k := machineKey(m.pool.name, m.name)
	if s.machines[k] != m {
		return
	}
	delete(s.machines, k)
	for _, gone := range m.gone {
		gone()
	}
	s.log.Info("machine gone", slog.String("machine", m.name), slog.String("pool", m.pool.name))
}

// bereave tells the machine of a virtual machine that is gone. One that was not to go
// remains, with nothing behind it.
func (s *Server) bereave(v *vm) {
	m := v.machine
	if m == nil {
		return
	}
	s.operations.finish(m.at, preempted())
	if m.vm, m.lost = nil, true; m.leaving {
		s.removeMachine(m)
	}
}
