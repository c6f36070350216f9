// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bubble is an emulator without a listener, at Azure's own pace, in virtual time.
type bubble struct {
	*Server
	t     *testing.T
	token string
}

func inBubble(t *testing.T, o Options, test func(b *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		o.TimeScale, o.SystemNodes = 1, -1
		s, err := newServer(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		test(&bubble{s, t, s.identity.issue("test", time.Now())})
		if err := s.CheckInvariants(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (b *bubble) send(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+b.token)
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

func (b *bubble) path(kind, name string) string {
	return "/subscriptions/" + b.options.SubscriptionID + "/resourceGroups/" + b.options.NodeResourceGroup + "/providers/" + kind + "/" + name + "?api-version=1"
}

// vmBody is a spot VM in JSON.
func (b *bubble) vmBody(name string) string {
	body := systemNode(b.options, b.SubnetID(), name, b.Capacity.sizes.zonesOf(b.options.SystemNodeSize), 0)
	properties := body["properties"].(map[string]any)
	properties["priority"], properties["evictionPolicy"] = "Spot", "Delete"
	raw, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

func (b *bubble) state() VMState {
	if vms := b.State().VMs; len(vms) > 0 {
		return vms[0]
	}
	return VMState{}
}

func TestVMTakesAzuresTime(t *testing.T) {
	constant := func(d time.Duration) Distribution { return Distribution{Median: d} }
	var booted atomic.Int64 // virtual nanoseconds; a channel would have to be made in the bubble
	o := Options{
		Latency: Latency{Create: constant(24 * time.Second), Boot: constant(36 * time.Second), Eviction: constant(9 * time.Second), Delete: constant(20 * time.Second)},
		Guest:   guestFunc(func(ctx context.Context, _ VM) { booted.Store(time.Now().UnixNano()); <-ctx.Done() }),
	}
	inBubble(t, o, func(b *bubble) {
		begin := time.Now()
		w := b.send("PUT", b.path(vmKind, "vm"), b.vmBody("vm"))
		if w.Code != http.StatusCreated || w.Header().Get("Retry-After") != "10" {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		time.Sleep(23 * time.Second)
		if s := b.state(); s.Provisioning != creating || s.Power != "" {
			t.Errorf("after 23 s: %+v", s)
		}
		time.Sleep(2 * time.Second)
		if s := b.state(); s.Provisioning != succeeded || s.Power != starting {
			t.Errorf("after 25 s: %+v", s)
		}
		time.Sleep(36 * time.Second)
		if took := time.Duration(booted.Load() - begin.UnixNano()); took != time.Minute {
			t.Errorf("booted after %s, want 1m", took)
		}
		b.send("POST", b.path(vmKind, "vm/simulateEviction"), "")
		time.Sleep(10 * time.Second)
		notice := b.state().Preempt
		if notice == nil || time.Until(*notice) != 29*time.Second {
			t.Fatalf("10 s after the eviction was asked for, notice %v", notice)
		}
		time.Sleep(28 * time.Second)
		if s := b.state(); s.Provisioning != succeeded {
			t.Errorf("evicted before its time: %+v", s)
		}
		time.Sleep(2 * time.Second)
		if s := b.state(); s.Provisioning != deleting {
			t.Errorf("not evicted in time: %+v", s)
		}
		time.Sleep(20 * time.Second)
		if left := b.State(); len(left.VMs)+len(left.NICs)+len(left.Usages) != 0 {
			t.Errorf("the eviction left %+v", left)
		}
	})
}

type guestFunc func(context.Context, VM)

func (f guestFunc) Run(ctx context.Context, m VM) { f(ctx, m) }

func TestReservationLasts180Seconds(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		nic := fmt.Sprintf(`{"location":"eastus","properties":{"ipConfigurations":[{"name":"a","properties":{"subnet":{"id":%q}}}]}}`, b.SubnetID())
		w := b.send("PUT", b.path(nicKind, "nic"), nic)
		if w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		time.Sleep(time.Minute)
		if err := b.Capacity.AddStockout(Stockout{Mode: SkuNotAvailable}); err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal([]byte(b.vmBody("vm")), &body); err != nil {
			t.Fatal(err)
		}
		id := b.sub.resourceID(b.options.NodeResourceGroup, "Microsoft.Network", "networkInterfaces", "nic")
		body["properties"].(map[string]any)["networkProfile"] = map[string]any{"networkInterfaces": []any{ref(id)}}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if w := b.send("PUT", b.path(vmKind, "vm"), string(raw)); w.Code != http.StatusConflict {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		time.Sleep(179 * time.Second)
		if w := b.send("DELETE", b.path(nicKind, "nic"), ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "NicReservedForAnotherVm") {
			t.Errorf("after 179 s: %d %s", w.Code, w.Body)
		}
		time.Sleep(2 * time.Second)
		if w := b.send("DELETE", b.path(nicKind, "nic"), ""); w.Code != http.StatusAccepted {
			t.Errorf("after 181 s: %d %s", w.Code, w.Body)
		}
	})
}

func TestThrottling(t *testing.T) {
	inBubble(t, Options{Throttle: true}, func(b *bubble) {
		path := b.path(vmKind, "vm")
		for i := range 36 {
			w := b.send("GET", path, "")
			if w.Code != http.StatusNotFound {
				t.Fatalf("request %d: %d %s", i, w.Code, w.Body)
			}
			if left, want := w.Header()["X-Ms-Ratelimit-Remaining-Resource"][1], fmt.Sprintf("Microsoft.Compute/GetVMResource;%d", 35-i); left != want {
				t.Errorf("request %d left %s, want %s", i, left, want)
			}
		}
		w := b.send("GET", path, "")
		var flat struct{ Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &flat); err != nil {
			t.Fatal(err)
		}
		if w.Code != http.StatusTooManyRequests || flat.Code != "OperationNotAllowed" || w.Header().Get("Retry-After") != "5" {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		if w := b.send("GET", b.path(vmKind, "other"), ""); w.Code != http.StatusNotFound {
			t.Errorf("another VM is throttled with the first: %d", w.Code)
		}
		time.Sleep(5 * time.Second)
		if w := b.send("GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("after Retry-After: %d %s", w.Code, w.Body)
		}
		// Resource Manager's own bucket holds 250 reads.
		last := 0
		for range 250 {
			last = b.send("GET", b.path(nicKind, "n"), "").Code
		}
		if last != http.StatusTooManyRequests {
			t.Errorf("the 250th read of the subscription: %d", last)
		}
	})
}

func TestFinishedOperationsAreForgotten(t *testing.T) {
	o := operations{byID: map[string]*operation{}}
	for i := range operationsKept + 10 {
		op := &operation{id: fmt.Sprint(i), status: inProgress}
		o.byID[op.id] = op
		o.finish(op, nil)
	}
	if len(o.byID) != operationsKept || o.byID["9"] != nil || o.byID["10"] == nil {
		t.Errorf("%d operations are kept, want the latest %d", len(o.byID), operationsKept)
	}
}

func TestTokensExpire(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		time.Sleep(tokenLife + time.Second)
		w := b.send("GET", b.path(vmKind, "vm"), "")
		if w.Code != http.StatusUnauthorized || w.Header().Get("x-ms-error-code") != "ExpiredAuthenticationToken" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func TestDrawsLieAroundTheMedian(t *testing.T) {
	const seed = 7
	c, d := newChance(seed), Distribution{Median: 10 * time.Second, Sigma: 0.3}
	below := 0
	for range 10000 {
		got := c.draw(d)
		if got <= 0 || got > time.Minute {
			t.Fatalf("seed %d drew %s", seed, got)
		}
		if got < d.Median {
			below++
		}
	}
	if below < 4800 || below > 5200 {
		t.Errorf("seed %d: %d of 10000 draws below the median", seed, below)
	}
	if again := newChance(seed); again.uuid() != newChance(seed).uuid() {
		t.Errorf("seed %d is not repeatable", seed)
	}
}
