// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

func (r *run) catalogIsSane() {
	s := r.catalog()
	if s.Taken.IsZero() || len(s.Types) == 0 {
		r.Fatalf("the catalog has %d types and was taken at %v", len(s.Types), s.Taken)
	}
	seen := map[string]bool{}
	for _, t := range s.Types {
		if seen[t.Name] {
			r.Errorf("type %s is listed twice", t.Name)
		}
		seen[t.Name] = true
		r.typeIsSane(s, t)
	}
}

func (r *run) typeIsSane(s *provider.Catalog, t offering.InstanceType) {
	if t.Name == "" || len(t.Offerings) == 0 || len(t.Labels["kubernetes.io/arch"]) == 0 {
		r.Errorf("type %q has %d offerings and architecture %v", t.Name, len(t.Offerings), t.Labels["kubernetes.io/arch"])
	}
	for name, n := range t.Capacity.Sub(t.Overhead) {
		if n < 0 || n == 0 && t.Capacity[name] > 0 {
			r.Errorf("type %s: %d of %d %s is left for pods", t.Name, n, t.Capacity[name], name)
		}
	}
	for _, name := range []string{"cpu", "memory", "pods", "ephemeral-storage"} {
		if t.Capacity[name] <= 0 {
			r.Errorf("type %s: capacity of %s is %d", t.Name, name, t.Capacity[name])
		}
	}
	onDemand := map[string]offering.Price{}
	seen := map[string]bool{}
	for _, o := range t.Offerings {
		id := o.Zone + "/" + o.CapacityType
		if seen[id] || o.Zone == "" || o.CapacityType != offering.OnDemand && o.CapacityType != offering.Spot {
			r.Errorf("type %s: offering %q is listed twice or malformed", t.Name, id)
		}
		seen[id] = true
		if o.Price <= 0 {
			r.Errorf("type %s: offering %s costs %v", t.Name, id, o.Price)
		}
		if o.Extras < 0 || o.Extras > o.Price {
			r.Errorf("type %s: offering %s costs %v, of which %v is not the instance", t.Name, id, o.Price, o.Extras)
		}
		if o.CapacityType == offering.OnDemand {
			onDemand[o.Zone] = o.Price
		}
	}
	for _, o := range t.Offerings {
		if full, ok := onDemand[o.Zone]; ok && o.CapacityType == offering.Spot && o.Price > full {
			r.Errorf("type %s: spot in %s costs %v, more than on demand (%v)", t.Name, o.Zone, o.Price, full)
		}
		for _, d := range o.QuotaUses {
			if d.Amount <= 0 || d.Quota == "" {
				r.Errorf("type %s: offering %s/%s uses %+v", t.Name, o.Zone, o.CapacityType, d)
			}
		}
	}
	for quota, n := range s.QuotaLeft {
		if n < 0 {
			r.Errorf("quota %s is %d", quota, n)
		}
	}
}

func (r *run) catalogIsStable() {
	first := r.catalog()
	if second := r.catalog(); first != second {
		r.Errorf("nothing changed, and the catalog is another one")
	}
	cheapest := r.choices()[0]
	r.StockOut(r.T, cheapest, true)
	if _, _, err := r.launchToEnd(r.p, r.claim("a", cheapest)); !isCapacity(err) {
		r.Fatalf("launching what is out of stock: %v", err)
	}
	after := r.catalog()
	if after == first {
		r.Fatal("an offering failed, and the catalog is the same one")
	}
	if offered(after, cheapest).Unavailable == "" {
		r.Errorf("%+v failed, and is still available in the catalog", cheapest)
	}
}

// offered returns the offering that c refers to; the zero Offering when there is none.
func offered(s *provider.Catalog, c offering.Ref) offering.Offering {
	for _, t := range s.Types {
		for _, o := range t.Offerings {
			if t.Name == c.Type && o.Zone == c.Zone && o.CapacityType == c.CapacityType {
				return o
			}
		}
	}
	return offering.Offering{}
}

func isCapacity(err error) bool { return errors.As(err, new(*provider.CapacityError)) }

func (r *run) launchRuns() {
	c := r.choices()[0]
	claim := r.claim("a", c)
	in := r.launch(claim)
	got := offering.Ref{Type: in.Type, Zone: in.Zone, CapacityType: in.CapacityType, Price: in.Price, Extras: c.Extras}
	r.equal("the launched offering", c, got)
	if in.ProviderID == "" || in.NodeName == "" || in.ImageID == "" || in.Created.IsZero() {
		r.Errorf("the instance lacks its provider ID, node name, image or time: %+v", in)
	}
	r.equal("claim of the instance", []string{"a", claim.UID, "pool"}, []string{in.ClaimName, in.ClaimUID, in.Pool})
	for _, t := range r.catalog().Types {
		if t.Name == c.Type {
			r.equal("capacity", t.Capacity, in.Capacity)
			r.equal("allocatable", t.Capacity.Sub(t.Overhead), in.Allocatable)
		}
	}
	r.wantOne(claim)
}

func (r *run) launchRepeats() {
	claim := r.claim("a", r.choices()[:3]...)
	first := r.launch(claim)
	for range 5 {
		if again := r.launch(claim); again.ProviderID != first.ProviderID {
			r.Fatalf("launched again, the claim has %s beside %s", again.ProviderID, first.ProviderID)
		}
	}
	r.wantOne(claim)
}

func (r *run) launchConcurrently() {
	claim := r.claim("a", r.choices()[:3]...)
	providers := []provider.Provider{r.p, r.Open(r.T)}
	r.each(8, func(i int) error {
		_, _, err := r.launchToEnd(providers[i%2], claim)
		return err
	})
	r.wantOne(claim)
}

func (r *run) launchAcrossRestarts() {
	claim := r.claim("a", r.choices()[:3]...)
	ids := map[string]bool{}
	for range 5 {
		in, err := r.Open(r.T).Launch(r.Context(), claim)
		r.must(err)
		if in.ProviderID != "" {
			ids[in.ProviderID] = true
		}
	}
	ids[r.launch(claim).ProviderID] = true
	if len(ids) != 1 {
		r.Errorf("the claim had several instances: %v", ids)
	}
	r.wantOne(claim)
}

// launchRemembers restarts after a launch: with the LaunchState that was to be kept, without it,
// and with other values in its place.
func (r *run) launchRemembers() {
	for name, tamper := range map[string]func(map[string]string){
		"kept": func(map[string]string) {}, "lost": func(m map[string]string) { clear(m) },
		"spoilt": func(m map[string]string) {
			for key := range m {
				m[key] = `{"url":"https://example.com/"}`
			}
		},
	} {
		choices := r.distinct(2)
		r.StockOut(r.T, choices[0], true)
		claim := r.claim(name, choices...)
		claim.LaunchState = map[string]string{}
		in, p := provider.Instance{}, r.p
		for i := range steps {
			if i == 1 {
				p = r.Open(r.T)
			}
			var err error
			in, err = p.Launch(r.Context(), claim)
			r.must(err)
			if in.State == provider.Running {
				break
			}
			r.storeLaunchState(claim.LaunchState, in.LaunchState)
			tamper(claim.LaunchState)
			r.pause(in.RetryAfter)
		}
		if in.State != provider.Running || in.ClaimUID != claim.UID {
			r.Fatalf("%s: the claim has %+v", name, in)
		}
		r.terminate(func() error { return p.Terminate(r.Context(), in.ProviderID) })
		r.wantNothing()
		r.p = r.Open(r.T) // the new provider has not learned what is out of stock
	}
}

// storeLaunchState stores Instance.LaunchState as the claim's LaunchState.
func (r *run) storeLaunchState(into, state map[string]string) {
	r.Helper()
	size := 0
	for key, value := range state {
		if size += len(key) + len(value); !strings.HasPrefix(key, "karve.dev/") || size > 9<<10 {
			r.Errorf("launch state %s, %d bytes", key, size)
		}
		if into[key] = value; value == "" {
			delete(into, key)
		}
	}
}

func (r *run) launchNamesakes() {
	one := r.claim("a", r.choices()[0])
	two := one
	two.UID = "another"
	if r.launch(one).ProviderID == r.launch(two).ProviderID {
		r.Error("two claims share an instance")
	}
	if n := len(r.instances()); n != 2 {
		r.Errorf("two claims have %d instances", n)
	}
}

func (r *run) launchFailsOver() { r.failsOver(false) }

func (r *run) launchFailsOverLate() { r.failsOver(true) }

func (r *run) failsOver(late bool) {
	choices := r.distinct(3)
	r.StockOut(r.T, choices[0], late)
	r.StockOut(r.T, choices[1], late)
	claim := r.claim("a", choices...)
	in, attempts, err := r.launchToEnd(r.p, claim)
	r.must(err)
	if in.Type != choices[2].Type || in.Zone != choices[2].Zone || in.CapacityType != choices[2].CapacityType {
		r.Errorf("launched %s in %s (%s), want %+v", in.Type, in.Zone, in.CapacityType, choices[2])
	}
	if len(attempts) == 0 || attempts[0].Offering.Type != choices[0].Type || attempts[0].Code == "" || attempts[0].Reason == "" {
		r.Errorf("the refusals are not reported: %+v", attempts)
	}
	r.wantOne(claim)
	r.terminate(func() error { return r.p.Terminate(r.Context(), in.ProviderID) })
	r.wantNothing()
}

// distinct returns n offerings whose types use different quotas, the cheapest of each, so that
// what a provider learns about one says nothing about the next.
func (r *run) distinct(n int) []offering.Ref {
	r.Helper()
	var out []offering.Ref
	families := map[string]bool{}
	quotas := map[string]string{}
	for _, t := range r.catalog().Types {
		for _, o := range t.Offerings {
			if o.CapacityType == offering.OnDemand && len(o.QuotaUses) > 0 {
				quotas[t.Name] = o.QuotaUses[0].Quota
			}
		}
	}
	for _, c := range r.choices() {
		if c.CapacityType == offering.OnDemand && !families[quotas[c.Type]] {
			families[quotas[c.Type]] = true
			out = append(out, c)
		}
	}
	if len(out) < n {
		r.Fatalf("the catalog has %d families, the law needs %d", len(out), n)
	}
	return out[:n]
}

func (r *run) capacityErrorLeavesNothing() { r.capacityError(false) }

func (r *run) lateCapacityErrorLeavesNothing() { r.capacityError(true) }

func (r *run) capacityError(late bool) {
	choices := r.distinct(2)
	for _, c := range choices {
		r.StockOut(r.T, c, late)
	}
	_, _, err := r.launchToEnd(r.p, r.claim("a", choices...))
	var capacity *provider.CapacityError
	if !errors.As(err, &capacity) {
		r.Fatalf("launching what is out of stock: %v, want a CapacityError", err)
	}
	if len(capacity.Refused) != 2 {
		r.Errorf("the error has %d attempts, want 2: %+v", len(capacity.Refused), capacity.Refused)
	}
	r.wantNothing()
}

func (r *run) launchCancelled() {
	claim := r.claim("a", r.choices()[0])
	if _, err := r.p.Launch(r.cancelled(), claim); !errors.Is(err, context.Canceled) {
		r.Fatalf("launching with a context that has ended: %v", err)
	}
	r.launch(claim)
	r.wantOne(claim)
}

func (r *run) listAndGet() {
	choices := r.distinct(2)
	for i, c := range choices {
		r.launch(r.claim(fmt.Sprintf("claim-%d", i), c))
	}
	list := r.instances()
	if len(list) != 2 {
		r.Fatalf("list has %d instances, want 2", len(list))
	}
	for _, listed := range list {
		got, err := r.p.Get(r.Context(), listed.ProviderID)
		r.must(err)
		got.RetryAfter, listed.RetryAfter = 0, 0
		r.equal("get against list", listed, got)
	}
}

func (r *run) terminateLeavesNothing() {
	in := r.launch(r.claim("a", r.choices()[0]))
	if len(r.Residue(r.T)) == 0 {
		r.Fatal("the harness does not see the instance")
	}
	r.terminate(func() error { return r.p.Terminate(r.Context(), in.ProviderID) })
	if _, err := r.p.Get(r.Context(), in.ProviderID); !errors.Is(err, provider.ErrNotFound) {
		r.Errorf("getting a terminated instance: %v", err)
	}
	r.wantNothing()
	if err := r.p.Terminate(r.Context(), in.ProviderID); !errors.Is(err, provider.ErrNotFound) {
		r.Errorf("terminating a terminated instance: %v", err)
	}
}

func (r *run) notFound() {
	in := r.launch(r.claim("a", r.choices()[0]))
	other := in.ProviderID + "-not"
	if _, err := r.p.Get(r.Context(), other); !errors.Is(err, provider.ErrNotFound) {
		r.Errorf("get: %v", err)
	}
	if err := r.p.Terminate(r.Context(), other); !errors.Is(err, provider.ErrNotFound) {
		r.Errorf("terminate: %v", err)
	}
	if err := r.p.TerminateByClaim(r.Context(), r.claim("never-launched", r.choices()[0])); !errors.Is(err, provider.ErrNotFound) {
		r.Errorf("terminate by claim: %v", err)
	}
}

func (r *run) foreign() {
	in := r.launch(r.claim("a", r.choices()[0]))
	knows, ok := r.p.(provider.Recognizer)
	if ok && !knows.Recognizes(in.ProviderID) {
		r.Errorf("%q is not recognized", in.ProviderID)
	}
	for _, id := range []string{"other:///region/i-1", "other", "/"} {
		if ok && knows.Recognizes(id) {
			r.Errorf("%q is recognized", id)
		}
		if _, err := r.p.Get(r.Context(), id); !errors.Is(err, provider.ErrForeign) || !errors.Is(err, provider.ErrNotFound) {
			r.Errorf("get %q: %v", id, err)
		}
		if err := r.p.Terminate(r.Context(), id); !errors.Is(err, provider.ErrForeign) || !errors.Is(err, provider.ErrNotFound) {
			r.Errorf("terminate %q: %v", id, err)
		}
	}
}

func (r *run) terminateByClaim() {
	claim := r.claim("a", r.choices()[0])
	_, err := r.p.Launch(r.Context(), claim)
	r.must(err)
	restarted := r.Open(r.T)
	r.terminate(func() error { return restarted.TerminateByClaim(r.Context(), claim) })
	r.p = restarted
	r.wantNothing()
}

func (r *run) quotas() {
	c := r.distinct(1)[0]
	before := r.catalog().QuotaLeft
	in := r.launch(r.claim("a", c))
	r.equal("quota while the instance runs", minus(before, offered(r.catalog(), c).QuotaUses), r.catalog().QuotaLeft)
	r.terminate(func() error { return r.p.Terminate(r.Context(), in.ProviderID) })
	r.equal("quota after it is gone", before, r.catalog().QuotaLeft)
}

func minus(quotas map[string]int64, uses []offering.QuotaUse) map[string]int64 {
	out := map[string]int64{}
	for name, n := range quotas {
		out[name] = n
	}
	for _, d := range uses {
		if _, limited := out[d.Quota]; limited {
			out[d.Quota] -= d.Amount
		}
	}
	return out
}

func (r *run) launchMany() {
	const n = 40
	choices := r.choices()[:3]
	ids := make([]string, n)
	r.each(n, func(i int) error {
		in, _, err := r.launchToEnd(r.p, r.claim(fmt.Sprintf("claim-%d", i), choices...))
		ids[i] = in.ProviderID
		return err
	})
	distinct := map[string]bool{}
	for _, id := range ids {
		distinct[id] = true
	}
	if len(distinct) != n || len(r.instances()) != n {
		r.Errorf("%d claims have %d provider IDs and %d instances", n, len(distinct), len(r.instances()))
	}
	r.each(n, func(i int) error {
		for range steps {
			err := r.p.Terminate(r.Context(), ids[i])
			if errors.Is(err, provider.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			r.pause(0)
		}
		return fmt.Errorf("%s is not gone after %d steps", ids[i], steps)
	})
	r.wantNothing()
}
