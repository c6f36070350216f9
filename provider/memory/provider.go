// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

// Provider launches instances in a Cloud. It remembers late outages as long as it exists, as a
// real provider would for a while.
type Provider struct {
	cloud *Cloud

	mu              sync.Mutex
	failed          map[offering.Ref]bool // by type, zone and capacity type
	lastCatalog     *provider.Catalog
	typesAtCatalog  []offering.InstanceType // the cloud's types that lastCatalog was made from
	failedAtCatalog int                     // len(failed) at that time
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Drifter  = (*Provider)(nil)
	_ provider.Repairer = (*Provider)(nil)

	_ provider.Recognizer = (*Provider)(nil)
)

// New makes a provider that has never seen the cloud before.
func New(c *Cloud) *Provider {
	return &Provider{cloud: c, failed: map[offering.Ref]bool{}}
}

// Name returns the provider's name in metrics and logs.
func (p *Provider) Name() string { return "memory" }

// call applies the cloud's latency and faults.
func (p *Provider) call(ctx context.Context, op string) error {
	c := p.cloud
	if c.opts.Call > 0 {
		timer := time.NewTimer(c.opts.Call)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	c.calls[op]++
	fault := c.fault
	c.mu.Unlock()
	if fault != nil {
		return fault(op)
	}
	return nil
}

// renewAfter is the age from which a catalog is renewed even if nothing has changed.
const renewAfter = 10 * time.Minute

// Catalog returns the same catalog for every class.
func (p *Provider) Catalog(ctx context.Context, _ string) (*provider.Catalog, error) {
	if err := p.call(ctx, "catalog"); err != nil {
		return nil, err
	}
	p.cloud.mu.Lock()
	p.cloud.sweep()
	types, left := p.cloud.types, p.cloud.left()
	p.cloud.mu.Unlock()

	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.lastCatalog
	next := provider.Catalog{Types: p.available(types), QuotaLeft: left, Taken: time.Now(), Listed: time.Now()}
	if old != nil && same(old.Types, next.Types) && maps.Equal(old.QuotaLeft, left) && next.Taken.Sub(old.Taken) < renewAfter {
		return old, nil
	}
	p.lastCatalog = &next
	return p.lastCatalog, nil
}

// available marks the offerings that this provider knows to fail, besides those that the cloud
// shows as unavailable.
func (p *Provider) available(types []offering.InstanceType) []offering.InstanceType {
	if p.lastCatalog != nil && same(p.typesAtCatalog, types) && p.failedAtCatalog == len(p.failed) {
		return p.lastCatalog.Types
	}
	p.typesAtCatalog, p.failedAtCatalog = types, len(p.failed)
	if len(p.failed) == 0 {
		return types
	}
	types = slices.Clone(types)
	for i := range types {
		types[i].Offerings = slices.Clone(types[i].Offerings)
		for j := range types[i].Offerings {
			if o := &types[i].Offerings[j]; p.failed[key(choice(types[i], *o))] {
				o.Unavailable = "failed lately"
			}
		}
	}
	return types
}

// same reports whether two slices share their first element and length.
func same(a, b []offering.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// key leaves out the price, which does not identify an offering.
func key(c offering.Ref) offering.Ref {
	c.Price, c.Extras = 0, 0
	return c
}

// Launch launches the first offering that the cloud accepts, or reports the state of the instance
// that exists already.
func (p *Provider) Launch(ctx context.Context, claim provider.Claim) (provider.Instance, error) {
	if claim.UID == "" || len(claim.Offerings) == 0 {
		return provider.Instance{}, fmt.Errorf("launching %s: the claim needs a UID and offerings", claim.Name)
	}
	if err := p.call(ctx, "launch"); err != nil {
		return provider.Instance{}, err
	}
	c := p.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	name := instanceName(claim)
	m := c.instances[name]
	if m == nil {
		return p.launchFirst(name, claim)
	}
	return p.follow(name, m), nil
}

// instanceName returns a name that depends on the claim alone, so that every provider finds the
// instance.
func instanceName(claim provider.Claim) string { return claim.Name + "-" + claim.UID }

func (p *Provider) launchFirst(name string, claim provider.Claim) (provider.Instance, error) {
	var attempts []provider.RefusedOffering
	for _, choice := range claim.Offerings {
		m, refusal := p.tryOffering(claim, choice)
		if refusal != nil {
			attempts = append(attempts, *refusal)
			continue
		}
		p.cloud.instances[name] = m
		p.cloud.launched++
		in := p.follow(name, m)
		in.Refused = append(attempts, in.Refused...)
		return in, nil
	}
	return provider.Instance{}, &provider.CapacityError{Claim: claim.Name, Refused: attempts}
}

func (p *Provider) tryOffering(claim provider.Claim, choice offering.Ref) (*vm, *provider.RefusedOffering) {
	refuse := func(code, reason string) (*vm, *provider.RefusedOffering) {
		return nil, &provider.RefusedOffering{Offering: choice, Code: code, Reason: reason, Detail: reason + " for " + choice.Type}
	}
	c := p.cloud
	t, err := c.typeByName(choice.Type)
	if err != nil || offered(t, choice) == nil {
		return refuse("NotOffered", "Restricted")
	}
	if c.isOut(choice, false) || p.hasFailed(choice) {
		return refuse("OutOfStock", "OutOfStock")
	}
	left := c.left()
	for _, d := range quotaUses(t, choice) {
		if n, limited := left[d.Quota]; limited && n < d.Amount {
			return refuse("QuotaExceeded", "Quota")
		}
	}
	return &vm{claim: claim, choice: choice, typ: t, image: c.image, created: time.Now(), fails: c.isOut(choice, true)}, nil
}

func (p *Provider) hasFailed(choice offering.Ref) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed[key(choice)]
}

// follow reports an existing instance, and deletes one that failed.
func (p *Provider) follow(name string, m *vm) provider.Instance {
	in := p.cloud.describe(name, m)
	switch in.State {
	case provider.Failed:
		p.mu.Lock()
		p.failed[key(m.choice)] = true
		p.mu.Unlock()
		m.deleted = time.Now()
		in.Refused = []provider.RefusedOffering{{Offering: m.choice, Code: "AllocationFailed", Reason: "OutOfStock", Detail: "the instance never started"}}
		fallthrough
	case provider.Terminating:
		in.State, in.ProviderID, in.RetryAfter = provider.Creating, "", p.cloud.opts.RetryAfter
	}
	return in
}

// describe returns the present state of an instance.
func (c *Cloud) describe(name string, m *vm) provider.Instance {
	in := provider.Instance{
		ProviderID: idPrefix + name, Name: name, NodeName: name,
		ClaimName: m.claim.Name, ClaimUID: m.claim.UID, Pool: m.claim.Pool,
		State: c.state(m), Type: m.choice.Type, Zone: m.choice.Zone, CapacityType: m.choice.CapacityType,
		ImageID: m.image, Labels: map[string]string{}, Created: m.created,
		Capacity: maps.Clone(m.typ.Capacity), Allocatable: m.typ.Capacity.Sub(m.typ.Overhead),
	}
	for k, values := range m.typ.Labels {
		if len(values) == 1 {
			in.Labels[k] = values[0]
		}
	}
	if o := offered(m.typ, m.choice); o != nil {
		in.Price = o.Price
	}
	if in.State == provider.Creating {
		in.RetryAfter = c.opts.RetryAfter
	}
	return in
}

func (c *Cloud) state(m *vm) provider.State {
	switch {
	case !m.deleted.IsZero():
		return provider.Terminating
	case m.stopped:
		return provider.Stopped
	case time.Since(m.created) < c.opts.Create:
		return provider.Creating
	case m.fails:
		return provider.Failed
	}
	return provider.Running
}

// Get finds one instance.
func (p *Provider) Get(ctx context.Context, providerID string) (provider.Instance, error) {
	if err := p.call(ctx, "get"); err != nil {
		return provider.Instance{}, err
	}
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	m := p.cloud.find(providerID)
	if m == nil {
		return provider.Instance{}, missing(providerID)
	}
	return p.cloud.describe(nameOf(providerID), m), nil
}

// Recognizes reports whether a provider ID is of a cloud in memory.
func (p *Provider) Recognizes(providerID string) bool { return nameOf(providerID) != "" }

// List returns all instances, by name.
func (p *Provider) List(ctx context.Context) ([]provider.Instance, error) {
	if err := p.call(ctx, "list"); err != nil {
		return nil, err
	}
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	p.cloud.sweep()
	var list []provider.Instance
	for _, name := range slices.Sorted(maps.Keys(p.cloud.instances)) {
		list = append(list, p.cloud.describe(name, p.cloud.instances[name]))
	}
	return list, nil
}

// Terminate deletes an instance.
func (p *Provider) Terminate(ctx context.Context, providerID string) error {
	if err := p.call(ctx, "terminate"); err != nil {
		return err
	}
	return p.cloud.deleteInstance(providerID)
}

// TerminateByClaim deletes the instance of a claim, if there is one.
func (p *Provider) TerminateByClaim(ctx context.Context, claim provider.Claim) error {
	if err := p.call(ctx, "terminateByClaim"); err != nil {
		return err
	}
	return p.cloud.deleteInstance(idPrefix + instanceName(claim))
}

func (c *Cloud) deleteInstance(providerID string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(providerID)
	if m == nil {
		return missing(providerID)
	}
	if m.deleted.IsZero() {
		m.deleted = time.Now()
	}
	return nil
}

// missing returns the error for a provider ID that no instance has.
func missing(providerID string) error {
	if nameOf(providerID) == "" {
		return provider.ErrForeign
	}
	return provider.ErrNotFound
}
