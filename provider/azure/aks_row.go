package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"
)

// said is what AKS says of a machine that Compute does not know.
type said struct {
	state   string // of AKS's own work
	tags    map[string]*string
	failure refusal // the zero refusal is none
	drift   string  // why AKS would make it anew; empty when it would not
	row     *aks.Machine
}

// isAKSRow tells AKS's machines from virtual machines.
func isAKSRow(row json.RawMessage) bool {
	var kind struct{ Type string }
	return json.Unmarshal(row, &kind) == nil && strings.EqualFold(kind.Type, "Microsoft.ContainerService/managedClusters/agentPools/machines")
}

func (a *byAKS) decode(row json.RawMessage) (*machine, error) {
	m, err := decodeRow[aks.Machine](a.p)(row)
	if err != nil {
		return nil, err
	}
	return a.understand(m)
}

// understand says in Compute's words what AKS says of a machine. It is bare: the virtual
// machine, where there is one, has more to tell.
func (a *byAKS) understand(m *aks.Machine) (*machine, error) {
	if text(m.Name) == "" || m.Properties == nil || m.Properties.Hardware == nil || text(m.Properties.Hardware.VMSize) == "" {
		return nil, errors.New("it lacks its name, its properties or its size")
	}
	x := m.Properties
	virtual, err := virtualOf(text(x.ResourceID))
	if err != nil {
		return nil, err
	}
	vm := &armcompute.VirtualMachine{
		Name: virtual, ID: x.ResourceID, Zones: m.Zones, Tags: x.Tags,
		Properties: &armcompute.VirtualMachineProperties{
			ProvisioningState: to.Ptr(text(x.ProvisioningState)),
			HardwareProfile:   &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(*x.Hardware.VMSize))},
			StorageProfile:    &armcompute.StorageProfile{ImageReference: &armcompute.ImageReference{ID: imageOfNode(text(x.NodeImageVersion))}},
		},
	}
	if x.Priority != nil && *x.Priority == aks.ScaleSetPrioritySpot {
		vm.Properties.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
	}
	out := &machine{VirtualMachine: vm, handle: strings.ToLower(text(m.Name)), maker: a, bare: true}
	out.said = &said{state: text(x.ProvisioningState), tags: x.Tags, row: m}
	if x.Status != nil {
		out.hear(x.Status)
	}
	return out, nil
}

// hear takes in the status that AKS gives a machine. One whose virtual machine is gone
// will not come back by itself, like one that was stopped.
func (m *machine) hear(s *aks.MachineStatus) {
	m.Properties.TimeCreated = s.CreationTimestamp
	if s.VMState != nil && *s.VMState == aks.VMStateDeleted {
		m.Properties.InstanceView = &armcompute.VirtualMachineInstanceView{Statuses: []*armcompute.InstanceViewStatus{{Code: to.Ptr("PowerState/deallocated")}}}
	}
	if s.DriftAction != nil && *s.DriftAction == aks.DriftActionRecreate {
		m.said.drift = "AKS would make the machine anew: " + text(s.DriftReason)
	}
	if e := s.ProvisioningError; e != nil {
		m.said.failure = provisioningFailure(e)
	}
}

// provisioningFailure prefers what Compute said, which AKS wraps.
func provisioningFailure(e *aks.ErrorDetail) refusal {
	for _, d := range e.Details {
		if d != nil && text(d.Code) != "" {
			return understand(text(d.Code), text(d.Message))
		}
	}
	return understand(text(e.Code), text(e.Message))
}

// virtualOf is the name in a virtual machine's id; nil for none.
func virtualOf(id string) (*string, error) {
	if id == "" {
		return nil, nil
	}
	parsed, err := arm.ParseResourceID(id)
	if err != nil {
		return nil, fmt.Errorf("its virtual machine: %w", err)
	}
	return &parsed.Name, nil
}

// join puts together what AKS and Compute say of one machine, in whichever order. While
// AKS makes or unmakes it, or has failed to, that counts.
func join(former, later *machine) *machine {
	virtual, told := former, later
	if virtual.bare || told.said == nil {
		virtual, told = later, former
	}
	if virtual.bare || told.said == nil {
		return later
	}
	vm, properties := *virtual.VirtualMachine, *virtual.Properties
	switch told.said.state {
	case stateCreating, stateFailed, stateDeleting:
		properties.ProvisioningState = to.Ptr(told.said.state)
	}
	vm.Properties = &properties
	vm.Tags = maps.Clone(virtual.Tags)
	for key, value := range told.said.tags {
		if tag(vm.Tags, key) == "" {
			if vm.Tags == nil {
				vm.Tags = map[string]*string{}
			}
			vm.Tags[key] = value
		}
	}
	return &machine{VirtualMachine: &vm, handle: told.handle, maker: told.maker, said: told.said}
}

// AKS calls an image AKSUbuntu-2204gen2containerd-202511.02.0: its gallery, definition
// and version.

// nodeImageOf is what AKS calls an image; empty for one that is none of its own.
func nodeImageOf(id string) string {
	name, version := imageNamed(id)
	parts := strings.Split(id, "/")
	if name == "" || len(parts) < 5 {
		return ""
	}
	gallery, _, _ := strings.Cut(parts[len(parts)-5], "-")
	return gallery + "-" + name + "-" + version
}

// imageOfNode is the id of an image by AKS's name for it, without the gallery's
// subscription, which AKS does not tell; nil when it is no such name.
func imageOfNode(name string) *string {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return nil
	}
	return to.Ptr("/galleries/" + parts[0] + "/images/" + parts[1] + "/versions/" + parts[2])
}
