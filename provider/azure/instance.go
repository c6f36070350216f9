// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// Get reads one virtual machine, with its power state. One that exists without this cluster's
// tags is an error other than ErrNotFound.
func (p *Provider) Get(ctx context.Context, id string) (provider.Instance, error) {
	name, err := p.ids.vmOf(id)
	if err != nil {
		return provider.Instance{}, err
	}
	k, handle := p.backendOf(name)
	vm, err := k.read(ctx, handle)
	if err != nil {
		return provider.Instance{}, err
	}
	if !p.owner.ours(vm) {
		// Not ErrNotFound: the virtual machine exists, and the caller would give up its claim.
		return provider.Instance{}, fmt.Errorf("VM %s exists and does not carry the tags of cluster %s: restore them (%s, %s), or delete its NodeClaim and the VM", name, p.opts.ClusterName, tagCluster, tagClaimUID)
	}
	return p.instance(ctx, vm), nil
}

// List returns every virtual machine of this cluster. The list has no power state, so a
// deallocated one looks running here; Get reads the power state.
func (p *Provider) List(ctx context.Context) ([]provider.Instance, error) {
	v, err := p.machines.Since(ctx, p.opts.Now())
	if err != nil {
		return nil, err
	}
	instances := make([]provider.Instance, 0, len(v.ByName))
	for _, name := range slices.Sorted(maps.Keys(v.ByName)) {
		if vm := v.ByName[name]; p.owner.ours(vm) {
			instances = append(instances, p.instance(ctx, vm))
		}
	}
	return instances, nil
}

// instance converts a virtual machine to a provider.Instance. Fields that depend on the node
// class (capacity, labels) are empty when the class or the size does not exist any more.
func (p *Provider) instance(ctx context.Context, vm *machine) provider.Instance {
	name := strings.ToLower(cmp.Or(armtext.Of(vm.Name), p.nameToBe(vm)))
	choice := p.choiceOf(vm)
	in := provider.Instance{
		ProviderID:   p.ids.of(name),
		Name:         name,
		NodeName:     name,
		ClaimName:    claimOf(vm),
		ClaimUID:     tag(vm.Tags, tagClaimUID),
		Pool:         tag(vm.Tags, tagNodePool),
		State:        state(vm),
		Type:         choice.Type,
		Zone:         choice.Zone,
		CapacityType: choice.CapacityType,
		ImageID:      imageOf(vm),
		Annotations:  annotations(vm),
	}
	if vm.Properties.TimeCreated != nil {
		in.Created = *vm.Properties.TimeCreated
	}
	p.describe(ctx, &in, tag(vm.Tags, tagClass))
	return in
}

// describe adds the fields that depend on the node class, if they are known without a request to
// Azure.
func (p *Provider) describe(ctx context.Context, in *provider.Instance, className string) {
	if className == "" || p.catalogs.present().skus.Version == 0 {
		return
	}
	class, err := p.class(ctx, className)
	if err != nil {
		return
	}
	p.catalogs.typesOf(className, class, p.catalogs.present()).describe(in)
}

// A description is what a node class determines for the nodes of one offering.
type description struct {
	capacity, allocatable quantity.Amounts
	labels                map[string]string
	price                 offering.Price
}

// describe adds capacity, price and labels of the offering, if the node class has its type. The
// maps are shared between instances, since there may be thousands.
func (s *typeSet) describe(in *provider.Instance) {
	m := s.byName[in.Type]
	if m == nil {
		return
	}
	of := offering.Ref{Type: in.Type, Zone: in.Zone, CapacityType: in.CapacityType}
	known, ok := s.described.Load(of)
	if !ok {
		known, _ = s.described.LoadOrStore(of, m.description(of))
	}
	d := known.(*description)
	in.Capacity, in.Allocatable, in.Labels, in.Price = d.capacity, d.allocatable, d.labels, d.price
}

func (m *machineType) description(of offering.Ref) *description {
	d := &description{capacity: m.offered.Capacity, allocatable: m.allocatable(), labels: map[string]string{}}
	single(d.labels, m.offered.Labels)
	if o := m.offer(of); o != nil {
		d.price = o.Price
		single(d.labels, o.Labels)
	}
	return d
}

// single copies the labels that have one possible value.
func single(into map[string]string, labels map[string][]string) {
	for key, values := range labels {
		if len(values) == 1 {
			into[key] = values[0]
		}
	}
}

// allocatable returns what pods can use.
func (m *machineType) allocatable() quantity.Amounts {
	return m.offered.Capacity.Sub(m.offered.Overhead)
}

// choiceOf returns the offering of a virtual machine.
func (p *Provider) choiceOf(vm *machine) offering.Ref {
	c := offering.Ref{Zone: stock.RegionalZone, CapacityType: offering.OnDemand}
	if hw := vm.Properties.HardwareProfile; hw != nil && hw.VMSize != nil {
		c.Type = string(*hw.VMSize)
	}
	if zones := armtext.Sorted(vm.Zones); len(zones) > 0 {
		c.Zone = p.zones.label(zones[0])
	}
	if vm.Properties.Priority != nil && *vm.Properties.Priority == armcompute.VirtualMachinePriorityTypesSpot {
		c.CapacityType = offering.Spot
	}
	return c
}

func imageOf(vm *machine) string {
	storage := vm.Properties.StorageProfile
	if storage == nil || storage.ImageReference == nil {
		return ""
	}
	if id := armtext.Of(storage.ImageReference.CommunityGalleryImageID); id != "" {
		return id
	}
	return armtext.Of(storage.ImageReference.ID)
}

// Provisioning states of ARM.
const (
	stateCreating  = "Creating"
	stateSucceeded = "Succeeded"
	stateFailed    = "Failed"
	stateDeleting  = "Deleting"
)

// state maps the provisioning state. After a failed operation, a virtual machine that has power
// is still running.
func state(vm *machine) provider.State {
	switch armtext.Of(vm.Properties.ProvisioningState) {
	case stateDeleting:
		return provider.Terminating
	case stateCreating:
		return provider.Creating
	case stateFailed:
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
func power(vm *machine) string {
	for _, status := range statuses(vm) {
		if p, ok := strings.CutPrefix(armtext.Of(status.Code), "PowerState/"); ok {
			return p
		}
	}
	return ""
}

func statuses(vm *machine) []*armcompute.InstanceViewStatus {
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

// drawsOf returns the quota use of a virtual machine, as far as its size is known. Its use of
// subnet addresses depends on its node class.
func (p *Provider) drawsOf(ctx context.Context, vm *machine) []offering.QuotaUse {
	choice := p.choiceOf(vm)
	s := p.catalogs.sizes()[choice.Type]
	if s == nil {
		return nil
	}
	draws := quota.Uses(s, choice.CapacityType)
	if class, err := p.class(ctx, tag(vm.Tags, tagClass)); err == nil {
		if d, ok := p.types.addressUse(p.types.shape(class)); ok {
			draws = append(draws, d)
		}
	}
	return draws
}
