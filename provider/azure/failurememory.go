// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"log/slog"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// failures keeps what refused requests and failed virtual machines say about offerings, node
// classes, images, subnets and the subscription's policies, so that the same is not requested
// again at once.
type failures struct {
	unavailable *stock.UnavailableOfferings
	policies    *stock.Policies
	images      *image.Images
	network     *network.Reader
	skus        *skuList
	region      regionName
	now         func() time.Time
	log         *slog.Logger
}

// record records what a refusal or a failed virtual machine says about the node class, its image,
// its subnet and the subscription's policies. It reports whether launches of the class pause for
// it.
func (x *failures) record(by stock.Requester, r armerr.Failure, image string, ref offering.Ref) (pauses bool) {
	switch {
	case r.Kind == armerr.ImageMissing:
		x.images.ReportMissing(image)
	case r.Kind == armerr.Disallowed:
		x.policies.RecordDenial(by.Class, ref, r, x.now())
	case !r.AboutOffering():
		if subnet, err := network.ParseSubnetID(by.Subnet); err == nil {
			x.network.RecordDenied(subnet, r)
		}
		return x.pauseClass(by.Class, r)
	}
	return false
}

// recordAccepted records that Compute accepted a virtual machine of the class, from this image.
func (x *failures) recordAccepted(class, image string) {
	x.policies.Clear(class)
	x.unavailable.RecordLaunch(class)
	x.images.ReportLaunched(image)
}

// blockOffering blocks the offerings that a failure of one of them is about.
func (x *failures) blockOffering(by stock.Requester, r armerr.Failure, s *sku.SKU, ref offering.Ref) {
	x.unavailable.RecordFailure(r, s, ref.Zone, ref.CapacityType, by)
}

// blocked reports whether an offering is blocked, and why.
func (x *failures) blocked(by stock.Requester, s *sku.SKU, ref offering.Ref) (provider.RefusedOffering, bool) {
	b, ok := x.unavailable.Blocked(s, ref.Zone, ref.CapacityType, by)
	return provider.RefusedOffering{Offering: ref, Code: b.Code, Reason: b.Reason, Detail: b.Description}, ok
}

// recordStillCreating blocks the offering of a virtual machine for a while that was late and is
// deleted before it came up, so that the next claim tries another offering.
func (x *failures) recordStillCreating(vm *virtualMachine) {
	x.blockOfferingOf(vm, stock.Requester{}, armerr.Failure{Kind: armerr.OtherFailure, Code: "StillCreating", Detail: "the VM was not created in time"})
}

// recordFailed blocks the offering of a virtual machine for a while that is deleted because it
// failed after its creation.
func (x *failures) recordFailed(vm *virtualMachine) {
	x.blockOfferingOf(vm, stock.Requester{Class: tag(vm.Tags, tagClass)}, asOfferingFailure(vm.failureInStatus()))
}

func (x *failures) blockOfferingOf(vm *virtualMachine, by stock.Requester, r armerr.Failure) {
	ref := x.region.refOf(vm)
	if s := x.skus.byName()[ref.Type]; s != nil {
		x.blockOffering(by, r, s, ref)
	}
}

// nodeUnusable blocks the instance type for an hour, for that node class. What the node lacks,
// mostly because its image does not install a driver, the next one would lack in any zone, while
// another instance type may work. When nodes with GPUs of several models lack theirs, the type is
// not the cause, and all instance types with GPUs are blocked.
func (x *failures) nodeUnusable(class string, c offering.Ref, lacks string) {
	skus := x.skus.byName()
	s := skus[c.Type]
	if s == nil {
		return
	}
	by := stock.Requester{Class: class}
	r := armerr.Failure{Kind: armerr.MissingResource, Code: stock.ResourceNotRegistered, Detail: armerr.Shorten(lacks)}
	x.blockOffering(by, r, s, c)
	x.log.Warn("VM joined without a resource that it was launched for", slog.String("instanceType", c.Type), slog.String("zone", c.Zone), slog.String("lacks", lacks))
	if s.GPUs == 0 || !x.unavailable.GPUsMissing(class, skus) {
		return
	}
	r.Advice = "VMs of several GPU models joined without GPUs: check that the cluster has a device plugin for them, and that it runs on the class's nodes"
	for _, other := range skus {
		if other.GPUs > 0 {
			x.blockOffering(by, r, other, c)
		}
	}
	x.log.Warn("VMs of several GPU models joined without their GPUs: instance types with GPUs are not launched for now", slog.String("class", class), slog.String("lacks", lacks))
}
