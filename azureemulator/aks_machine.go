package azureemulator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// aksMachine is a machine of an agent pool: what AKS keeps of a virtual machine that it
// makes and unmakes for its clients. The server's mutex guards it.
type aksMachine struct {
	common
	pool     *agentPool
	zones    []string
	document map[string]any // properties as asked for
	node     *NodeProfile   // what they say of the node
	// vm is nil until AKS has asked for one, and once it is gone; vmID is its id ever after.
	vm   *vm
	vmID string
	// failure is why there never was one.
	failure *Error
	// lost: the virtual machine went without being asked.
	lost bool
	// leaving: clients want it gone. gone is called when it is.
	leaving bool
	gone    []func()
	// drift says why AKS would make it anew; empty when it would not.
	drift string
	at    *operation
}

// machineSpec is what the emulator acts on of a machine's properties.
type machineSpec struct {
	Hardware struct {
		VMSize string `json:"vmSize"`
	} `json:"hardware"`
	OperatingSystem struct {
		OSDiskSizeGB int    `json:"osDiskSizeGB"`
		OSDiskType   string `json:"osDiskType"`
		OSSKU        string `json:"osSKU"`
	} `json:"operatingSystem"`
	Kubernetes struct {
		OrchestratorVersion string `json:"orchestratorVersion"`
	} `json:"kubernetes"`
	Network struct {
		VnetSubnetID string `json:"vnetSubnetID"`
	} `json:"network"`
	Billing struct {
		SpotMaxPrice *float64 `json:"spotMaxPrice"`
	} `json:"billing"`
	Priority         string            `json:"priority"`
	EvictionPolicy   string            `json:"evictionPolicy"`
	NodeImageVersion string            `json:"nodeImageVersion"`
	Tags             map[string]string `json:"tags"`

	node *NodeProfile
}

// readMachineSpec reads properties.
func readMachineSpec(properties map[string]any) (machineSpec, error) {
	var spec machineSpec
	raw, err := json.Marshal(properties)
	if err == nil {
		err = json.Unmarshal(raw, &spec)
	}
	if err != nil {
		return spec, invalidContent(err)
	}
	spec.node, err = readNodeProfile(properties)
	return spec, err
}

// state is its provisioningState.
func (m *aksMachine) state() string {
	switch {
	case m.leaving:
		return deleting
	case m.failure != nil:
		return failed
	case m.lost:
		return succeeded
	case m.vm == nil:
		return creating
	case m.vm.state == deleting:
		return succeeded // it is taken away, which AKS does not know yet
	}
	return m.vm.state
}

// error is why it failed; nil when it did not.
func (m *aksMachine) error() *Error {
	if m.failure == nil && m.vm != nil && m.vm.state == failed {
		return m.vm.failure
	}
	return m.failure
}

// view is the machine as a GET shows it.
func (m *aksMachine) view() any {
	properties := maps.Clone(m.document)
	properties["provisioningState"], properties["eTag"], properties["tags"] = m.state(), m.etag, m.tags
	properties["status"] = m.status()
	if m.vmID != "" {
		properties["resourceId"] = m.vmID
	}
	if m.vm != nil {
		kubernetes := maps.Clone(object(m.document["kubernetes"]))
		kubernetes["currentOrchestratorVersion"] = kubernetes["orchestratorVersion"]
		kubernetes["nodeName"] = m.vm.spec.Properties.OSProfile.ComputerName
		properties["kubernetes"] = kubernetes
	}
	view := map[string]any{"id": m.id, "name": m.name, "type": machineKind, "properties": properties}
	if len(m.zones) > 0 {
		view["zones"] = m.zones
	}
	return view
}

func (m *aksMachine) status() map[string]any {
	status := map[string]any{"creationTimestamp": stamp(m.created), "driftAction": "Synced"}
	if m.drift != "" {
		status["driftAction"], status["driftReason"] = "Recreate", m.drift
	}
	switch {
	case m.lost:
		status["vmState"] = "Deleted"
	case m.vm != nil && m.vm.power == running:
		status["vmState"] = "Running"
	}
	if e := m.error(); e != nil {
		status["provisioningError"] = provisioningError(e)
	}
	return status
}

// provisioningError wraps what Compute said as AKS does: its own word outside, Compute's
// code and words within.
func provisioningError(e *Error) any {
	code := e.Code
	if code == "OperationNotAllowed" && strings.Contains(e.Message, "quota") {
		code = "QuotaExceeded"
	}
	return map[string]any{
		"code": code, "message": fmt.Sprintf("Code=%q Message=%q", e.Code, e.Message),
		"details": []ErrorDetail{{Code: e.Code, Message: e.Message}},
	}
}

func machineKey(pool, name string) string { return strings.ToLower(pool) + "/" + strings.ToLower(name) }

// machineOf finds the request's machine. Callers hold mu.
func (s *Server) machineOf(r *request) (*aksMachine, error) {
	p, err := s.poolOf(r)
	if err != nil {
		return nil, err
	}
	if m := s.machines[machineKey(p.name, r.params["machine"])]; m != nil {
		return m, nil
	}
	return nil, flat(notFound("NotFound", "Could not find the machine %s in agent pool %s.", r.params["machine"], p.name))
}

func (s *Server) getMachine(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.machineOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(m.view())
}

func (s *Server) listMachines(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.poolOf(r)
	if err != nil {
		return reply{}, err
	}
	return listUnder(s, r, machineKey(p.name, ""), s.machines, func(m *aksMachine) (json.RawMessage, error) { return json.Marshal(m.view()) })
}

// DriftMachine has AKS say that a machine would be made anew, and why; an empty reason
// takes that back.
func (s *Server) DriftMachine(name, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		if strings.EqualFold(m.name, name) {
			m.drift = reason
			return nil
		}
	}
	return fmt.Errorf("there is no machine %q", name)
}

// ForgetMachine has AKS lose a machine from its books. The virtual machine stays.
func (s *Server) ForgetMachine(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, m := range s.machines {
		if strings.EqualFold(m.name, name) {
			delete(s.machines, k)
			return nil
		}
	}
	return fmt.Errorf("there is no machine %q", name)
}

func (s *Server) adminDriftMachine(r *request) (reply, error) {
	var d struct {
		Reason string `json:"reason"`
	}
	return decodeThen(r, &d, func() error { return s.DriftMachine(r.params["machine"], d.Reason) })
}

// MachineState is a machine of an agent pool in a State.
type MachineState struct {
	Name         string            `json:"name"`
	Pool         string            `json:"pool"`
	VM           string            `json:"vm,omitempty"` // of the virtual machine behind it
	Provisioning string            `json:"provisioningState"`
	Failure      string            `json:"failure,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
}

// machineStates describes them in order of pool and name. Callers hold mu.
func (s *Server) machineStates() []MachineState {
	states := []MachineState{}
	for _, k := range slices.Sorted(maps.Keys(s.machines)) {
		m := s.machines[k]
		state := MachineState{Name: m.name, Pool: m.pool.name, Provisioning: m.state(), Tags: m.tags}
		if m.vm != nil {
			state.VM = m.vm.name
		}
		if e := m.error(); e != nil {
			state.Failure = e.Code
		}
		states = append(states, state)
	}
	return states
}
