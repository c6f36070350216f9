// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// A virtualMachine is an existing virtual machine, in Compute's types. Properties is never nil.
type virtualMachine struct {
	*armcompute.VirtualMachine
	// handle is its backend's name for it: its own name, or that of its AKS machine.
	handle string
	// inPool is set for a machine of karve's AKS pool, which AKS creates and deletes.
	inPool bool
	// aksMachine is AKS's description; nil for a virtual machine that AKS does not know.
	aksMachine *aksMachine
	// aksOnly means that AKS's is the only description, because the virtual machine does not
	// exist or has not been read.
	aksOnly bool
}

// Provisioning states of ARM.
const (
	stateCreating  = "Creating"
	stateSucceeded = "Succeeded"
	stateFailed    = "Failed"
	stateCanceled  = "Canceled"
	stateDeleting  = "Deleting"
)

// provisioningState returns ARM's state of the last operation on the virtual machine.
func (m *virtualMachine) provisioningState() string {
	return armtext.Of(m.Properties.ProvisioningState)
}

// state maps the provisioning state. After an operation that failed or was canceled, a virtual
// machine that has power is still running.
func state(vm *virtualMachine) provider.State {
	switch vm.provisioningState() {
	case stateDeleting:
		return provider.Terminating
	case stateCreating:
		return provider.Creating
	case stateFailed, stateCanceled:
		if power(vm) == "running" {
			return provider.Running
		}
		return provider.Failed
	}
	switch power(vm) {
	case "deallocated", "deallocating", "stopped", "stopping":
		return provider.Stopped
	}
	return provider.Running
}

// power returns the power state of a virtual machine that was read with its instance view; empty
// otherwise.
func power(vm *virtualMachine) string {
	for _, status := range statuses(vm) {
		if p, ok := strings.CutPrefix(armtext.Of(status.Code), "PowerState/"); ok {
			return p
		}
	}
	return ""
}

func statuses(vm *virtualMachine) []*armcompute.InstanceViewStatus {
	if vm.Properties.InstanceView == nil {
		return nil
	}
	var out []*armcompute.InstanceViewStatus
	for _, s := range vm.Properties.InstanceView.Statuses {
		if s != nil {
			out = append(out, s)
		}
	}
	return out
}

// failureInStatus returns why a virtual machine failed, from its own status.
func (m *virtualMachine) failureInStatus() armerr.Failure {
	if m.aksMachine != nil && m.aksMachine.failure.Kind != "" {
		return m.aksMachine.failure
	}
	for _, s := range statuses(m) {
		if code, ok := strings.CutPrefix(armtext.Of(s.Code), "ProvisioningState/failed/"); ok {
			return armerr.FromCode(code, armtext.Of(s.Message))
		}
	}
	return unexplained()
}

func unexplained() armerr.Failure {
	return armerr.Failure{Kind: armerr.OtherFailure, Code: "ProvisioningFailed", Detail: "Azure does not say why"}
}

// refOf returns the offering of a virtual machine, without its price.
func (r regionName) refOf(vm *virtualMachine) offering.Ref {
	c := offering.Ref{Zone: stock.RegionalZone, CapacityType: offering.OnDemand}
	if hw := vm.Properties.HardwareProfile; hw != nil && hw.VMSize != nil {
		c.Type = string(*hw.VMSize)
	}
	if zones := armtext.Sorted(vm.Zones); len(zones) > 0 {
		c.Zone = r.zoneLabel(zones[0])
	}
	if vm.Properties.Priority != nil && *vm.Properties.Priority == armcompute.VirtualMachinePriorityTypesSpot {
		c.CapacityType = offering.Spot
	}
	return c
}

func imageOf(vm *virtualMachine) string {
	storage := vm.Properties.StorageProfile
	if storage == nil || storage.ImageReference == nil {
		return ""
	}
	if id := armtext.Of(storage.ImageReference.CommunityGalleryImageID); id != "" {
		return id
	}
	return armtext.Of(storage.ImageReference.ID)
}
