// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// try sends a request in process; the error is the connection's.
func (b *bubble) try(method, path, body string) (int, string, error) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, nowhere+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.token)
	answer, err := b.InProcess().Do(r)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(text), nil
}

func (b *bubble) inject(n NamedFault) {
	b.t.Helper()
	if err := b.Inject(n); err != nil {
		b.t.Fatal(err)
	}
}

// Every fault of the catalogue can be injected by its name, and strikes nothing but what it says.
func TestCatalogueOfFaults(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		surfaces, names := map[string]int{}, map[string]bool{}
		for _, k := range FaultCatalogue() {
			surfaces[k.Surface]++
			if names[k.Name] {
				t.Errorf("there are two faults %s", k.Name)
			}
			names[k.Name] = true
			b.token = b.identity.issue("again", time.Now()) // it grows old, and some take it away
			if k.Target == "machine" {
				if err := b.Inject(NamedFault{Name: k.Name}); err == nil {
					t.Errorf("%s needs no VM", k.Name)
				}
				b.running("vm-" + strings.ToLower(k.Name))
				b.inject(NamedFault{Name: k.Name, Target: "vm-" + k.Name})
				continue
			}
			b.inject(NamedFault{Name: k.Name, Times: 2, Seed: 1})
			b.ClearFaults()
			b.Capacity.ClearStockouts("", "", "")
		}
		t.Log(surfaces)
		if len(surfaces) != 7 || len(names) < 75 {
			t.Errorf("%d faults of %d surfaces", len(names), len(surfaces))
		}
		if err := b.Inject(NamedFault{Name: "Earthquake"}); err == nil {
			t.Error("an earthquake was injected")
		}
		time.Sleep(time.Hour)
	})
}

func TestLostAnswers(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: "ResetBeforeSend"})
		if _, _, err := b.try("PUT", b.path(vmKind, "vm"), b.vmBody("vm")); err == nil || len(b.State().VMs) != 0 {
			t.Errorf("%v, and %d VMs; want none", err, len(b.State().VMs))
		}
		b.inject(NamedFault{Name: "LostPut"})
		if code, _, err := b.try("GET", b.path(vmKind, "vm"), ""); err != nil || code != http.StatusNotFound {
			t.Errorf("%d %v: a read was struck", code, err)
		}
		if _, _, err := b.try("PUT", b.path(vmKind, "vm"), b.vmBody("vm")); err == nil || len(b.State().VMs) != 1 {
			t.Errorf("%v, and %d VMs; want one", err, len(b.State().VMs))
		}
		b.inject(NamedFault{Name: "TruncatedBody"})
		if code, text, err := b.try("GET", b.path(vmKind, "vm"), ""); err != nil || code != http.StatusOK || json.Valid([]byte(text)) {
			t.Errorf("%d %q %v", code, text, err)
		}
		if code, text, err := b.try("GET", b.path(vmKind, "vm"), ""); err != nil || code != http.StatusOK || !json.Valid([]byte(text)) {
			t.Errorf("afterwards: %d %q %v", code, text, err)
		}
	})
}

func TestVMsThatMisbehave(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.inject(NamedFault{Name: lateSuccess})
		b.running("late")
		if s := b.state(); s.Provisioning != succeeded || s.Power != running {
			t.Errorf("after ten minutes %+v", s)
		}
		b.inject(NamedFault{Name: stuckDeleting})
		b.try("DELETE", b.path(vmKind, "late"), "")
		time.Sleep(time.Hour)
		if s := b.state(); s.Provisioning != deleting {
			t.Errorf("an hour after it was deleted %+v", s)
		}
		b.token = b.identity.issue("again", time.Now())
		b.inject(NamedFault{Name: stuckCreating})
		b.inject(NamedFault{Name: ZonalAllocationFailed, Times: 2})
		for name, want := range map[string]string{"a": failed, "b": failed} {
			b.try("PUT", b.path(vmKind, name), b.vmBody(name))
			time.Sleep(10 * time.Minute)
			if got := b.named(name).Provisioning; got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		b.try("PUT", b.path(vmKind, "c"), b.vmBody("c"))
		time.Sleep(time.Hour)
		if got := b.named("c").Provisioning; got != creating {
			t.Errorf("c is %s, want it to be created for ever", got)
		}
	})
}

func (b *bubble) named(name string) VMState {
	for _, v := range b.State().VMs {
		if v.Name == name {
			return v
		}
	}
	return VMState{}
}

// The same seed strikes the same requests, some of them.
func TestSeededFaults(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		struck := func() (which string) {
			b.inject(NamedFault{Name: "Status503", Times: 5, Seed: 7})
			defer b.ClearFaults()
			for range 40 {
				code, _, err := b.try("GET", b.path(vmKind, "vm"), "")
				if err != nil {
					t.Fatal(err)
				}
				which += map[bool]string{true: "x", false: "."}[code == http.StatusServiceUnavailable]
			}
			return which
		}
		first := struck()
		if second := struck(); first != second || strings.Count(first, "x") != 5 || strings.HasPrefix(first, "xxxxx") {
			t.Errorf("struck %s, then %s", first, second)
		}
	})
}

func TestFaultsOfCatalogueOverAdmin(t *testing.T) {
	inBubble(t, Options{Sizes: []string{"Standard_D4s_v5"}}, func(b *bubble) {
		if w := b.send("POST", "/_emulator/faults/named", `{"name":"PricesTimes1000"}`); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w := b.send("POST", "/_emulator/faults/named", `{"name":"Earthquake"}`); w.Code != http.StatusBadRequest {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		var list []FaultKind
		if w := b.send("GET", "/_emulator/faults/catalogue", ""); json.Unmarshal(w.Body.Bytes(), &list) != nil || len(list) != len(FaultCatalogue()) || list[0].Name == "" {
			t.Errorf("%s", w.Body)
		}
		price := func() float64 {
			_, text, _ := b.try("GET", "/api/retail/prices?$filter=armRegionName%20eq%20'eastus'", "")
			var page struct {
				Items []struct{ RetailPrice float64 }
			}
			if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Items) == 0 {
				t.Fatalf("%v: %s", err, text)
			}
			return page.Items[0].RetailPrice
		}
		if wrong, right := price(), price(); wrong < 999*right || wrong > 1001*right {
			t.Errorf("prices %v and %v", wrong, right)
		}
	})
}

// The page about faults has every fault of the catalogue, once, and no other.
func TestPageOfFaults(t *testing.T) {
	page, err := os.ReadFile("../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) < 3 || !regexp.MustCompile("^(`[A-Za-z0-9]+`(, )?)+$").MatchString(cells[len(cells)-2]) {
			continue
		}
		for _, name := range regexp.MustCompile("`([A-Za-z0-9]+)`").FindAllStringSubmatch(cells[len(cells)-2], -1) {
			named = append(named, name[1])
		}
	}
	var known []string
	for _, k := range FaultCatalogue() {
		known = append(known, k.Name)
	}
	slices.Sort(named)
	slices.Sort(known)
	if diff := cmp.Diff(known, named); diff != "" {
		t.Errorf("the catalogue and the page differ (-catalogue +page):\n%s", diff)
	}
}
