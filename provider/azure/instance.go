// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
)

// An instanceReader reads virtual machines and describes them as instances.
type instanceReader struct {
	ids      providerIDs
	region   regionName
	owner    ownership
	pool     *aksPool
	backends *backends
	vms      *vmList
	classes  classReader
	catalogs *catalogCache
	skus     *skuList
	now      func() time.Time
}

// get reads one virtual machine, with its power state. One that exists without this cluster's
// tags is an error other than ErrNotFound.
func (r *instanceReader) get(ctx context.Context, id string) (provider.Instance, error) {
	name, err := r.ids.vmOf(id)
	if err != nil {
		return provider.Instance{}, err
	}
	b, handle := r.backends.byVMName(name)
	vm, err := b.read(ctx, handle)
	if err != nil {
		return provider.Instance{}, err
	}
	if !r.owner.ours(vm) {
		// Not ErrNotFound: the virtual machine exists, and the caller would give up its claim.
		return provider.Instance{}, fmt.Errorf("VM %s exists and does not carry the tags of cluster %s: restore them (%s, %s, %s), or delete its NodeClaim and the VM",
			name, r.owner.cluster, tagCluster, tagClusterUID, tagClaimUID)
	}
	return r.instance(ctx, vm), nil
}

// list returns every virtual machine of this cluster. The list has no power state, so a
// deallocated one looks running here; get reads the power state.
func (r *instanceReader) list(ctx context.Context) ([]provider.Instance, error) {
	v, err := r.vms.NotOlderThan(ctx, r.now())
	if err != nil {
		return nil, err
	}
	instances := make([]provider.Instance, 0, len(v.ByName))
	for _, handle := range slices.Sorted(maps.Keys(v.ByName)) {
		if vm := v.ByName[handle]; r.owner.ours(vm) {
			instances = append(instances, r.instance(ctx, vm))
		}
	}
	return instances, nil
}

// instance converts a virtual machine to a provider.Instance. Fields that depend on the node
// class (capacity, labels) are empty when the class or the instance type does not exist any more.
func (r *instanceReader) instance(ctx context.Context, vm *virtualMachine) provider.Instance {
	name := strings.ToLower(cmp.Or(armtext.Of(vm.Name), r.placeholderName(vm)))
	ref := r.region.refOf(vm)
	in := provider.Instance{
		ProviderID:   r.ids.ofVM(name),
		Name:         name,
		NodeName:     name,
		ClaimName:    claimOf(vm),
		ClaimUID:     tag(vm.Tags, tagClaimUID),
		Pool:         tag(vm.Tags, tagNodePool),
		State:        state(vm),
		Type:         ref.Type,
		Zone:         ref.Zone,
		CapacityType: ref.CapacityType,
		ImageID:      imageOf(vm),
		Annotations:  annotations(vm),
	}
	if vm.Properties.TimeCreated != nil {
		in.Created = *vm.Properties.TimeCreated
	}
	r.describe(ctx, &in, tag(vm.Tags, tagClass))
	return in
}

// placeholderName returns a stand-in for the name of a virtual machine that does not exist yet.
func (r *instanceReader) placeholderName(vm *virtualMachine) string {
	if vm.inPool {
		return r.pool.placeholderVMName(vm.handle)
	}
	return vm.handle
}

// describe adds the fields that depend on the node class, if they are known without a request to
// Azure.
func (r *instanceReader) describe(ctx context.Context, in *provider.Instance, className string) {
	if className == "" || r.catalogs.lastRead().skus.Version == 0 {
		return
	}
	class, err := r.classes.read(ctx, className)
	if err != nil {
		return
	}
	r.catalogs.typesOf(className, class, r.catalogs.lastRead()).describe(in)
}

// quotaUses returns the quota use of a virtual machine, as far as its SKU is known. Its use of
// subnet addresses depends on its node class.
func (r *instanceReader) quotaUses(ctx context.Context, vm *virtualMachine) []offering.QuotaUse {
	ref := r.region.refOf(vm)
	s := r.skus.byName()[ref.Type]
	if s == nil {
		return nil
	}
	uses := quota.Uses(s, ref.CapacityType)
	if class, err := r.classes.read(ctx, tag(vm.Tags, tagClass)); err == nil {
		if use, ok := r.catalogs.addressUse(class); ok {
			uses = append(uses, use)
		}
	}
	return uses
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
	t := s.byName[in.Type]
	if t == nil {
		return
	}
	of := offering.Ref{Type: in.Type, Zone: in.Zone, CapacityType: in.CapacityType}
	known, ok := s.described.Load(of)
	if !ok {
		known, _ = s.described.LoadOrStore(of, t.description(of))
	}
	d := known.(*description)
	in.Capacity, in.Allocatable, in.Labels, in.Price = d.capacity, d.allocatable, d.labels, d.price
}

func (t *instanceType) description(of offering.Ref) *description {
	d := &description{capacity: t.offered.Capacity, allocatable: t.allocatable(), labels: map[string]string{}}
	copySingleValues(d.labels, t.offered.Labels)
	if o := t.offeringOf(of); o != nil {
		d.price = o.Price
		copySingleValues(d.labels, o.Labels)
	}
	return d
}

// copySingleValues copies the labels that have one possible value.
func copySingleValues(into map[string]string, labels map[string][]string) {
	for key, values := range labels {
		if len(values) == 1 {
			into[key] = values[0]
		}
	}
}

// allocatable returns what pods can use.
func (t *instanceType) allocatable() quantity.Amounts {
	return t.offered.Capacity.Sub(t.offered.Overhead)
}
