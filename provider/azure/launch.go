// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"fmt"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/ctxlock"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// A launcher advances claims towards a running virtual machine, one step per call.
type launcher struct {
	claims   *ctxlock.ByName // by UID; a termination of the claim takes the lock, too
	classes  classReader
	catalogs *catalogCache
	subnets  nodeSubnets
	vms      *vmList
	finder   *vmFinder
	creator  *vmCreator
	progress *launchProgress
	failures *failures
}

// A launch is the state of one Launch call for one claim.
type launch struct {
	claim   provider.Claim
	class   *v1beta1.AKSNodeClass
	subnet  string // of the class; lower case
	types   *typeSet
	region  regionData
	vms     *vmList
	backend backend // that created the virtual machine, or will
	handle  string  // the backend's name for the virtual machine

	refused      []provider.RefusedOffering
	requests     int               // creations requested from Azure
	unclassified int               // consecutive refusals with an unclassified error code
	imageID      string            // of the last creation requested
	state        map[string]string // LaunchState to keep with the claim
	accepted     bool              // a creation was accepted
}

// launch creates a virtual machine if the claim has none, reports the state of an existing one,
// and deletes one that failed.
func (x *launcher) launch(ctx context.Context, claim provider.Claim) (provider.Instance, error) {
	if err := checkClaim(claim); err != nil {
		return provider.Instance{}, err
	}
	release, err := x.claims.Lock(ctx, claim.UID)
	if err != nil {
		return provider.Instance{}, err
	}
	defer release()
	l, err := x.newLaunch(ctx, claim)
	if err != nil {
		return provider.Instance{}, err
	}
	found, err := x.finder.find(ctx, claim)
	l.backend, l.handle = found.backend, found.handle
	switch r := armerr.Classify(err); {
	case r.Kind == armerr.Throttled:
		in := l.pending()
		in.RetryAfter = max(in.RetryAfter, r.RetryAfter)
		return in, nil
	case err != nil:
		x.failures.recordListError(l.class.Name, err)
		return provider.Instance{}, err
	case !found.decided:
		in := l.pending()
		in.RetryAfter = cmp.Or(found.retryAfter, in.RetryAfter)
		return in, nil
	case found.vm == nil:
		return x.creator.create(ctx, l)
	}
	return x.progress.advance(ctx, l, found.vm)
}

func checkClaim(c provider.Claim) error {
	switch {
	case c.UID == "":
		return fmt.Errorf("launching %s: the claim has no UID", c.Name)
	case len(c.Offerings) == 0:
		return fmt.Errorf("launching %s: the claim has no offerings", c.Name)
	}
	return nil
}

func (x *launcher) newLaunch(ctx context.Context, claim provider.Claim) (*launch, error) {
	class, err := x.classes.read(ctx, claim.Class)
	if err != nil {
		return nil, err
	}
	region, err := x.catalogs.regionData(ctx)
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", claim.Name, err)
	}
	types := x.catalogs.typesOf(claim.Class, class, region)
	return &launch{claim: claim, class: class, subnet: x.subnets.lowerIDOf(class), types: types, region: region, vms: x.vms}, nil
}

// pending describes a virtual machine that does not exist yet. It has no provider ID: none may
// be recorded before Azure has accepted the virtual machine.
func (l *launch) pending() provider.Instance {
	return provider.Instance{
		Name: l.handle, NodeName: l.backend.vmName(l.handle), ClaimName: l.claim.Name, ClaimUID: l.claim.UID, Pool: l.claim.Pool,
		State: provider.Creating, RetryAfter: l.vms.maxAgeForLaunch(), Refused: l.refused,
	}
}

func (l *launch) addRefused(ref offering.Ref, code, reason, detail string) {
	l.refused = append(l.refused, provider.RefusedOffering{Offering: ref, Code: code, Reason: reason, Detail: detail})
}

func (l *launch) requester() stock.Requester {
	return stock.Requester{Class: l.class.Name, Subnet: l.subnet}
}

// holder returns the virtual machine as it takes quota.
func (l *launch) holder() quota.Holder { return quota.Holder{VM: l.handle, Subnet: l.subnet} }
