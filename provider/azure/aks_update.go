// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// updateAKSMachine changes the tags of an AKS machine, and of all resources that AKS created for
// it. AKS accepts sixty requests a minute in total, so a thousand machines take a quarter of an
// hour or more, behind all other requests to AKS.
func (x *updater) updateAKSMachine(ctx context.Context, vm *virtualMachine, u wantedMetadata) (provider.Update, error) {
	tags := u.mergedTags(vm.aksMachine.tags)
	if sameTags(vm.aksMachine.tags, tags) {
		return provider.Update{}, nil
	}
	if wait := x.limiter.reserveAKSUpdate(vm.handle); wait > 0 {
		return provider.Update{RetryAfter: wait}, nil
	}
	err := x.pool.setTags(ctx, vm.handle, vm.aksMachine, tags)
	switch {
	case err == nil:
		return provider.Update{Changed: "tags", RetryAfter: updateListAge}, nil
	case armerr.Classify(err).Kind == armerr.Conflict: // changed or deleted meanwhile
		return provider.Update{RetryAfter: updateListAge}, nil
	}
	return provider.Update{}, armerr.Wrap(err, "updating tags of AKS machine %s", vm.handle)
}

// updatable reports whether AKS is not working on the machine, has an ETag for it, and does not
// plan to recreate it.
func (m *aksMachine) updatable() bool {
	return m.state == stateSucceeded && m.drift == "" && armtext.Of(m.row.Properties.ETag) != ""
}
