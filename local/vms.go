// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
)

// VM is a VM that karve created, as Azure lists it.
type VM struct {
	Name string
	// ClaimUID is the NodeClaim that its tag names.
	ClaimUID string
	Size     string
	State    string // provisioningState
}

// tagClaimUID is the tag by which karve marks its VMs. VMs of the cluster's own system
// pool lack it.
const tagClaimUID = "karve.dev_claim-uid"

// VMs lists, through Azure's API, every VM that karve created.
func (e *Environment) VMs(ctx context.Context) ([]VM, error) {
	compute, _, err := e.azureClients()
	if err != nil {
		return nil, err
	}
	vms, err := all(ctx, compute.NewVirtualMachinesClient().NewListPager(e.azure.NodeResourceGroup(), nil),
		func(page armcompute.VirtualMachinesClientListResponse) []*armcompute.VirtualMachine {
			return page.Value
		})
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	var list []VM
	for _, vm := range vms {
		if uid := vm.Tags[tagClaimUID]; uid != nil {
			list = append(list, VM{
				Name: *vm.Name, ClaimUID: *uid,
				Size: string(*vm.Properties.HardwareProfile.VMSize), State: *vm.Properties.ProvisioningState,
			})
		}
	}
	return list, nil
}

// Orphans lists network interfaces and disks that belong to no VM.
func (e *Environment) Orphans(ctx context.Context) ([]string, error) {
	compute, network, err := e.azureClients()
	if err != nil {
		return nil, err
	}
	nics, err := all(ctx, network.NewInterfacesClient().NewListPager(e.azure.NodeResourceGroup(), nil),
		func(page armnetwork.InterfacesClientListResponse) []*armnetwork.Interface { return page.Value })
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	disks, err := all(ctx, compute.NewDisksClient().NewListByResourceGroupPager(e.azure.NodeResourceGroup(), nil),
		func(page armcompute.DisksClientListByResourceGroupResponse) []*armcompute.Disk { return page.Value })
	if err != nil {
		return nil, fmt.Errorf("listing disks: %w", err)
	}
	var orphans []string
	for _, nic := range nics {
		if nic.Properties.VirtualMachine == nil {
			orphans = append(orphans, "network interface "+*nic.Name)
		}
	}
	for _, disk := range disks {
		if disk.ManagedBy == nil || *disk.ManagedBy == "" {
			orphans = append(orphans, "disk "+*disk.Name)
		}
	}
	return orphans, nil
}

// all reads a list of Azure's to its end.
func all[R, T any](ctx context.Context, pager *runtime.Pager[R], items func(R) []T) ([]T, error) {
	var list []T
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, items(page)...)
	}
	return list, nil
}

func (e *Environment) azureClients() (*armcompute.ClientFactory, *armnetwork.ClientFactory, error) {
	credential, err := e.azure.Credential()
	if err != nil {
		return nil, nil, err
	}
	compute, err := armcompute.NewClientFactory(e.azure.SubscriptionID(), credential, e.azure.ClientOptions())
	if err != nil {
		return nil, nil, fmt.Errorf("making a compute client: %w", err)
	}
	network, err := armnetwork.NewClientFactory(e.azure.SubscriptionID(), credential, e.azure.ClientOptions())
	if err != nil {
		return nil, nil, fmt.Errorf("making a network client: %w", err)
	}
	return compute, network, nil
}

// CheckVMs waits, at most limit, until Azure has exactly one VM per
// NodeClaim, none without, and nothing left over; the error lists what differs.
// It also has the emulator check its own records.
func (e *Environment) CheckVMs(ctx context.Context, limit time.Duration) error {
	err := Until(ctx, limit, "Azure has exactly one VM per NodeClaim and nothing else", func(ctx context.Context) (bool, error) {
		err := e.compareVMs(ctx)
		return err == nil, err
	})
	return errors.Join(err, e.azure.CheckInvariants())
}

func (e *Environment) compareVMs(ctx context.Context) error {
	vms, err := e.VMs(ctx)
	if err != nil {
		return err
	}
	claims, err := e.Claims(ctx)
	if err != nil {
		return err
	}
	orphans, err := e.Orphans(ctx)
	if err != nil {
		return err
	}
	return differences(claims, vms, orphans)
}

// differences lists where Azure's VMs and the cluster's NodeClaims disagree.
func differences(claims []Claim, vms []VM, orphans []string) error {
	byUID := map[string][]string{}
	for _, m := range vms {
		byUID[m.ClaimUID] = append(byUID[m.ClaimUID], m.Name)
	}
	var errs []error
	for _, c := range claims {
		if names := byUID[c.UID]; len(names) != 1 {
			errs = append(errs, fmt.Errorf("NodeClaim %s has %d VMs: %s", c.Name, len(names), strings.Join(names, ", ")))
		}
		delete(byUID, c.UID)
	}
	for uid, names := range byUID {
		errs = append(errs, fmt.Errorf("no NodeClaim has UID %s, but these VMs name it: %s", uid, strings.Join(names, ", ")))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	for _, orphan := range orphans {
		errs = append(errs, fmt.Errorf("%s belongs to no VM", orphan))
	}
	return errors.Join(errs...)
}
