package azure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/provider"
)

// maxAttempts is how many purchases one Launch call tries before it lets others
// have their turn. What was refused is remembered, so the next call goes on
// where this one stopped.
const maxAttempts = 25

// A launch is one call's work on one claim.
type launch struct {
	p     *Provider
	claim provider.Claim
	name  string // of the machine
	class *v1beta1.AKSNodeClass
	types *typeSet
	in    inputs

	attempts []provider.Attempt
	requests int               // purchases the cloud was asked for
	strange  int               // refusals in a row that nobody has classified
	accepted map[string]string // what to remember of the purchase
}

// Launch drives the claim's machine one step: it buys one if there is none,
// looks how it fares if there is, and clears away one that failed.
func (p *Provider) Launch(ctx context.Context, claim provider.Claim) (provider.Instance, error) {
	if err := checkClaim(claim); err != nil {
		return provider.Instance{}, err
	}
	release, err := p.claims.lock(ctx, claim.UID)
	if err != nil {
		return provider.Instance{}, err
	}
	defer release()
	l, err := p.newLaunch(ctx, claim)
	if err != nil {
		return provider.Instance{}, err
	}
	vm, known, err := l.standing(ctx)
	switch r := classify(err); {
	case r.kind == throttled:
		in := l.waiting()
		in.RetryAfter = max(in.RetryAfter, r.retryAfter)
		return in, nil
	case err != nil:
		return provider.Instance{}, err
	case !known:
		return l.waiting(), nil
	case vm == nil:
		return l.buy(ctx)
	}
	return l.follow(ctx, vm)
}

func checkClaim(c provider.Claim) error {
	switch {
	case c.UID == "":
		return fmt.Errorf("launching %s: the claim has no UID", c.Name)
	case len(c.Choices) == 0:
		return fmt.Errorf("launching %s: the claim has no choices", c.Name)
	}
	return nil
}

func (p *Provider) newLaunch(ctx context.Context, claim provider.Claim) (*launch, error) {
	class, err := p.class(ctx, claim.Class)
	if err != nil {
		return nil, err
	}
	in, err := p.inputs(ctx)
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", claim.Name, err)
	}
	types := p.typesOf(claim.Class, p.shape(class), in)
	return &launch{p: p, claim: claim, name: machineName(claim.Name, claim.UID), class: class, types: types, in: in}, nil
}

// standing finds the claim's machine in the shared list. It reports false while
// no list is new enough to tell, which is only ever so for a machine that this
// process has just asked for.
func (l *launch) standing(ctx context.Context) (vm *armcompute.VirtualMachine, known bool, err error) {
	now := l.p.opts.Now()
	v, err := l.p.machines.since(ctx, now.Add(-l.p.opts.PollEvery))
	if err != nil {
		return nil, false, fmt.Errorf("launching %s: %w", l.claim.Name, err)
	}
	if theirs := l.p.legacy(v, l.claim); theirs != nil {
		l.name = legacyName(l.claim.Name)
	}
	flight := l.p.flights.get(l.name)
	if v.started.Before(flight.asked) {
		return nil, false, nil
	}
	vm = v.byName[l.name]
	switch {
	case vm == nil && flight.leaving:
		l.p.ledger.credit(l.name, flight.draws, now)
		l.p.flights.drop(l.name)
	case vm == nil && !flight.asked.IsZero():
		return l.vanished(ctx)
	}
	if vm != nil && tag(vm.Tags, tagClaimUID) != l.claim.UID && !l.p.inherited(vm) {
		return nil, false, fmt.Errorf("launching %s: a machine named %s exists and belongs to claim UID %q, not %q: delete it or the claim", l.claim.Name, l.name, tag(vm.Tags, tagClaimUID), l.claim.UID)
	}
	return vm, true, nil
}

// vanished looks closely at a machine that was bought and is missing from the
// list, before another is bought in its place.
func (l *launch) vanished(ctx context.Context) (*armcompute.VirtualMachine, bool, error) {
	vm, err := l.p.readMachine(ctx, l.name)
	if errors.Is(err, provider.ErrNotFound) {
		l.p.flights.drop(l.name)
		return nil, true, nil
	}
	return vm, err == nil, err
}

// buy walks down the choices until one is accepted.
func (l *launch) buy(ctx context.Context) (provider.Instance, error) {
	if err := buyable(l.class); err != nil {
		return provider.Instance{}, err
	}
	in, short, err := l.walk(ctx)
	if !errors.As(err, new(*provider.CapacityError)) || !short {
		return in, err
	}
	// Our own books said no. They may be behind: machines of others may have gone.
	if err := l.p.quota.refreshOlder(ctx, l.p.opts.Now().Add(-5*time.Second)); err != nil {
		return in, &provider.CapacityError{Claim: l.claim.Name, Attempts: l.attempts}
	}
	if fresh := l.p.quota.read(); fresh.taken.After(l.in.quota.taken) {
		l.in.quota, l.attempts = fresh, nil
		in, _, err = l.walk(ctx)
	}
	return in, err
}

// walk tries the choices in order. It reports whether any was left out for want
// of quota by our own books.
func (l *launch) walk(ctx context.Context) (in provider.Instance, short bool, err error) {
	for _, choice := range l.claim.Choices {
		m := l.types.byName[choice.Type]
		o := m.offer(choice)
		if o == nil {
			l.refused(choice, "NotOffered", reasonRestricted, "the node class cannot be bought this way")
			continue
		}
		if attempt, refused := l.remembered(m.sku, o, choice); refused {
			l.attempts = append(l.attempts, attempt)
			continue
		}
		if wait := l.mayBuy(); wait > 0 {
			in := l.waiting()
			in.RetryAfter = wait
			return in, false, nil
		}
		if budget, ok := l.p.ledger.reserve(l.name, o.Draws, l.in.quota.value, l.in.quota.taken); !ok {
			l.refused(choice, "QuotaReserved", reasonQuota, "not enough left of quota "+budget)
			short = true
			continue
		}
		if l.requests++; l.requests > maxAttempts {
			l.p.ledger.cancel(l.name)
			return l.waiting(), false, nil
		}
		in, done, err := l.try(ctx, m, choice)
		if done || err != nil {
			return in, false, err
		}
	}
	l.p.forgetBuying(l.name)
	return provider.Instance{}, short, &provider.CapacityError{Claim: l.claim.Name, Attempts: l.attempts}
}

// offer is the offer a choice names; nil when the type is not sold that way.
func (m *machineType) offer(c offer.Choice) *offer.Offer {
	if m == nil {
		return nil
	}
	for i := range m.offered.Offers {
		if o := &m.offered.Offers[i]; o.Zone == c.Zone && o.CapacityType == c.CapacityType {
			return o
		}
	}
	return nil
}

func (l *launch) refused(choice offer.Choice, code, reason, detail string) {
	l.attempts = append(l.attempts, provider.Attempt{Choice: choice, Code: code, Reason: reason, Detail: detail})
}

// remembered says whether what we know already speaks against a choice.
func (l *launch) remembered(s *sku, o *offer.Offer, choice offer.Choice) (provider.Attempt, bool) {
	if b, ok := l.p.stockouts.recall(s, o.Zone, o.CapacityType, l.subnet()); ok {
		return provider.Attempt{Choice: choice, Code: b.code, Reason: b.reason, Detail: b.words}, true
	}
	if why := l.p.unavailable(s, o, nil, l.in.quota.value, ""); why != "" {
		reason := reasonQuota
		if s.barred != "" || len(s.barredZones) > 0 {
			reason = reasonRestricted
		}
		return provider.Attempt{Choice: choice, Code: "NotAvailable", Reason: reason, Detail: why}, true
	}
	return provider.Attempt{}, false
}

func (l *launch) subnet() string { return strings.ToLower(l.p.subnetOf(l.class)) }

// try buys one choice. It reports false when it was refused and the next may be tried.
func (l *launch) try(ctx context.Context, m *machineType, choice offer.Choice) (provider.Instance, bool, error) {
	err := l.create(ctx, m, choice)
	if err == nil {
		return l.bought(m, choice), true, nil
	}
	var notReady *provider.NotReadyError
	if errors.As(err, &notReady) || errors.Is(err, errBeforeRequest) {
		l.p.ledger.cancel(l.name)
		return provider.Instance{}, false, fmt.Errorf("launching %s: %w", l.claim.Name, err)
	}
	return l.answer(classify(err), m, choice)
}

// answer acts on a refused or failed purchase.
func (l *launch) answer(r refusal, m *machineType, choice offer.Choice) (provider.Instance, bool, error) {
	l.attempts = append(l.attempts, provider.Attempt{Choice: choice, Code: r.code, Reason: r.reason(), Detail: r.detail})
	if r.kind == transient {
		// The machine may exist. Only a list from now on can tell.
		l.p.ledger.settle(l.name, l.p.opts.Now())
		l.p.flights.put(l.name, flight{asked: l.p.opts.Now()})
		return provider.Instance{}, false, wrap(r.err, "launching %s: buying %s", l.claim.Name, choice.Type)
	}
	l.p.ledger.cancel(l.name)
	switch r.kind {
	case exists:
		// Another process was faster. The next call finds its machine in the list.
		l.p.flights.put(l.name, flight{asked: l.p.opts.Now()})
		return l.waiting(), true, nil
	case throttled, inUse, staleReference:
		in := l.waiting()
		in.RetryAfter = max(in.RetryAfter, r.retryAfter)
		return in, true, nil
	}
	if !r.ofOffer() {
		return provider.Instance{}, false, wrap(r.err, "launching %s: buying %s", l.claim.Name, choice.Type)
	}
	l.p.stockouts.learn(r, m.sku, choice.Zone, choice.CapacityType, l.subnet())
	l.p.opts.Log.Info("machine refused", slog.String("claim", l.claim.Name), slog.String("size", choice.Type),
		slog.String("zone", choice.Zone), slog.String("capacityType", choice.CapacityType), slog.String("code", r.code))
	return l.further(r)
}

// further goes on to the next choice, unless the same unknown refusal came for
// three choices running: then it is not the offer that is wrong.
func (l *launch) further(r refusal) (provider.Instance, bool, error) {
	if r.kind != otherRefusal {
		l.strange = 0
		return provider.Instance{}, false, nil
	}
	if l.strange++; l.strange < 3 {
		return provider.Instance{}, false, nil
	}
	return provider.Instance{}, false, wrap(r.err, "launching %s: three choices were refused alike", l.claim.Name)
}

// bought describes a machine the cloud has accepted a moment ago.
func (l *launch) bought(m *machineType, choice offer.Choice) provider.Instance {
	in := l.waiting()
	in.ProviderID = providerID(l.p.opts.SubscriptionID, l.p.opts.NodeResourceGroup, l.name)
	in.Type, in.Zone, in.CapacityType = choice.Type, choice.Zone, choice.CapacityType
	in.Created, in.Memory = l.p.opts.Now(), l.accepted
	in.ImageID, _ = imageFor(l.class.Status.Images, m.sku)
	m.describe(&in)
	l.p.opts.Log.Info("machine bought", slog.String("claim", l.claim.Name), slog.String("machine", l.name), slog.String("size", choice.Type),
		slog.String("zone", choice.Zone), slog.String("capacityType", choice.CapacityType), slog.Int("refused", len(l.attempts)))
	return in
}

// waiting describes a machine that is not there yet. It has no provider ID: none
// may be recorded before the cloud has accepted a machine.
func (l *launch) waiting() provider.Instance {
	return provider.Instance{
		Name: l.name, NodeName: l.name, ClaimName: l.claim.Name, ClaimUID: l.claim.UID, Pool: l.claim.Pool,
		State: provider.Creating, RetryAfter: l.p.opts.PollEvery, Attempts: l.attempts,
	}
}

// follow says how an existing machine stands.
func (l *launch) follow(ctx context.Context, vm *armcompute.VirtualMachine) (provider.Instance, error) {
	switch text(vm.Properties.ProvisioningState) {
	case stateFailed:
		return l.failed(ctx)
	case stateDeleting:
		return l.waiting(), nil
	}
	in := l.p.instance(ctx, vm)
	in.Memory = l.memory()
	if in.ClaimUID == "" { // inherited
		in.ClaimUID = l.claim.UID
		l.p.describe(ctx, &in, l.claim.Class)
	}
	if in.State == provider.Running {
		l.p.flights.drop(l.name)
		return in, nil
	}
	in.RetryAfter = l.p.opts.PollEvery
	return in, nil
}

// failed finds out why a machine never came up, remembers it, and gives it back
// so that the next call can try the next choice. A machine with power has not
// failed, whatever operation on it did.
func (l *launch) failed(ctx context.Context) (provider.Instance, error) {
	if !l.p.mayDelete(l.name) {
		return l.waiting(), nil // it is told of once it can go
	}
	vm, err := l.p.readMachine(ctx, l.name)
	if errors.Is(err, provider.ErrNotFound) {
		return l.waiting(), nil
	}
	if err != nil {
		return provider.Instance{}, err
	}
	if state(vm) != provider.Failed {
		in := l.p.instance(ctx, vm)
		in.Memory = l.memory()
		return in, nil
	}
	choice := l.p.choiceOf(vm)
	r := l.whyFailed(ctx, vm)
	if s := l.in.skus.value.byName[choice.Type]; s != nil {
		l.p.stockouts.learn(r, s, choice.Zone, choice.CapacityType, l.subnet())
	}
	l.refused(choice, r.code, r.reason(), r.detail)
	l.p.opts.Log.Info("machine failed", slog.String("claim", l.claim.Name), slog.String("machine", l.name),
		slog.String("size", choice.Type), slog.String("zone", choice.Zone), slog.String("code", r.code))
	if err := l.p.remove(ctx, l.name, vm); err != nil {
		return provider.Instance{}, err
	}
	in := l.waiting()
	in.Memory = l.forgotten()
	return in, nil
}

// whyFailed reads the failure from the operation, as this process or the claim
// remembers it, and from the machine's own status otherwise.
func (l *launch) whyFailed(ctx context.Context, vm *armcompute.VirtualMachine) refusal {
	if op := l.p.flights.get(l.name).operation; op != nil {
		if _, err := op.Poll(ctx); err == nil && op.Done() {
			if _, err := op.Result(ctx); err != nil {
				return failure(classify(err))
			}
		}
	}
	if r, ok := l.noted(ctx, l.p.choiceOf(vm)); ok {
		return failure(r)
	}
	for _, s := range statuses(vm) {
		if code, ok := strings.CutPrefix(text(s.Code), "ProvisioningState/failed/"); ok {
			return failure(understand(code, text(s.Message)))
		}
	}
	return refusal{kind: otherRefusal, code: "ProvisioningFailed", detail: "Azure does not say why"}
}

// failure makes sure that a failed machine's offer rests for a while, whatever
// the code: the machine is there and has failed, so asking again at once is no use.
func failure(r refusal) refusal {
	if !r.ofOffer() {
		r.kind = otherRefusal
	}
	return r
}
