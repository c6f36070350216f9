// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// maxAttempts is how many creations one Launch call requests before it yields to other claims.
// Refusals are remembered, so the next call continues where this one stopped.
const maxAttempts = 25

// A launch is the work of one Launch call for one claim.
type launch struct {
	p     *Provider
	claim provider.Claim
	maker backend
	name  string // the backend's name of the virtual machine
	class *v1beta1.AKSNodeClass
	types *typeSet
	in    inputs

	attempts []provider.Attempt
	requests int               // creations requested from Azure
	strange  int               // consecutive refusals with an unclassified error code
	imageID  string            // of the last creation requested
	accepted map[string]string // LaunchState to keep with the claim
	taken    bool              // a creation was accepted
	again    time.Duration     // time until the list that another call reads is ready; zero when no call reads one
}

// Launch advances the claim's node by one step: it creates a virtual machine if there is none,
// reports the state of an existing one, and deletes one that failed.
func (p *Provider) Launch(ctx context.Context, claim provider.Claim) (provider.Instance, error) {
	in, err := p.launch(ctx, claim)
	return in, named(err)
}

func (p *Provider) launch(ctx context.Context, claim provider.Claim) (provider.Instance, error) {
	if err := checkClaim(claim); err != nil {
		return provider.Instance{}, err
	}
	release, err := p.claims.Lock(ctx, claim.UID)
	if err != nil {
		return provider.Instance{}, err
	}
	defer release()
	l, err := p.newLaunch(ctx, claim)
	if err != nil {
		return provider.Instance{}, err
	}
	vm, known, err := l.standing(ctx)
	switch r := armerr.Classify(err); {
	case r.Kind == armerr.Throttled:
		in := l.waiting()
		in.RetryAfter = max(in.RetryAfter, r.RetryAfter)
		return in, nil
	case err != nil:
		l.unlisted(err)
		return provider.Instance{}, err
	case !known:
		in := l.waiting()
		in.RetryAfter = cmp.Or(l.again, in.RetryAfter)
		return in, nil
	case vm == nil:
		return l.buy(ctx)
	}
	return l.follow(ctx, vm)
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

func (p *Provider) newLaunch(ctx context.Context, claim provider.Claim) (*launch, error) {
	class, err := p.class(ctx, claim.Class)
	if err != nil {
		return nil, err
	}
	in, err := p.catalogs.inputs(ctx)
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", claim.Name, err)
	}
	types := p.catalogs.typesOf(claim.Class, class, in)
	first := p.backends[0]
	return &launch{p: p, claim: claim, maker: first, name: first.handle(claim), class: class, types: types, in: in}, nil
}

// buy tries the offerings in order until Azure accepts one.
func (l *launch) buy(ctx context.Context) (provider.Instance, error) {
	if err := buyable(l.class); err != nil {
		return provider.Instance{}, err
	}
	if err := l.p.mayNotBuy(l.class.Name); err != nil {
		return provider.Instance{}, err
	}
	in, short, err := l.walk(ctx)
	if !errors.As(err, new(*provider.CapacityError)) || !short {
		return in, err
	}
	// Quota was lacking by the ledger, which may be out of date: other users may have freed
	// some.
	fresh, newer, failed := l.p.quota.Recount(ctx, l.subnet(), l.in.quota)
	if l.in.quota = fresh; failed == nil && newer {
		l.attempts = nil
		in, _, err = l.walk(ctx)
	}
	return in, err
}

// walk tries the offerings in order. It reports whether an offering was skipped because the
// ledger has too little quota. While the stock probe of an offering has no room for another
// launch, the next offering may be taken if it costs hardly more; see dearer.
func (l *launch) walk(ctx context.Context) (in provider.Instance, short bool, err error) {
	var held *offering.Ref // the first offering whose stock probe is full
	for _, choice := range l.p.evictions.Last(l.claim.Offerings) {
		if held != nil && dearer(choice, *held) {
			break
		}
		m := l.types.byName[choice.Type]
		o := m.offer(choice)
		if !l.eligible(m, o, choice) {
			continue
		}
		if !l.probes(choice) {
			held = cmp.Or(held, &choice)
			continue
		}
		in, lacks, done, err := l.purchase(ctx, m, o, choice)
		if short = short || lacks; done || err != nil {
			return in, false, err
		}
	}
	if held != nil {
		return l.hold(ctx, *held)
	}
	l.p.tickets.dropCreate(l.name)
	return provider.Instance{}, short, &provider.CapacityError{Claim: l.claim.Name, Attempts: l.attempts}
}

// hold waits for the result of the stock probe of an offering. An urgent claim, whose pods are
// about to lose their node, does not wait.
func (l *launch) hold(ctx context.Context, choice offering.Ref) (provider.Instance, bool, error) {
	if !l.claim.Urgent {
		l.p.tickets.dropCreate(l.name)
		return l.proofPending(), false, nil
	}
	m := l.types.byName[choice.Type]
	in, short, done, err := l.purchase(ctx, m, m.offer(choice), choice)
	if done || err != nil {
		return in, false, err
	}
	return in, short, &provider.CapacityError{Claim: l.claim.Name, Attempts: l.attempts}
}

// proofPending describes a node that is not requested yet. Attempts that are only remembered are
// not reported again with every poll.
func (l *launch) proofPending() provider.Instance {
	in := l.waiting()
	if l.requests == 0 {
		in.Attempts = nil
	}
	return in
}

// dearer reports whether an offering costs over 10 % more than another. A claim accepts up to
// that much to launch elsewhere at once.
func dearer(c, than offering.Ref) bool { return 10*c.Price > 11*than.Price }

// probes takes a place in the stock probe of the offering. A claim with a single offering needs
// none: waiting would find it nothing better.
func (l *launch) probes(choice offering.Ref) bool {
	return len(l.claim.Offerings) == 1 || l.p.stockProbes.Take(l.name, stock.KeyOf(choice))
}

// eligible reports whether no remembered fact rules out the offering.
func (l *launch) eligible(m *machineType, o *offering.Offering, choice offering.Ref) bool {
	if o == nil {
		l.refused(choice, "NotOffered", armerr.ReasonRestricted, "the node class cannot be launched in this mode")
		return false
	}
	attempt, refused := l.remembered(m.sku, o, choice)
	if refused {
		l.attempts = append(l.attempts, attempt)
	}
	return !refused
}

// purchase requests the offering if the rate limits allow it and there is quota. It reports
// whether quota is lacking, and whether this call is done.
func (l *launch) purchase(ctx context.Context, m *machineType, o *offering.Offering, choice offering.Ref) (in provider.Instance, lacks, done bool, err error) {
	if wait := l.maker.mayBegin(l); wait > 0 {
		l.p.stockProbes.Withdraw(l.name)
		in := l.waiting()
		in.RetryAfter = wait
		return in, false, true, nil
	}
	if short, ok := l.p.quota.Reserve(l.holder(), o.QuotaUses, l.in.quota); !ok {
		l.p.stockProbes.Withdraw(l.name)
		l.refused(choice, "QuotaReserved", quota.AttemptReason(short), "not enough left of "+quota.InWords(short))
		return in, true, false, nil
	}
	if l.requests++; l.requests > maxAttempts {
		l.p.quota.Cancel(l.holder())
		l.p.stockProbes.Withdraw(l.name)
		return l.waiting(), false, true, nil
	}
	in, done, err = l.try(ctx, m, choice)
	if !l.taken {
		l.p.stockProbes.Withdraw(l.name)
	}
	return in, false, done, err
}

// offer returns the offering that a reference names; nil when the instance type has no such
// offering.
func (m *machineType) offer(c offering.Ref) *offering.Offering {
	if m == nil {
		return nil
	}
	for i := range m.offered.Offerings {
		if o := &m.offered.Offerings[i]; o.Zone == c.Zone && o.CapacityType == c.CapacityType {
			return o
		}
	}
	return nil
}

func (l *launch) refused(choice offering.Ref, code, reason, detail string) {
	l.attempts = append(l.attempts, provider.Attempt{Offering: choice, Code: code, Reason: reason, Detail: detail})
}

// remembered reports whether a remembered fact rules out an offering, and which.
func (l *launch) remembered(s *sku.SKU, o *offering.Offering, choice offering.Ref) (provider.Attempt, bool) {
	if b, ok := l.p.stockouts.Blocked(s, o.Zone, o.CapacityType, l.buyer()); ok {
		return provider.Attempt{Offering: choice, Code: b.Code, Reason: b.Reason, Detail: b.Words}, true
	}
	if why := l.p.catalogs.unavailable(s, o, nil, l.in.quota.Value, stock.Requester{}); why != "" {
		reason := armerr.ReasonQuota
		if s.Barred.Region != "" || len(s.Barred.Zones) > 0 {
			reason = armerr.ReasonRestricted
		}
		return provider.Attempt{Offering: choice, Code: "NotAvailable", Reason: reason, Detail: why}, true
	}
	return provider.Attempt{}, false
}

func (l *launch) buyer() stock.Requester {
	return stock.Requester{Class: l.class.Name, Subnet: l.subnet()}
}

// holder returns the virtual machine as it takes quota.
func (l *launch) holder() quota.Holder { return quota.Holder{VM: l.name, Subnet: l.subnet()} }

func (l *launch) subnet() string { return l.p.subnets.keyOf(l.class) }

// try requests one offering. It reports false when Azure refused it and the next may be tried.
func (l *launch) try(ctx context.Context, m *machineType, choice offering.Ref) (provider.Instance, bool, error) {
	err := l.create(ctx, m, choice)
	if err == nil {
		if l.maker.final() {
			l.granted(l.imageID)
		}
		return l.bought(m, choice), true, nil
	}
	var driver *bootstrap.DriverError
	if errors.As(err, &driver) {
		return l.answer(armerr.Refusal{Kind: armerr.NoDriver, Code: "NoGPUDriver", Detail: driver.Error(), Err: err}, m, choice)
	}
	var notReady *provider.NotReadyError
	if errors.As(err, &notReady) || errors.Is(err, errBeforeRequest) {
		l.p.quota.Cancel(l.holder())
		if !l.blame(armerr.Classify(err)) {
			l.unprepared(err)
		}
		return provider.Instance{}, false, fmt.Errorf("launching %s: %w", l.claim.Name, err)
	}
	return l.answer(armerr.Classify(err), m, choice)
}

// granted records that Compute accepted a virtual machine of the class, from this image.
func (l *launch) granted(image string) {
	l.p.policies.Forget(l.class.Name)
	l.p.stockouts.Launched(l.class.Name)
	l.p.images.Found(image)
}

// answer acts on a refused or failed creation.
func (l *launch) answer(r armerr.Refusal, m *machineType, choice offering.Ref) (provider.Instance, bool, error) {
	l.attempts = append(l.attempts, provider.Attempt{Offering: choice, Code: r.Code, Reason: r.Reason(), Detail: r.Detail})
	if r.Kind == armerr.Transient {
		// The virtual machine may exist. Only a list that starts from now on shows whether it
		// does.
		l.p.quota.Settle(l.holder(), l.p.opts.Now())
		l.p.inFlight.put(l.name, inFlight{asked: l.p.opts.Now()})
		return provider.Instance{}, false, armerr.Wrap(r.Err, "launching %s: buying %s", l.claim.Name, choice.Type)
	}
	l.p.quota.Cancel(l.holder())
	switch r.Kind {
	case armerr.Exists:
		// Another process was faster. The next call finds its virtual machine in the list.
		l.p.inFlight.put(l.name, inFlight{asked: l.p.opts.Now()})
		return l.waiting(), true, nil
	case armerr.Throttled, armerr.InUse, armerr.StaleReference:
		in := l.waiting()
		in.RetryAfter = max(in.RetryAfter, r.RetryAfter)
		return in, true, nil
	}
	l.mind(r, l.imageID, choice)
	if !r.AboutOffering() {
		return provider.Instance{}, false, armerr.Wrap(r.Err, "launching %s: buying %s", l.claim.Name, choice.Type)
	}
	l.p.stockProbes.Lost(l.name)
	l.p.stockouts.Learn(r, m.sku, choice.Zone, choice.CapacityType, l.buyer())
	l.p.opts.Log.Info("VM refused", slog.String("claim", l.claim.Name), slog.String("size", choice.Type),
		slog.String("zone", choice.Zone), slog.String("capacityType", choice.CapacityType), slog.String("code", r.Code))
	return l.further(r)
}

// mind records what a refusal says about the node class, its image, its subnet and the
// subscription's policies. It reports whether launches of the class pause for it.
func (l *launch) mind(r armerr.Refusal, image string, choice offering.Ref) (rests bool) {
	switch {
	case r.Kind == armerr.ImageMissing:
		l.p.images.Doubt(image)
	case r.Kind == armerr.Disallowed:
		l.p.policies.Note(l.class.Name, choice, r, l.p.opts.Now())
	case !r.AboutOffering():
		if subnet, err := network.ParseSubnetID(l.subnet()); err == nil {
			l.p.network.Deny(subnet, r)
		}
		return l.blame(r)
	}
	return false
}

// further goes on to the next offering, unless three consecutive offerings got a refusal of
// unknown kind: then the offering is not the cause.
func (l *launch) further(r armerr.Refusal) (provider.Instance, bool, error) {
	if r.Kind != armerr.OtherRefusal {
		l.strange = 0
		return provider.Instance{}, false, nil
	}
	if l.strange++; !l.blame(r) && l.strange < 3 {
		return provider.Instance{}, false, nil
	}
	return provider.Instance{}, false, armerr.Wrap(r.Err, "launching %s: three offerings were refused for the same reason", l.claim.Name)
}

// bought describes a virtual machine whose creation Azure has just accepted.
func (l *launch) bought(m *machineType, choice offering.Ref) provider.Instance {
	in := l.waiting()
	if name := l.maker.virtualName(l.name); name != "" {
		in.ProviderID = l.p.ids.of(name)
	}
	in.Type, in.Zone, in.CapacityType = choice.Type, choice.Zone, choice.CapacityType
	in.Created, in.LaunchState = l.p.opts.Now(), l.accepted
	in.ImageID = l.imageID
	l.types.describe(&in)
	l.p.opts.Log.Info("VM launched", slog.String("claim", l.claim.Name), slog.String("machine", l.name), slog.String("size", choice.Type),
		slog.String("zone", choice.Zone), slog.String("capacityType", choice.CapacityType), slog.Int("refused", len(l.attempts)))
	return in
}

// waiting describes a virtual machine that does not exist yet. It has no provider ID: none may
// be recorded before Azure has accepted the virtual machine.
func (l *launch) waiting() provider.Instance {
	return provider.Instance{
		Name: l.name, NodeName: l.maker.virtualName(l.name), ClaimName: l.claim.Name, ClaimUID: l.claim.UID, Pool: l.claim.Pool,
		State: provider.Creating, RetryAfter: l.p.pace(), Attempts: l.attempts,
	}
}
