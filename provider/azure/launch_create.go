// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// A vmCreator creates a virtual machine for a claim, from the first offering that Azure accepts.
type vmCreator struct {
	catalogs *catalogCache
	quota    *quota.Tracker
	probes   *stock.Probes
	reclaims *stock.SpotReclaims
	failures *failures
	images   *image.Images
	inFlight *inFlights
	limiter  rateLimiter
	ids      providerIDs
	now      func() time.Time
	log      *slog.Logger
}

// A classOffering is an offering that a claim accepts, as its node class has it.
type classOffering struct {
	ref          offering.Ref
	instanceType *instanceType      // nil when the class does not have it
	offering     *offering.Offering // nil when the class does not have it
}

// An outcome is the result of trying one offering.
type outcome struct {
	instance   provider.Instance
	done       bool // Launch returns the instance; otherwise the next offering is tried
	lacksQuota bool
}

// maxRequestsPerLaunch is how many creations one Launch call requests before it yields to other
// claims. Refusals are remembered, so the next call continues where this one stopped.
const maxRequestsPerLaunch = 25

// create tries the offerings in order until Azure accepts one.
func (c *vmCreator) create(ctx context.Context, l *launch) (provider.Instance, error) {
	if err := checkClassReady(l.class); err != nil {
		return provider.Instance{}, err
	}
	if err := c.failures.checkClassPause(l.class.Name); err != nil {
		return provider.Instance{}, err
	}
	in, lacksQuota, err := c.tryOfferings(ctx, l)
	if !errors.As(err, new(*provider.CapacityError)) || !lacksQuota {
		return in, err
	}
	// Quota was lacking by the ledger, which may be out of date: other users may have freed
	// some.
	fresh, newer, failed := c.quota.Reread(ctx, l.subnet, l.region.quota)
	if l.region.quota = fresh; failed == nil && newer {
		l.refused = nil
		in, _, err = c.tryOfferings(ctx, l)
	}
	return in, err
}

// tryOfferings tries the offerings in order. It reports whether an offering was skipped because
// the ledger has too little quota. While the window of an offering (see stock.Probes) has no room for another
// launch, the next offering may be tried if it costs hardly more; see costsMuchMore.
func (c *vmCreator) tryOfferings(ctx context.Context, l *launch) (in provider.Instance, lacksQuota bool, err error) {
	var waiting *classOffering // the first whose window is full
	for _, ref := range c.reclaims.PutReclaimedLast(l.claim.Offerings) {
		if waiting != nil && costsMuchMore(ref, waiting.ref) {
			break
		}
		wanted := l.types.find(ref)
		if c.skip(l, wanted) {
			continue
		}
		if !c.takeProbe(l, ref) {
			waiting = cmp.Or(waiting, &wanted)
			continue
		}
		o, err := c.try(ctx, l, wanted)
		if lacksQuota = lacksQuota || o.lacksQuota; o.done || err != nil {
			return o.instance, false, err
		}
	}
	if waiting != nil {
		return c.pendingUnlessUrgent(ctx, l, *waiting)
	}
	c.limiter.cancelCreate(l.handle)
	return provider.Instance{}, lacksQuota, &provider.CapacityError{Claim: l.claim.Name, Refused: l.refused}
}

// pendingUnlessUrgent reports a claim as pending while the window of its next offering is
// full. An urgent claim, whose pods are about to lose their node, is launched without a place.
func (c *vmCreator) pendingUnlessUrgent(ctx context.Context, l *launch, wanted classOffering) (in provider.Instance, lacksQuota bool, err error) {
	if !l.claim.Urgent {
		c.limiter.cancelCreate(l.handle)
		return l.probePending(), false, nil
	}
	o, err := c.try(ctx, l, wanted)
	if o.done || err != nil {
		return o.instance, false, err
	}
	return o.instance, o.lacksQuota, &provider.CapacityError{Claim: l.claim.Name, Refused: l.refused}
}

// probePending describes a node that is not requested yet. Refusals that are only remembered
// are not reported again with every poll.
func (l *launch) probePending() provider.Instance {
	in := l.pending()
	if l.requests == 0 {
		in.Refused = nil
	}
	return in
}

// costsMuchMore reports whether an offering costs over 10 % more than another. A claim accepts up
// to that much to launch elsewhere at once.
func costsMuchMore(c, than offering.Ref) bool { return 10*c.Price > 11*than.Price }

// takeProbe takes a place in the offering's window (see stock.Probes). A claim with a single
// offering needs none: waiting would find it nothing better.
func (c *vmCreator) takeProbe(l *launch, ref offering.Ref) bool {
	return len(l.claim.Offerings) == 1 || c.probes.Reserve(l.handle, stock.KeyOf(ref))
}

// skip reports whether a remembered fact rules out the offering, and records which.
func (c *vmCreator) skip(l *launch, wanted classOffering) bool {
	if wanted.offering == nil {
		l.addRefused(wanted.ref, "NotOffered", armerr.ReasonRestricted, "the node class does not offer this instance type in this zone and with this capacity type")
		return true
	}
	attempt, refused := c.knownRefusal(l, wanted)
	if refused {
		l.refused = append(l.refused, attempt)
	}
	return refused
}

// knownRefusal reports whether a remembered fact rules out an offering, and which.
func (c *vmCreator) knownRefusal(l *launch, wanted classOffering) (provider.RefusedOffering, bool) {
	s, o := wanted.instanceType.sku, wanted.offering
	if attempt, ok := c.failures.blocked(l.requester(), s, wanted.ref); ok {
		return attempt, true
	}
	if why := c.catalogs.whyUnavailable(s, o, nil, l.region.quota.Value, stock.Requester{}); why != "" {
		reason := armerr.ReasonQuota
		if s.Restricted.Region != "" || len(s.Restricted.Zones) > 0 {
			reason = armerr.ReasonRestricted
		}
		return provider.RefusedOffering{Offering: wanted.ref, Code: "NotAvailable", Reason: reason, Detail: why}, true
	}
	return provider.RefusedOffering{}, false
}

// try requests the offering if the rate limits allow it and there is quota.
func (c *vmCreator) try(ctx context.Context, l *launch, wanted classOffering) (outcome, error) {
	if wait := l.backend.reserveCreate(l.handle, l.claim.Urgent); wait > 0 {
		c.probes.Withdraw(l.handle)
		in := l.pending()
		in.RetryAfter = wait
		return outcome{instance: in, done: true}, nil
	}
	if short, ok := c.quota.Reserve(l.holder(), wanted.offering.QuotaUses, l.region.quota); !ok {
		c.probes.Withdraw(l.handle)
		l.addRefused(wanted.ref, "QuotaReserved", quota.RefusalReason(short), "not enough left of "+quota.Describe(short))
		return outcome{lacksQuota: true}, nil
	}
	if l.requests++; l.requests > maxRequestsPerLaunch {
		c.quota.Cancel(l.holder())
		c.probes.Withdraw(l.handle)
		return outcome{instance: l.pending(), done: true}, nil
	}
	o, err := c.request(ctx, l, wanted)
	if !l.accepted {
		c.probes.Withdraw(l.handle)
	}
	return o, err
}

// request requests one offering. The outcome is not done when Azure refused it and the next may
// be tried.
func (c *vmCreator) request(ctx context.Context, l *launch, wanted classOffering) (outcome, error) {
	err := c.send(ctx, l, wanted)
	if err == nil {
		if l.backend.acceptanceIsFinal() {
			c.failures.recordAccepted(l.class.Name, l.imageID)
		}
		return outcome{instance: c.launched(l, wanted.ref), done: true}, nil
	}
	var driver *bootstrap.DriverError
	if errors.As(err, &driver) {
		return c.handleRefusal(l, wanted, armerr.Failure{Kind: armerr.NoDriver, Code: "NoGPUDriver", Detail: driver.Error(), Err: err})
	}
	var notReady *provider.NotReadyError
	if errors.As(err, &notReady) || errors.Is(err, errBeforeRequest) {
		c.quota.Cancel(l.holder())
		if !c.failures.pauseClass(l.class.Name, armerr.Classify(err)) {
			c.failures.recordPreparationError(l.class.Name, err)
		}
		return outcome{}, fmt.Errorf("launching %s: %w", l.claim.Name, err)
	}
	return c.handleRefusal(l, wanted, armerr.Classify(err))
}

// send sends the request to the launch's backend.
func (c *vmCreator) send(ctx context.Context, l *launch, wanted classOffering) error {
	imageID, err := c.imageFor(ctx, l.class, wanted.instanceType.sku)
	if err != nil {
		return beforeRequest(err)
	}
	l.imageID = imageID
	state, err := l.backend.create(ctx, &vmSpec{
		handle: l.handle, claim: l.claim, class: l.class, instanceType: wanted.instanceType, offering: wanted.ref, image: imageID,
	})
	if err != nil {
		return err
	}
	c.quota.RecordCreated(l.holder(), c.now())
	l.state, l.accepted = state, true
	return nil
}

// handleRefusal acts on a refused or failed creation.
func (c *vmCreator) handleRefusal(l *launch, wanted classOffering, r armerr.Failure) (outcome, error) {
	l.addRefused(wanted.ref, r.Code, r.Reason(), r.Detail)
	if r.Kind == armerr.Transient {
		// The virtual machine may exist. Only a list that starts from now on shows whether it
		// does.
		c.quota.RecordCreated(l.holder(), c.now())
		c.inFlight.put(l.handle, inFlight{requestedAt: c.now()})
		return outcome{}, armerr.Wrap(r.Err, "launching %s: creating a VM of size %s", l.claim.Name, wanted.ref.Type)
	}
	c.quota.Cancel(l.holder())
	switch r.Kind {
	case armerr.Conflict:
		// Another process was faster. The next call finds its virtual machine in the list.
		c.inFlight.put(l.handle, inFlight{requestedAt: c.now()})
		return outcome{instance: l.pending(), done: true}, nil
	case armerr.Throttled, armerr.InUse, armerr.StaleReference:
		in := l.pending()
		in.RetryAfter = max(in.RetryAfter, r.RetryAfter)
		return outcome{instance: in, done: true}, nil
	}
	c.failures.record(l.requester(), r, l.imageID, wanted.ref)
	if !r.AboutOffering() {
		return outcome{}, armerr.Wrap(r.Err, "launching %s: creating a VM of size %s", l.claim.Name, wanted.ref.Type)
	}
	c.probes.Refused(l.handle)
	c.failures.blockOffering(l.requester(), r, wanted.instanceType.sku, wanted.ref)
	c.log.Info("VM refused", slog.String("claim", l.claim.Name), slog.String("instanceType", wanted.ref.Type),
		slog.String("zone", wanted.ref.Zone), slog.String("capacityType", wanted.ref.CapacityType), slog.String("code", r.Code))
	return outcome{}, c.recordUnclassified(l, r)
}

// recordUnclassified counts refusals of unknown kind, and pauses the node class when several of its
// sizes got the same one. It returns an error when the class pauses or three consecutive offerings
// were refused so: the offering is not the cause then.
func (c *vmCreator) recordUnclassified(l *launch, r armerr.Failure) error {
	if r.Kind != armerr.OtherFailure {
		l.unclassified = 0
		return nil
	}
	if l.unclassified++; !c.failures.pauseClass(l.class.Name, r) && l.unclassified < 3 {
		return nil
	}
	return armerr.Wrap(r.Err, "launching %s: offerings were refused for unknown reasons, so no other is tried now", l.claim.Name)
}

// launched describes a virtual machine whose creation Azure has just accepted.
func (c *vmCreator) launched(l *launch, ref offering.Ref) provider.Instance {
	in := l.pending()
	if name := l.backend.vmName(l.handle); name != "" {
		in.ProviderID = c.ids.ofVM(name)
	}
	in.Type, in.Zone, in.CapacityType = ref.Type, ref.Zone, ref.CapacityType
	in.Created, in.LaunchState = c.now(), l.state
	in.ImageID = l.imageID
	l.types.describe(&in)
	c.log.Info("VM launched", slog.String("claim", l.claim.Name), slog.String("vm", l.handle), slog.String("instanceType", ref.Type),
		slog.String("zone", ref.Zone), slog.String("capacityType", ref.CapacityType), slog.Int("refused", len(l.refused)))
	return in
}
