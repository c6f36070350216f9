// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"log/slog"
	"strings"
)

// deleteMachines ends the machines named that exist. Its operation is over when all of
// them are gone.
func (am *aksMachines) deleteMachines(r *request) (reply, error) {
	var body struct {
		Names []string `json:"machineNames"`
	}
	if err := r.decode(&body); err != nil {
		return reply{}, err
	}
	am.clock.Lock()
	defer am.clock.Unlock()
	p, err := am.pools.poolOf(r)
	if err != nil {
		return reply{}, err
	}
	var found []*aksMachine
	for _, name := range body.Names {
		if m := am.byKey[machineKey(p.name, name)]; m != nil {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return reply{}, flat(badRequest("InvalidParameter", "Cannot find any valid machines to delete. Please check your input machine names: %s.", strings.Join(body.Names, ",")))
	}
	op, left := am.ops.begin(aksSpace, aksPace), len(found)
	for _, m := range found {
		am.end(m, func() {
			if left--; left == 0 {
				am.ops.finish(op, nil)
			}
		})
	}
	return am.ops.accepted(op)
}

func (am *aksMachines) end(m *aksMachine, gone func()) {
	m.gone = append(m.gone, gone)
	if m.leaving {
		return
	}
	m.leaving = true
	am.ops.finish(m.at, preempted())
	switch {
	case m.vm == nil:
		am.clock.later(am.latency, func() { am.remove(m) })
	case m.vm.state != deleting:
		am.fabric.beginDelete(m.vm, ErrDeleted)
	}
}

func (am *aksMachines) remove(m *aksMachine) {
	k := machineKey(m.pool.name, m.name)
	if am.byKey[k] != m {
		return
	}
	delete(am.byKey, k)
	for _, gone := range m.gone {
		gone()
	}
	am.log.Info("machine gone", slog.String("machine", m.name), slog.String("pool", m.pool.name))
}

// vmGone detaches the machine from a VM that does not exist any more. A machine that is not being
// deleted remains, without a VM.
func (am *aksMachines) vmGone(v *vm) {
	m := v.machine
	if m == nil {
		return
	}
	am.ops.finish(m.at, preempted())
	if m.vm, m.lost = nil, true; m.leaving {
		am.remove(m)
	}
}
