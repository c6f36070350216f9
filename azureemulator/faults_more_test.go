// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// get is an answer to a read, its body unread.
func (b *bubble) get(path string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, nowhere+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.token)
	answer, err := b.InProcess().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

func (b *bubble) skus() string {
	return "/subscriptions/" + b.options.SubscriptionID + "/providers/Microsoft.Compute/skus?api-version=1"
}

func TestBodyThatDribbles(t *testing.T) {
	inBubble(t, Options{Sizes: []string{"Standard_D4s_v5"}}, func(b *bubble) {
		b.inject(NamedFault{Name: "SlowBody", Times: 2})
		began := time.Now()
		answer := b.get(b.skus())
		if took := time.Since(began); took != 0 || answer.StatusCode != http.StatusOK {
			t.Errorf("the headers came with status %d after %v, want them at once", answer.StatusCode, took)
		}
		if text, err := io.ReadAll(answer.Body); err != nil || !json.Valid(text) {
			t.Errorf("%v, %q", err, text)
		}
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("the body took %v, want 90 s", took)
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, nowhere+b.skus(), nil)
		r.Header.Set("Authorization", "Bearer "+b.token)
		answer, err := b.InProcess().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(answer.Body); err == nil || time.Since(began) != 120*time.Second {
			t.Errorf("who has 30 s of patience read on for %v: %v", time.Since(began)-90*time.Second, err)
		}
	})
}

// On the wire too a body comes in pieces, after its headers.
func TestBodyThatDribblesOnTheWire(t *testing.T) {
	a, err := Start(t.Context(), Options{TimeScale: 1e-4, Sizes: []string{"Standard_D4s_v5"}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Inject(NamedFault{Name: "SlowBody"}); err != nil {
		t.Fatal(err)
	}
	resp, err := a.Client().Get(a.URL() + "/api/retail/prices")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !json.Valid(text) || resp.ContentLength >= 0 {
		t.Errorf("%v, length %d, %d bytes", err, resp.ContentLength, len(text))
	}
}

// Of two answers that are struck the second comes first; one that nobody overtakes comes
// after half a minute.
func TestReorderedAnswers(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: "ReorderedAnswers", Times: 3})
		began := time.Now()
		first := make(chan time.Duration)
		go func() {
			b.try("GET", b.path(vmKind, "first"), "")
			first <- time.Since(began)
		}()
		time.Sleep(5 * time.Second)
		b.try("GET", b.path(vmKind, "second"), "")
		second := time.Since(began)
		if took := <-first; second >= took || took != 6*time.Second {
			t.Errorf("the first after %v, the second after %v", took, second)
		}
		b.try("GET", b.path(vmKind, "third"), "")
		if took := time.Since(began); took != 36*time.Second {
			t.Errorf("the third came after %v, want 36 s", took)
		}
	})
}

func TestRefusalByAnotherClock(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: "TooManyRequestsByAnotherClock"})
		answer := b.get(b.path(vmKind, "vm"))
		until, err := http.ParseTime(answer.Header.Get("Retry-After"))
		said, err2 := http.ParseTime(answer.Header.Get("Date"))
		if err != nil || err2 != nil || answer.StatusCode != http.StatusTooManyRequests || until.Sub(said) != 10*time.Second || time.Until(said) < 2*time.Hour {
			t.Errorf("%d, told %v at %v: %v %v", answer.StatusCode, until, said, err, err2)
		}
	})
}

func TestIdsInOtherCase(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.running("vm")
		b.token = b.identity.issue("again", time.Now())
		b.inject(NamedFault{Name: "IdsInOtherCase"})
		_, shouted, _ := b.try("GET", b.path(vmKind, "vm"), "")
		_, said, _ := b.try("GET", b.path(vmKind, "vm"), "")
		if shouted == said || !strings.EqualFold(shouted, said) || !strings.Contains(shouted, "/SUBSCRIPTIONS/") || !strings.Contains(shouted, `"name":"vm"`) {
			t.Errorf("%s\n%s", shouted, said)
		}
	})
}

// A tenant's requests are refused while every subscription has some left.
func TestTenantIsThrottled(t *testing.T) {
	inBubble(t, Options{Throttle: true}, func(b *bubble) {
		b.try("GET", b.path(vmKind, "vm"), "")
		b.inject(NamedFault{Name: "ExhaustedTenant"})
		code, text, _ := b.try("GET", b.path(vmKind, "vm"), "")
		if code != http.StatusTooManyRequests || !strings.Contains(text, "TenantRequestsThrottled") {
			t.Errorf("%d %s", code, text)
		}
		time.Sleep(exhaustedFor + time.Second)
		if code, _, _ := b.try("GET", b.path(vmKind, "vm"), ""); code != http.StatusNotFound {
			t.Errorf("once others have left some: %d", code)
		}
	})
}

func TestVMsThatAreNeverDone(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: stuckUpdating})
		b.try("PUT", b.path(vmKind, "vm"), b.vmBody("vm"))
		time.Sleep(time.Hour)
		if v := b.named("vm"); v.Provisioning != updating || v.Power != running || b.State().Operations != 1 {
			t.Errorf("%+v, %d operations", v, b.State().Operations)
		}
		b.token = b.identity.issue("again", time.Now())
		b.try("DELETE", b.path(vmKind, "vm"), "")
		time.Sleep(10 * time.Minute)
		if n := len(b.State().VMs); n != 0 {
			t.Errorf("%d VMs after it was deleted", n)
		}
	})
}

func TestInterfaceWithoutItsVM(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: nicOrphaned})
		code, _, _ := b.try("PUT", b.path(vmKind, "vm"), b.vmBody("vm"))
		if state := b.State(); code != http.StatusInternalServerError || len(state.VMs) != 0 || len(state.NICs) != 1 || len(state.Disks) != 0 || len(state.Usages) != 0 {
			t.Fatalf("%d, %+v", code, state)
		}
		nic := b.path(nicKind, b.State().NICs[0].Name)
		if code, text, _ := b.try("DELETE", nic, ""); code != http.StatusBadRequest || !strings.Contains(text, "NicReservedForAnotherVm") {
			t.Errorf("at once: %d %s", code, text)
		}
		time.Sleep(3 * time.Minute)
		if code, _, _ := b.try("DELETE", nic, ""); code != http.StatusAccepted {
			t.Errorf("after three minutes: %d", code)
		}
		time.Sleep(time.Minute)
		if n := len(b.State().NICs); n != 0 {
			t.Errorf("%d interfaces", n)
		}
	})
}

func TestAddressesThatLinger(t *testing.T) {
	inBubble(t, Options{SubnetPrefix: "10.224.0.0/29"}, func(b *bubble) { // three addresses
		b.inject(NamedFault{Name: addressesLinger, Times: 3})
		for _, name := range []string{"a", "b", "c"} {
			b.running(name)
			b.try("DELETE", b.path(vmKind, name), "")
		}
		time.Sleep(2 * time.Minute)
		b.token = b.identity.issue("again", time.Now())
		free := func() int {
			b.clock.Lock()
			defer b.clock.Unlock()
			return b.Network.networks.subnet(b.SubnetID()).free()
		}
		if n := len(b.State().NICs); n != 0 || free() != 2 {
			t.Errorf("%d interfaces and %d addresses free, want none and 2: the last lingers", n, free())
		}
		if err := b.CheckInvariants(); err != nil {
			t.Error(err)
		}
		time.Sleep(lingers)
		if free() != 3 {
			t.Errorf("%d addresses free after %v", free(), lingers)
		}
	})
}

func TestCapacityThatComesAndGoes(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: "CapacityFlaps", Target: "Standard_D4s_v5", Times: -1})
		pattern := ""
		for i := range 8 {
			code, _, _ := b.try("PUT", b.path(vmKind, fmt.Sprint("vm-", i)), b.vmBody(fmt.Sprint("vm-", i)))
			pattern += map[int]string{http.StatusConflict: "x", http.StatusCreated: "."}[code]
			time.Sleep(10 * time.Second)
		}
		if pattern != "xx..xx.." {
			t.Errorf("every ten seconds: %s", pattern)
		}
	})
}

// A size that is retired is neither listed nor sold until the fault is lifted; then it is new.
func TestSizeIsRetired(t *testing.T) {
	inBubble(t, Options{Sizes: []string{"Standard_D4s_v5", "Standard_D8s_v5"}}, func(b *bubble) {
		listed := func() string { _, text, _ := b.try("GET", b.skus(), ""); return text }
		before := listed()
		b.inject(NamedFault{Name: "SizeRetired", Target: "Standard_D4s_*"})
		if now := listed(); strings.Contains(now, "Standard_D4s_v5") || !strings.Contains(now, "Standard_D8s_v5") {
			t.Errorf("still listed, or another is not: %s", now)
		}
		if code, text, _ := b.try("PUT", b.path(vmKind, "vm"), b.vmBody("vm")); code != http.StatusBadRequest || !strings.Contains(text, "The requested VM size") {
			t.Errorf("created: %d %s", code, text)
		}
		b.ClearFaults()
		if listed() != before {
			t.Error("it is not offered again")
		}
	})
}

func TestSizesNobodyKnows(t *testing.T) {
	inBubble(t, Options{Sizes: []string{"Standard_D4s_v5"}}, func(b *bubble) {
		b.inject(NamedFault{Name: "SizesAdded"})
		_, text, _ := b.try("GET", b.skus(), "")
		var list struct {
			Value []struct{ Name, Size, Family string }
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Value) != 2 || list.Value[1].Name != "Standard_D4s_v99" || list.Value[1].Family != "standardDSv99Family" {
			t.Errorf("%v: %+v", err, list)
		}
	})
}

func TestPricesThatAreMissingOrOver(t *testing.T) {
	inBubble(t, Options{Sizes: []string{"Standard_D4s_v5"}}, func(b *bubble) {
		type row struct{ EffectiveStartDate, EffectiveEndDate time.Time }
		rows := func() []row {
			var page struct{ Items []row }
			if err := json.NewDecoder(b.get("/api/retail/prices?$filter=armRegionName%20eq%20'eastus'").Body).Decode(&page); err != nil {
				t.Fatal(err)
			}
			return page.Items
		}
		all := rows()
		if len(all) < 2 || slices.ContainsFunc(all, func(r row) bool { return r.EffectiveStartDate.After(time.Now()) }) {
			t.Errorf("not in force at %v: %v", time.Now(), all)
		}
		b.inject(NamedFault{Name: "PricesMissing"})
		if some := rows(); len(some) != (len(all)+1)/2 {
			t.Errorf("%d of %d rows", len(some), len(all))
		}
		b.inject(NamedFault{Name: "PricesOutdated"})
		if old := rows(); len(old) != len(all) || !old[0].EffectiveEndDate.Before(time.Now()) || old[0].EffectiveEndDate.IsZero() {
			t.Errorf("in force until %v", old[0].EffectiveEndDate)
		}
	})
}

// Tokens that are too old before their time get no challenge that would say so.
func TestTokensExpireEarly(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: "TokensExpired"})
		answer := b.get(b.path(vmKind, "vm"))
		if challenge := answer.Header.Get("Www-Authenticate"); answer.StatusCode != http.StatusUnauthorized || challenge == "" || strings.Contains(challenge, "claims") {
			t.Errorf("%d %s", answer.StatusCode, challenge)
		}
		b.token = b.identity.issue("again", time.Now())
		if answer := b.get(b.path(vmKind, "vm")); answer.StatusCode != http.StatusNotFound {
			t.Errorf("with a new token: %d", answer.StatusCode)
		}
	})
}

// Faults of the metadata service strike nothing else, and those of everything else not it.
func TestMetadataIsSlow(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.running("vm")
		b.inject(NamedFault{Name: "MetadataSlow"})
		b.inject(NamedFault{Name: "TokensUnavailable", Target: ".", Times: 1})
		began := time.Now()
		if code, _ := b.ask("vm", eventsPath, "Metadata"); code != http.StatusOK || time.Since(began) != 6*time.Second {
			t.Errorf("%d after %v", code, time.Since(began))
		}
		if code, _ := b.ask("vm", eventsPath, "Metadata"); code != http.StatusOK || time.Since(began) != 6*time.Second {
			t.Errorf("%d after %v", code, time.Since(began))
		}
	})
}

// The SDK's managed identity has tokens of a VM's metadata service that Azure takes.
func TestManagedIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(t.Context(), Options{SystemNodes: 1, TimeScale: 1, ClientID: "0a5e0000-0000-0000-0000-000000000042"}) // the SDK keeps tokens by client
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		credential := func(id azidentity.ManagedIDKind) *azidentity.ManagedIdentityCredential {
			c, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
				ID: id, ClientOptions: policy.ClientOptions{Transport: &http.Client{Transport: s.MetadataOf(s.State().VMs[0].Name)}, Retry: policy.RetryOptions{MaxRetries: -1}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		scope := policy.TokenRequestOptions{Scopes: []string{"https://management.core.windows.net//.default"}}
		token, err := credential(azidentity.ClientID(s.ClientID())).GetToken(t.Context(), scope)
		if err != nil || time.Until(token.ExpiresOn) < 50*time.Minute {
			t.Fatalf("%v, good until %v", err, token.ExpiresOn)
		}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://azure/", nil)
		r.Header.Set("Authorization", "Bearer "+token.Token)
		if err := s.identity.authorise(r); err != nil {
			t.Error(err)
		}
		if _, err := credential(azidentity.ClientID("0a5e0000-0000-0000-0000-000000000043")).GetToken(t.Context(), scope); err == nil || !strings.Contains(err.Error(), "Identity not found") {
			t.Errorf("an identity that the VM does not have: %v", err)
		}
	})
}

// A seed decides what is struck of everything, alike each time.
func TestSeedsOfOtherFaults(t *testing.T) {
	pattern := func(n NamedFault) (which string) {
		inBubble(t, Options{}, func(b *bubble) {
			b.inject(n)
			for i := range 24 {
				name := fmt.Sprint("vm-", i)
				code, _, _ := b.try("PUT", b.path(vmKind, name), b.vmBody(name))
				time.Sleep(2 * time.Minute)
				which += map[bool]string{true: ".", false: "x"}[code == http.StatusCreated && b.named(name).Provisioning == succeeded]
			}
			b.token = b.identity.issue("again", time.Now())
		})
		return which
	}
	for _, name := range []string{SkuNotAvailable, ZonalAllocationFailed, stuckCreating, nicOrphaned} {
		first, again, other := pattern(NamedFault{Name: name, Times: -1, Seed: 3}), pattern(NamedFault{Name: name, Times: -1, Seed: 3}), pattern(NamedFault{Name: name, Times: -1, Seed: 4})
		if n := strings.Count(first, "x"); first != again || first == other || n < 3 || n > 15 {
			t.Errorf("%s: %s, again %s, with another seed %s", name, first, again, other)
		}
	}
}

func TestSeedsOfVMsAndMoments(t *testing.T) {
	struck := func(seed uint64) (machines string, after time.Duration) {
		inBubble(t, Options{}, func(b *bubble) {
			for i := range 8 {
				b.try("PUT", b.path(vmKind, fmt.Sprint("vm-", i)), b.vmBody(fmt.Sprint("vm-", i)))
			}
			time.Sleep(10 * time.Minute)
			b.inject(NamedFault{Name: "HostFailed", Times: 3, Seed: seed})
			time.Sleep(time.Second)
			for _, v := range b.State().VMs {
				machines += map[bool]string{true: ".", false: "x"}[v.Power == running]
			}
			began := time.Now()
			b.inject(NamedFault{Name: "TokensExpired", Seed: seed})
			for code := 0; code != http.StatusUnauthorized; time.Sleep(time.Second) {
				code, _, _ = b.try("GET", b.path(vmKind, "vm"), "")
			}
			after = time.Since(began)
			if err := b.Inject(NamedFault{Name: "Evicted30s", Seed: seed, Times: -1}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			if n := len(b.State().VMs); n > 3 {
				t.Errorf("%d VMs were not evicted; three did not run", n)
			}
		})
		return machines, after
	}
	one, moment := struck(1)
	again, momentAgain := struck(1)
	other, otherMoment := struck(2)
	if one != again || one == other || strings.Count(one, "x") != 3 {
		t.Errorf("VMs %s, again %s, with another seed %s", one, again, other)
	}
	if moment != momentAgain || moment == otherMoment || moment > 61*time.Second {
		t.Errorf("after %v, again %v, with another seed %v", moment, momentAgain, otherMoment)
	}
}
