// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
)

// editor changes lists in transit, and records which version of which API was requested.
type editor struct {
	inner    policy.Transporter
	edit     func(url, list string) string
	versions map[string]string // by last segment of the path
}

func (e *editor) Do(req *http.Request) (*http.Response, error) {
	resp, err := e.inner.Do(req)
	kind := path.Base(req.URL.Path)
	switch kind {
	case "virtualMachines", "networkInterfaces", "disks", "machines":
	default:
		return resp, err
	}
	e.versions[kind] = req.URL.Query().Get("api-version")
	if err != nil || e.edit == nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader([]byte(e.edit(req.URL.String(), string(body)))))
	resp.ContentLength = -1
	return resp, nil
}

func (r *region) edited(edit func(url, list string) string) *editor {
	options := *r.options.ClientOptions
	e := &editor{options.Transport, edit, map[string]string{}}
	options.Transport = e
	r.options.ClientOptions = &options
	return e
}

// A row that cannot be decoded is reported, and the rest of the list counts. Its virtual machine
// counts as existing, and is not created again.
//
// Rule COLLECT-1.
func TestBadRowsArePassedOver(t *testing.T) {
	size := regexp.MustCompile(`"vmSize": ?"Standard_E2s_v5"`)
	for name, edit := range map[string]func(url, list string) string{
		"a field of another type": func(_, list string) string { return size.ReplaceAllString(list, `"vmSize": {"name": 2}`) },
		"rows of nothing":         func(_, list string) string { return strings.Replace(list, `"value":[`, `"value":[null,{},7,"x",`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
			p := r.provider(t)
			good, _ := run(t, p, claim("good", onDemand("Standard_D2s_v5", "eastus-1")))
			c := claim("bad", onDemand("Standard_E2s_v5", "eastus-1"))
			bad, _ := run(t, p, c)
			r.edited(edit)
			p = r.provider(t)
			list, err := p.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			listed := map[string]bool{}
			for _, in := range list {
				listed[in.ProviderID] = true
			}
			rows := p.Unreadable()
			if !listed[good.ProviderID] || len(rows) == 0 {
				t.Fatalf("listed %v, unreadable %v", listed, rows)
			}
			if listed[bad.ProviderID] {
				return
			}
			want := provider.Unreadable{Kind: "virtual machines", Name: bad.Name, Claim: "bad", Why: rows[0].Why}
			if diff := cmp.Diff([]provider.Unreadable{want}, rows); diff != "" || want.Why == "" {
				t.Errorf("unreadable (-want +got):\n%s", diff)
			}
			if _, err := p.Launch(t.Context(), c); err != nil {
				t.Errorf("launching again: %v", err)
			}
			r.wantMachines(t, 2)
		})
	}
}

// Rule CATALOG-3.
func TestWhatIsNoListIsAnError(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, PageSize: 1}).small()
	p := r.provider(t)
	for i := range 2 {
		run(t, p, claim(fmt.Sprint("claim-", i), onDemand("Standard_D2s_v5", "eastus-1")))
	}
	next := regexp.MustCompile(`"nextLink": ?"([^"]*)"`)
	for name, edit := range map[string]func(url, list string) string{
		"no value":       func(string, string) string { return `{}` },
		"cut off":        func(_, list string) string { return list[:len(list)/2] },
		"a page of HTML": func(string, string) string { return `<html>` },
		"elsewhere":      func(_, list string) string { return next.ReplaceAllString(list, `"nextLink":"https://evil.example/"`) },
		"in a circle":    func(url, list string) string { return next.ReplaceAllString(list, `"nextLink":"`+url+`"`) },
	} {
		r := &region{Server: r.Server, options: r.options}
		r.edited(edit)
		if list, err := r.provider(t).List(t.Context()); err == nil {
			t.Errorf("%s: %d VMs and no error", name, len(list))
		}
	}
}

// Lists are requested with the API version that the SDK's types were made for.
func TestListsAreOfTheSDKsVersions(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
	e := r.edited(nil)
	if _, err := r.provider(t).Leftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := e.versions
	e.versions = map[string]string{}
	compute, err := armcompute.NewClientFactory(r.SubscriptionID(), r.options.Credential, r.options.ClientOptions)
	if err != nil {
		t.Fatal(err)
	}
	network, err := armnetwork.NewClientFactory(r.SubscriptionID(), r.options.Credential, r.options.ClientOptions)
	if err != nil {
		t.Fatal(err)
	}
	pools, err := armcontainerservice.NewMachinesClient(r.SubscriptionID(), r.options.Credential, r.options.ClientOptions)
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []func() error{
		func() error {
			_, err := pools.NewListPager("x", "x", "x", nil).NextPage(t.Context())
			return err
		},
		func() error {
			_, err := compute.NewVirtualMachinesClient().NewListPager("x", nil).NextPage(t.Context())
			return err
		},
		func() error {
			_, err := compute.NewDisksClient().NewListByResourceGroupPager("x", nil).NextPage(t.Context())
			return err
		},
		func() error {
			_, err := network.NewInterfacesClient().NewListPager("x", nil).NextPage(t.Context())
			return err
		},
	} {
		_ = ask() // there is no such group; only the question counts
	}
	if diff := cmp.Diff(e.versions, ours); diff != "" || len(ours) != 4 {
		t.Errorf("versions (-SDK +ours):\n%s", diff)
	}
}

// retagger answers reads of one virtual machine as if its tags had just been changed to another
// owner's.
type retagger struct{ inner policy.Transporter }

func (g *retagger) Do(req *http.Request) (*http.Response, error) {
	resp, err := g.inner.Do(req)
	if err != nil || req.Method != http.MethodGet || !strings.Contains(req.URL.Path, "/virtualMachines/") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(`"karve"`), []byte(`"other"`))))
	resp.ContentLength = -1
	return resp, nil
}

// A short list is read every two seconds, a long one every five, for any number of waiting
// callers, and not at all without one.
//
// Rule VM-1.
func TestListsAreReadAsOftenAsTheyAreShort(t *testing.T) {
	for pageSize, want := range map[int]time.Duration{0: 2 * time.Second, 2: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, PageSize: pageSize}).small()
			p := r.provider(t)
			const n = 10
			claims := make([]provider.Claim, n)
			for i := range claims {
				claims[i] = claim(fmt.Sprint("web-", i), onDemand("Standard_D2s_v5", "eastus-1"))
				if _, err := p.Launch(t.Context(), claims[i]); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			if _, err := p.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			pages := 1
			if pageSize > 0 {
				pages = n / pageSize
			}
			before, start := r.Ledger().ByOperation["VirtualMachines.List"], time.Now()
			for time.Since(start) < 10*time.Second {
				time.Sleep(100 * time.Millisecond)
				in, err := p.Launch(t.Context(), claims[time.Since(start).Milliseconds()/100%n])
				if err != nil || in.State != provider.Creating || in.RetryAfter != want {
					t.Fatalf("waiting: %+v, %v; want to be asked again after %v", in, err, want)
				}
			}
			if got, most := r.Ledger().ByOperation["VirtualMachines.List"]-before, int(10*time.Second/want)*pages; got > most {
				t.Errorf("%d pages were read in 10s, want %d at most", got, most)
			}
			before = r.Ledger().ByOperation["VirtualMachines.List"]
			time.Sleep(10 * time.Minute)
			if got := r.Ledger().ByOperation["VirtualMachines.List"] - before; got > 0 {
				t.Errorf("%d pages were read for nobody", got)
			}
		})
	}
}
