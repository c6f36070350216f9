// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
)

// p10 is what the emulator's list says about a Premium SSD of 128 GiB in eastus: 19.71 dollars a
// month.
const p10 offering.Price = 27_000_000

// The price of a node is that of its VM and, unless its OS disk is on local storage, that of the
// disk that Azure creates for it. An instance that runs has the same price.
//
// Rule PRICE-6, Rule PRICE-7.
func TestPriceIsOfTheWholeNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1})
		time.Sleep(30 * 365 * 24 * time.Hour) // to when the list is in force
		p := r.provider(t)
		s := snapshot(t, p)
		for size, want := range map[string]struct{ vm, extras offering.Price }{
			"Standard_D4s_v5":  {192_000_000, p10},
			"Standard_D4ds_v5": {226_000_000, 0},       // on its temporary disk
			"Standard_D4_v5":   {192_000_000, 8065753}, // an HDD: 5.888 dollars a month
		} {
			for _, o := range mustFind(t, s, size).Offerings {
				ref := o.Ref(size)
				if o.Extras != want.extras || o.CapacityType == offering.OnDemand && ref.ListPrice() != want.vm {
					t.Errorf("%s in %s (%s) costs %s, of which %s is not the VM; want %s and %s", size, o.Zone, o.CapacityType, o.Price, o.Extras, want.vm, want.extras)
				}
			}
		}
	})
}

// The types of disks that prices are of are those that Azure creates.
//
// Rule PRICE-7.
func TestTypeOfTheDiskThatIsPriced(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	p := r.provider(t)
	r.launchAll(t, p, claim("hdd", onDemand("Standard_D4_v5", "eastus-1")), claim("ssd", onDemand("Standard_D4s_v5", "eastus-1")), claim("local", onDemand("Standard_D4ds_v5", "eastus-1")))
	var list struct {
		Value []struct {
			SKU struct{ Name pricing.DiskType }
		}
	}
	if err := json.Unmarshal([]byte(r.ask(t, http.MethodGet, "/subscriptions/"+r.SubscriptionID()+"/providers/Microsoft.Compute/disks", "")), &list); err != nil {
		t.Fatal(err)
	}
	var got []pricing.DiskType
	for _, d := range list.Value {
		got = append(got, d.SKU.Name)
	}
	slices.Sort(got)
	if want := []pricing.DiskType{pricing.DefaultDiskType(true), pricing.DefaultDiskType(false)}; !slices.Equal(got, want) {
		t.Errorf("Azure created disks of the types %v, priced are %v", got, want)
	}
}

// Agents that are billed by the node are part of every price.
//
// Rule PRICE-8.
func TestAgentsAreInThePrice(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	before := snapshot(t, r.provider(t))
	r.options.NodeFeePerMonth = 14.6 // 0.02 an hour
	after := snapshot(t, r.provider(t))
	for _, size := range []string{"Standard_D4s_v5", "Standard_D4ds_v5"} {
		was, is := mustFind(t, before, size).Offerings, mustFind(t, after, size).Offerings
		for i := range was {
			if is[i].Price != was[i].Price+20_000_000 || is[i].Extras != was[i].Extras+20_000_000 {
				t.Errorf("%s cost %s (%s besides the VM), with agents %s (%s)", size, was[i].Price, was[i].Extras, is[i].Price, is[i].Extras)
			}
		}
	}
}

// diskList answers requests for the prices of disks with an error while it is down.
type diskList struct {
	inner policy.Transporter
	down  atomic.Bool
}

func (l *diskList) Do(req *http.Request) (*http.Response, error) {
	if l.down.Load() && strings.Contains(req.URL.RawQuery, "Managed+Disks") {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable", Body: http.NoBody, Request: req}, nil
	}
	return l.inner.Do(req)
}

// A list of disk prices that cannot be read costs no VM size its price. The built-in prices of
// disks count until it can, and the last ones once it cannot any more.
//
// Rule PRICE-7.
func TestDiskPricesThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		time.Sleep(30 * 365 * 24 * time.Hour)
		options := *r.options.ClientOptions
		disks := &diskList{inner: &inflation{inner: options.Transport, size: "Premium_SSD_Managed_Disk_P10"}}
		disks.inner.(*inflation).factor.Store(2)
		options.Transport = disks
		r.options.ClientOptions = &options
		disks.down.Store(true)
		p := r.provider(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		defer func() { stop(); <-ended }()
		check := func(when string, extras offering.Price, problem bool) {
			t.Helper()
			synctest.Wait()
			s := snapshot(t, p)
			o := mustFind(t, s, "Standard_D4s_v5").Offerings[0]
			if o.Extras != extras || o.Price-o.Extras != 192_000_000 {
				t.Errorf("%s: %s, of which %s is the disk, want %s", when, o.Price, o.Extras, extras)
			}
			if said := strings.Contains(s.Problem, "reading disk prices"); said != problem || strings.Contains(s.Problem, "built-in prices") {
				t.Errorf("%s: problem %q", when, s.Problem)
			}
			if said := strings.Contains(p.PricesProblem(), "reading disk prices"); said != problem {
				t.Errorf("%s: problem with prices %q", when, p.PricesProblem())
			}
		}
		time.Sleep(10 * time.Second)
		check("down from the start", p10, true)
		disks.down.Store(false)
		time.Sleep(2 * time.Minute)
		check("up", 2*p10, false)
		disks.down.Store(true)
		time.Sleep(13 * time.Hour)
		check("down again", 2*p10, true)
	})
}

// Burstable sizes say which CPU they have all the time. Their instances report, and claims show,
// what there is.
//
// Rule CATALOG-5.
func TestBurstableSizes(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	p := r.provider(t)
	s := snapshot(t, p)
	for size, want := range map[string]int64{"Standard_B4ms": 900, "Standard_B4s_v2": 1600, "Standard_B8ls_v2": 2400, "Standard_D4s_v5": 0} {
		if got := mustFind(t, s, size); got.SustainedCPU != want || !slices.Contains(got.NamedBy, v1beta1.LabelSKUFamily) {
			t.Errorf("%s has %d millicores all the time, named by %v; want %d", size, got.SustainedCPU, got.NamedBy, want)
		}
	}
	ids := r.launchAll(t, p, claim("b", onDemand("Standard_B4s_v2", "eastus-1")))
	in, err := p.Get(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if in.Capacity["cpu"] != 4000 || in.Allocatable["cpu"] < 3000 {
		t.Errorf("the instance has %d millicores, %d for pods", in.Capacity["cpu"], in.Allocatable["cpu"])
	}
}
