// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
)

// aksMachine is a machine of an agent pool: what AKS keeps of a virtual machine that it
// makes and unmakes for its clients. The clock's lock guards it.
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

// aksMachines are the machines of all agent pools.
type aksMachines struct {
	byKey     map[string]*aksMachine // by pool and name, lower case
	pools     *agentPools
	compute   *compute
	fabric    *fabric
	galleries *galleries
	sizes     *sizes
	faults    *faults
	ops       *operations
	sub       *subscription
	clock     *clock
	chance    *chance
	latency   Distribution // from an accepted request to the VM's, and of removing one without a VM
	log       *slog.Logger
}

func (am *aksMachines) routes() []route {
	return []route{
		azure("POST", agentPoolIn+"/deletemachines", "AgentPools.DeleteMachines", callAKS, am.deleteMachines),
		azure("GET", agentPoolIn+"/machines", "Machines.List", callAKS, am.list),
		azure("GET", agentPoolIn+"/machines/{machine}", "Machines.Get", callAKS, am.get),
		azure("PUT", agentPoolIn+"/machines/{machine}", "Machines.CreateOrUpdate", callAKS, am.put),
	}
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

// machineOf finds the request's machine. Callers hold the lock.
func (am *aksMachines) machineOf(r *request) (*aksMachine, error) {
	p, err := am.pools.poolOf(r)
	if err != nil {
		return nil, err
	}
	if m := am.byKey[machineKey(p.name, r.params["machine"])]; m != nil {
		return m, nil
	}
	return nil, flat(notFound("NotFound", "Could not find the machine %s in agent pool %s.", r.params["machine"], p.name))
}

func (am *aksMachines) get(r *request) (reply, error) {
	am.clock.Lock()
	defer am.clock.Unlock()
	m, err := am.machineOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(m.view())
}

func (am *aksMachines) list(r *request) (reply, error) {
	am.clock.Lock()
	defer am.clock.Unlock()
	p, err := am.pools.poolOf(r)
	if err != nil {
		return reply{}, err
	}
	return listUnder(am.sub, r, machineKey(p.name, ""), am.byKey, func(m *aksMachine) (json.RawMessage, error) { return json.Marshal(m.view()) })
}

// drift has AKS say that a machine would be made anew, and why; an empty reason
// takes that back.
func (am *aksMachines) drift(name, reason string) error {
	am.clock.Lock()
	defer am.clock.Unlock()
	for _, m := range am.byKey {
		if strings.EqualFold(m.name, name) {
			m.drift = reason
			return nil
		}
	}
	return fmt.Errorf("there is no machine %q", name)
}

// forget has AKS lose a machine from its records. The VM stays.
func (am *aksMachines) forget(name string) error {
	am.clock.Lock()
	defer am.clock.Unlock()
	for k, m := range am.byKey {
		if strings.EqualFold(m.name, name) {
			delete(am.byKey, k)
			return nil
		}
	}
	return fmt.Errorf("there is no machine %q", name)
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

// states describes them in order of pool and name. Callers hold the lock.
func (am *aksMachines) states() []MachineState {
	return describeAll(am.byKey, func(m *aksMachine) MachineState {
		state := MachineState{Name: m.name, Pool: m.pool.name, Provisioning: m.state(), Tags: m.tags}
		if m.vm != nil {
			state.VM = m.vm.name
		}
		if e := m.error(); e != nil {
			state.Failure = e.Code
		}
		return state
	})
}
