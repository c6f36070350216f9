// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/aksmachine"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// update changes the tags of an AKS machine, and of all resources that AKS created for it, with
// one request that holds the whole machine as the list had it. This is safe only with the
// machine's ETag: without it, the request would recreate a machine that was deleted meanwhile.
// AKS accepts sixty requests a minute in total, so a thousand machines take a quarter of an hour
// or more, behind all other requests to AKS.
func (a *byAKS) update(ctx context.Context, vm *machine, u updates) (provider.Update, error) {
	tags := u.over(vm.said.tags)
	if sameTags(vm.said.tags, tags) {
		return provider.Update{}, nil
	}
	if wait := a.p.tickets.updateAKS(vm.handle); wait > 0 {
		return provider.Update{RetryAfter: wait}, nil
	}
	o := &a.p.opts
	ctx = policy.WithHTTPHeader(ctx, http.Header{"AllowSpotVMSystemNode": {"true"}})
	_, err := a.machines.BeginCreateOrUpdate(ctx, o.AKSMachines.ResourceGroup, o.ClusterName, o.AKSMachines.Pool, vm.handle,
		aksmachine.WithTags(vm.said.row, tags), &aks.MachinesClientBeginCreateOrUpdateOptions{IfMatch: vm.said.row.Properties.ETag})
	switch {
	case err == nil:
		return provider.Update{Changed: "tags", RetryAfter: updateSight}, nil
	case armerr.Classify(err).Kind == armerr.Exists: // changed or deleted meanwhile
		return provider.Update{RetryAfter: updateSight}, nil
	}
	return provider.Update{}, armerr.Wrap(err, "updating tags of AKS machine %s", vm.handle)
}

// updatable reports whether AKS is not working on the machine, has an ETag for it, and does not
// plan to recreate it.
func (s *said) updatable() bool {
	return s.state == stateSucceeded && s.drift == "" && armtext.Of(s.row.Properties.ETag) != ""
}
