// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// oneOf is a request of a class.
type oneOf struct {
	class  class
	method string
}

// admit is what the limits say of a request about a resource.
func (b *bubble) admit(of oneOf, resource string) *Error {
	req := &request{http: httptest.NewRequest(of.method, "/subscriptions/s/"+resource, nil)}
	var refused *Error
	_ = errors.As(b.Capacity.throttles.admit(req, &route{class: of.class}, http.Header{}), &refused)
	return refused
}

// A bucket that is exhausted stays so for a while, whether it was asked before or not, and the
// client is told until when.
func TestBucketsAreExhausted(t *testing.T) {
	for name, of := range map[string]oneOf{
		"ArmReads": {reads, "GET"}, "ArmWrites": {writes, "PUT"}, "ArmDeletes": {deletes, "DELETE"},
		"ComputeGetVM": {readVM, "GET"}, "ComputeListVM": {listVM, "GET"}, "ComputePutVM": {writeVM, "PUT"},
		"ComputeUpdateVM": {updateVM, "PATCH"}, "ComputeDeleteVM": {deleteVM, "DELETE"}, "ComputeGetOperation": {pollOperation, "GET"},
		"AksPUT": {putAKS, "PUT"}, "AksLIST": {listAKS, "GET"}, "AksOperationstatus": {pollAKS, "GET"}, "AksAPI": {callAKS, "POST"},
		"Tenant": {reads, "GET"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{Throttle: true}, func(b *bubble) {
				if refused := b.admit(of, "known"); refused != nil {
					t.Fatal(refused)
				}
				b.inject(NamedFault{Name: "Exhausted" + name})
				for _, resource := range []string{"known", "new"} {
					if refused := b.admit(of, resource); refused == nil || refused.Status != http.StatusTooManyRequests || refused.header.Get("Retry-After") < "20" {
						t.Errorf("%s: %v", resource, refused)
					}
				}
				time.Sleep(exhaustedFor - time.Second)
				if b.admit(of, "known") == nil {
					t.Error("a second too early one is admitted")
				}
				time.Sleep(61 * time.Second) // until one has come where they are rarest
				if refused := b.admit(of, "known"); refused != nil {
					t.Errorf("afterwards: %v", refused)
				}
				if n := b.Struck()["Exhausted"+name]; n != 3 {
					t.Errorf("it struck %d times, want 3", n)
				}
			})
		})
	}
}

// admitted is how many requests are admitted at once.
func (b *bubble) admitted(of oneOf) (n int) {
	for ; b.admit(of, fmt.Sprint("of-", n)) == nil; n++ {
	}
	return n
}

// A neighbour leaves a quarter of what there is, and for a minute a quarter of what comes; the
// limits of single resources are not its matter.
func TestNeighbourSpends(t *testing.T) {
	inBubble(t, Options{Throttle: true}, func(b *bubble) {
		list := oneOf{listVM, "GET"} // 250 reads at once and 25 more each second; of lists more
		b.inject(NamedFault{Name: "NeighbourSpends"})
		if n := b.admitted(list); n != 62 {
			t.Errorf("%d are admitted, want a quarter of 250", n)
		}
		time.Sleep(4 * time.Second)
		if n := b.admitted(list); n != 25 {
			t.Errorf("%d after four seconds, want what comes in one", n)
		}
		time.Sleep(time.Minute)
		_ = b.admitted(list)
		time.Sleep(4 * time.Second)
		if n := b.admitted(list); n != 20 { // 300 lists a minute
			t.Errorf("%d after four seconds once it has gone, want 20 lists", n)
		}
		if b.Struck()["NeighbourSpends"] == 0 {
			t.Error("it did not strike")
		}
	})
}

// Limits that are cut are for buckets, too, that were not asked before.
func TestLimitsAreHalved(t *testing.T) {
	inBubble(t, Options{Throttle: true}, func(b *bubble) {
		b.inject(NamedFault{Name: limitsHalved})
		if n := b.admitted(oneOf{reads, "GET"}); n != 125 {
			t.Errorf("%d reads are admitted, want half of 250", n)
		}
		time.Sleep(2 * time.Second)
		if n := b.admitted(oneOf{reads, "GET"}); n != 25 || b.Struck()[limitsHalved] != 2 {
			t.Errorf("%d after two seconds, want 25; it struck %d times, want 2", n, b.Struck()[limitsHalved])
		}
	})
}

// stock is what becomes of a creation in a zone: in stock (.) or not (x).
func (b *bubble) stockIn(zone string) string {
	now, late := b.Capacity.stock.takeStock(&vm{size: b.Capacity.sizes.byName["standard_d4s_v5"], vmRequest: vmRequest{spec: vmSpec{Zones: []string{zone}}}})
	return map[bool]string{true: ".", false: "x"}[now == nil && late == nil]
}

func TestCapacityOfEachZoneComesAndGoes(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: "CapacityFlapsByZone", Target: "Standard_D4s_v5", Times: -1})
		patterns := map[string]string{}
		for range 12 {
			for _, zone := range []string{"1", "2", "3"} {
				patterns[zone] += b.stockIn(zone)
			}
			time.Sleep(10 * time.Second)
		}
		for zone, want := range map[string]string{"1": "xx..xx..xx..", "2": "xxx...xxx...", "3": "xxxxx.....xx"} {
			if patterns[zone] != want {
				t.Errorf("zone %s every ten seconds: %s, want %s", zone, patterns[zone], want)
			}
		}
		if n := b.Struck()["CapacityFlapsByZone"]; n != 6+6+7 {
			t.Errorf("it struck %d times, want 19", n)
		}
	})
}

func TestCapacityRecovers(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: "CapacityRecovers", Target: "Standard_D4s_v5", Times: -1})
		pattern := ""
		for range 9 {
			pattern += b.stockIn("1")
			time.Sleep(20 * time.Second)
		}
		if pattern != "xxx......" || len(b.Capacity.Stockouts()) != 0 {
			t.Errorf("every twenty seconds: %s; left: %v", pattern, b.Capacity.Stockouts())
		}
	})
}

// A creation that is reported as done, of a VM that never got power: deleting it is all that helps.
func TestWrongFinalState(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: wrongFinalState})
		w := b.send("PUT", b.path(vmKind, "vm"), b.vmBody("vm"))
		time.Sleep(10 * time.Minute)
		_, status, _ := b.try("GET", strings.TrimPrefix(w.Header().Get("Azure-AsyncOperation"), b.sub.url), "")
		if v := b.named("vm"); v.Provisioning != canceled || v.Power != "" || !strings.Contains(status, `"status":"Succeeded"`) {
			t.Errorf("%s %q, operation %s", v.Provisioning, v.Power, status)
		}
		b.try("DELETE", b.path(vmKind, "vm"), "")
		time.Sleep(10 * time.Minute)
		if n := len(b.State().VMs); n != 0 {
			t.Errorf("%d VMs after it was deleted", n)
		}
	})
}

// A deletion that is reported as done, of a VM that starts again.
func TestDeletionUndone(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.running("vm")
		b.inject(NamedFault{Name: deletionUndone})
		w := b.send("DELETE", b.path(vmKind, "vm"), "")
		time.Sleep(10 * time.Minute)
		_, status, _ := b.try("GET", strings.TrimPrefix(w.Header().Get("Azure-AsyncOperation"), b.sub.url), "")
		if v := b.named("vm"); v.Provisioning != succeeded || v.Power != running || !strings.Contains(status, `"status":"Succeeded"`) {
			t.Errorf("%s %s, operation %s", v.Provisioning, v.Power, status)
		}
		b.try("DELETE", b.path(vmKind, "vm"), "")
		time.Sleep(10 * time.Minute)
		if n := len(b.State().VMs); n != 0 {
			t.Errorf("%d VMs after it was deleted again", n)
		}
	})
}

// Tokens of an issuer whose clock is ahead are refused until their time has come.
func TestTokensOfAClockAhead(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		code := func() int { return b.get(b.path(vmKind, "vm")).StatusCode }
		b.inject(NamedFault{Name: tokensNotYetValid})
		if got := code(); got != http.StatusUnauthorized {
			t.Errorf("with a token of before: %d", got)
		}
		b.token = b.identity.issue("again", time.Now())
		answer := b.get(b.path(vmKind, "vm"))
		if challenge := answer.Header.Get("Www-Authenticate"); answer.StatusCode != http.StatusUnauthorized || strings.Contains(challenge, "claims") {
			t.Errorf("with a new token: %d %s", answer.StatusCode, challenge)
		}
		time.Sleep(time.Minute)
		if got := code(); got != http.StatusNotFound {
			t.Errorf("a minute later: %d", got)
		}
		b.token = b.identity.issue("third", time.Now())
		if got := code(); got != http.StatusNotFound {
			t.Errorf("with one that was issued then: %d", got)
		}
	})
}
