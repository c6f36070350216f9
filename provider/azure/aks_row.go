// SPDX-License-Identifier: Apache-2.0

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

	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/image"
)

// An aksMachine is what AKS knows of a machine and Compute does not.
type aksMachine struct {
	state   string // provisioning state in AKS
	tags    map[string]*string
	failure armerr.Failure // zero for none
	drift   string         // why AKS would recreate the machine; empty when it would not
	row     *aks.Machine
}

// isAKSRow distinguishes AKS machines from virtual machines.
func isAKSRow(row json.RawMessage) bool {
	var kind struct{ Type string }
	return json.Unmarshal(row, &kind) == nil && strings.EqualFold(kind.Type, "Microsoft.ContainerService/managedClusters/agentPools/machines")
}

func (a *aksPool) decode(row json.RawMessage) (*virtualMachine, error) {
	m, err := armlist.Decode[aks.Machine](a.conn.decoder, row)
	if err != nil {
		return nil, err
	}
	return vmOfAKSMachine(m)
}

// vmOfAKSMachine converts AKS's description of a machine to Compute's types. The virtual machine,
// if there is one, has more information.
func vmOfAKSMachine(m *aks.Machine) (*virtualMachine, error) {
	if armtext.Of(m.Name) == "" || m.Properties == nil || m.Properties.Hardware == nil || armtext.Of(m.Properties.Hardware.VMSize) == "" {
		return nil, errors.New("it lacks its name, its properties or its size")
	}
	x := m.Properties
	name, err := vmNameIn(armtext.Of(x.ResourceID))
	if err != nil {
		return nil, err
	}
	vm := &armcompute.VirtualMachine{
		Name: name, ID: x.ResourceID, Zones: m.Zones, Tags: x.Tags,
		Properties: &armcompute.VirtualMachineProperties{
			ProvisioningState: to.Ptr(armtext.Of(x.ProvisioningState)),
			HardwareProfile:   &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(*x.Hardware.VMSize))},
			StorageProfile:    &armcompute.StorageProfile{ImageReference: &armcompute.ImageReference{ID: imageIDOf(armtext.Of(x.NodeImageVersion))}},
		},
	}
	if x.Priority != nil && *x.Priority == aks.ScaleSetPrioritySpot {
		vm.Properties.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
	}
	out := &virtualMachine{VirtualMachine: vm, handle: strings.ToLower(armtext.Of(m.Name)), inPool: true, aksOnly: true}
	out.aksMachine = &aksMachine{state: armtext.Of(x.ProvisioningState), tags: x.Tags, row: m}
	if x.Status != nil {
		out.setStatus(x.Status)
	}
	return out, nil
}

// setStatus applies the status that AKS reports for a machine. A machine whose virtual machine was
// deleted counts as deallocated: neither restarts by itself.
func (m *virtualMachine) setStatus(s *aks.MachineStatus) {
	m.Properties.TimeCreated = s.CreationTimestamp
	if s.VMState != nil && *s.VMState == aks.VMStateDeleted {
		m.Properties.InstanceView = &armcompute.VirtualMachineInstanceView{Statuses: []*armcompute.InstanceViewStatus{{Code: to.Ptr("PowerState/deallocated")}}}
	}
	if s.DriftAction != nil && *s.DriftAction == aks.DriftActionRecreate {
		m.aksMachine.drift = "AKS would create the machine anew: " + armtext.Of(s.DriftReason)
	}
	if e := s.ProvisioningError; e != nil {
		m.aksMachine.failure = provisioningFailure(e)
	}
}

// provisioningFailure prefers Compute's error, which AKS wraps.
func provisioningFailure(e *aks.ErrorDetail) armerr.Failure {
	for _, d := range e.Details {
		if d != nil && armtext.Of(d.Code) != "" {
			return armerr.FromCode(armtext.Of(d.Code), armtext.Of(d.Message))
		}
	}
	return armerr.FromCode(armtext.Of(e.Code), armtext.Of(e.Message))
}

// vmNameIn returns the name in a virtual machine's resource ID; nil for an empty ID.
func vmNameIn(id string) (*string, error) {
	if id == "" {
		return nil, nil
	}
	parsed, err := arm.ParseResourceID(id)
	if err != nil {
		return nil, fmt.Errorf("its virtual machine: %w", err)
	}
	return &parsed.Name, nil
}

// mergeDescriptions merges the descriptions of one machine from AKS and Compute, in either order.
// While AKS creates or deletes it, or has failed to, AKS's provisioning state takes precedence.
func mergeDescriptions(former, later *virtualMachine) *virtualMachine {
	inCompute, inAKS := former, later
	if inCompute.aksOnly || inAKS.aksMachine == nil {
		inCompute, inAKS = later, former
	}
	if inCompute.aksOnly || inAKS.aksMachine == nil {
		return later
	}
	vm, properties := *inCompute.VirtualMachine, *inCompute.Properties
	switch inAKS.aksMachine.state {
	case stateCreating, stateFailed, stateCanceled, stateDeleting:
		properties.ProvisioningState = to.Ptr(inAKS.aksMachine.state)
	}
	vm.Properties = &properties
	vm.Tags = maps.Clone(inCompute.Tags)
	for key, value := range inAKS.aksMachine.tags {
		if tag(vm.Tags, key) == "" {
			if vm.Tags == nil {
				vm.Tags = map[string]*string{}
			}
			vm.Tags[key] = value
		}
	}
	return &virtualMachine{VirtualMachine: &vm, handle: inAKS.handle, inPool: true, aksMachine: inAKS.aksMachine}
}

// AKS calls an image AKSUbuntu-2204gen2containerd-202511.02.0: its gallery, definition and
// version.

// aksImageName returns AKS's name for an image; empty for one that is not AKS's.
func aksImageName(id string) string {
	name, version := image.Parts(id)
	parts := strings.Split(id, "/")
	if name == "" || len(parts) < 5 {
		return ""
	}
	gallery, _, _ := strings.Cut(parts[len(parts)-5], "-")
	return gallery + "-" + name + "-" + version
}

// imageIDOf returns the ID of an image by AKS's name for it, without the gallery's
// subscription, which AKS does not report; nil when the name has another form.
func imageIDOf(name string) *string {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return nil
	}
	return to.Ptr("/galleries/" + parts[0] + "/images/" + parts[1] + "/versions/" + parts[2])
}
