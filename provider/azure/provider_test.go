// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/provider/providertest"
)

// region is an emulated Azure and the options to use it with.
type region struct {
	*azureemulator.Server
	options azure.Options
	class   atomic.Pointer[v1beta1.AKSNodeClass]
}

func newRegion(t *testing.T, opts azureemulator.Options) *region {
	t.Helper()
	server, err := azureemulator.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return regionOf(t, server)
}

// regionOf makes options for a provider of an emulator, and closes it after the test.
func regionOf(t *testing.T, server *azureemulator.Server) *region {
	t.Helper()
	t.Cleanup(func() {
		if err := server.CheckInvariants(); err != nil {
			t.Errorf("the cloud is inconsistent: %v", err)
		}
		server.Close()
	})
	credential, err := server.Credential()
	if err != nil {
		t.Fatal(err)
	}
	r := &region{Server: server}
	r.class.Store(class("1.36.3"))
	r.options = azure.Options{
		Credential:        credential,
		ClientOptions:     server.ClientOptions(),
		SubscriptionID:    server.SubscriptionID(),
		Location:          server.Location(),
		ClusterName:       "karve",
		ClusterEndpoint:   "https://karve.example:443",
		CABundle:          server.CACertPEM(),
		NodeResourceGroup: server.NodeResourceGroup(),
		VNetSubnetID:      server.SubnetID(),
		SSHPublicKey:      "ssh-ed25519 AAAA test",
		PricesURL:         server.URL() + "/api/retail/prices",
		Patience:          time.Hour,       // longer than a busy computer takes
		PollEvery:         time.Nanosecond, // nothing here is worth waiting for
		ARMPace:           math.Inf(1),     // nor limited
		BootstrapToken:    func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes: azure.ClassesFunc(func(_ context.Context, name string) (*v1beta1.AKSNodeClass, error) {
			if name != "default" {
				return nil, azure.ErrClassNotFound
			}
			return r.class.Load(), nil
		}),
	}
	return r
}

func class(version string) *v1beta1.AKSNodeClass {
	c := &v1beta1.AKSNodeClass{}
	c.Name = "default"
	c.Status.KubernetesVersion = &version
	return c
}

// small makes the region offer a few series only: reading all of it takes a second each time, and
// most tests do not need it.
func (r *region) small() *region {
	options := *r.options.ClientOptions
	options.Transport = &trimmer{inner: options.Transport}
	r.options.ClientOptions = &options
	return r
}

// trimmer cuts lists of sizes and prices down. The result is cached for the whole test binary:
// it is the same for every emulator of a region.
type trimmer struct{ inner policy.Transporter }

var (
	fewSeries = regexp.MustCompile(`^Standard_[DE]\d+a?d?s_v5$|Managed_Disk`)
	trimmed   sync.Map // body by location and kind of list
)

func (t *trimmer) Do(req *http.Request) (*http.Response, error) {
	switch {
	case req.Method != http.MethodGet:
	case strings.HasSuffix(req.URL.Path, "/skus"):
		return t.list(req, "value", "name", "nextLink")
	case strings.HasSuffix(req.URL.Path, "/retail/prices"):
		return t.list(req, "Items", "armSkuName", "NextPageLink")
	}
	return t.inner.Do(req)
}

func (t *trimmer) list(req *http.Request, items, name, next string) (*http.Response, error) {
	key := req.URL.Path[strings.LastIndex(req.URL.Path, "/"):] + req.URL.Query().Get("$filter")
	body, known := trimmed.Load(key)
	if !known {
		var err error
		if body, err = t.read(req, items, name, next); err != nil {
			return nil, err
		}
		trimmed.Store(key, body)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Request: req, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body.([]byte))),
	}, nil
}

// read follows the pages of a list and keeps the items of few series.
func (t *trimmer) read(req *http.Request, items, name, next string) ([]byte, error) {
	var kept []any
	for page := req; page != nil; {
		resp, err := t.inner.Do(page)
		if err != nil {
			return nil, err
		}
		var list map[string]any
		err = json.NewDecoder(resp.Body).Decode(&list)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("trimming %s: %s: %w", req.URL.Path, resp.Status, err)
		}
		for _, item := range list[items].([]any) {
			if label, _ := item.(map[string]any)[name].(string); fewSeries.MatchString(label) {
				kept = append(kept, item)
			}
		}
		page = nil
		if link, _ := list[next].(string); link != "" {
			page = req.Clone(req.Context())
			if page.URL, err = url.Parse(link); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(map[string]any{items: kept})
}

func (r *region) provider(t *testing.T) *azure.Provider {
	t.Helper()
	p, err := azure.New(t.Context(), r.options)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *region) stockOut(t *testing.T, c offering.Ref, late bool) {
	t.Helper()
	o := azureemulator.Stockout{Size: c.Type, Zone: strings.TrimPrefix(c.Zone, r.Location()+"-"), Mode: azureemulator.SkuNotAvailable}
	if c.Zone == "0" {
		o.Zone = "regional"
	}
	if late {
		o.Mode = ""
	}
	if err := r.Capacity.AddStockout(o); err != nil {
		t.Fatal(err)
	}
}

func TestProviderLaws(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		return providertest.Harness{
			Class:    "default",
			Open:     func(t *testing.T) provider.Provider { return r.provider(t) },
			StockOut: r.stockOut,
			Residue:  r.residue,
			Pause:    func(time.Duration) {},
		}
	})
}

// residue returns everything in the node resource group that was not there at first.
func (r *region) residue(t *testing.T) []string {
	t.Helper()
	state := r.State()
	var names []string
	for _, vm := range state.VMs {
		names = append(names, "VM "+vm.Name)
	}
	for _, nic := range state.NICs {
		names = append(names, "interface "+nic.Name)
	}
	for _, disk := range state.Disks {
		names = append(names, "disk "+disk)
	}
	return names
}
