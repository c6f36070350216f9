// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider/azure"
)

// A malformedTransport changes the lists of one kind.
type malformedTransport struct {
	inner policy.Transporter
	kind  string
	edit  *strings.Replacer
}

func (m *malformedTransport) Do(req *http.Request) (*http.Response, error) {
	resp, err := m.inner.Do(req)
	if err != nil || path.Base(req.URL.Path) != m.kind {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	changed := []byte(m.edit.Replace(string(body)))
	if bytes.Equal(changed, body) {
		return nil, fmt.Errorf("nothing to change in %s", body)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(changed)), -1
	return resp, nil
}

// Malformed rows are skipped in every list; the rest counts.
//
// Rule CATALOG-4.
func TestOddRowsHideNoOther(t *testing.T) {
	for kind, odd := range map[string]string{
		"skus":          `{"name": "Standard_D4s_v5", "resourceType": "virtualMachines", "family": {"name": 4}}`,
		"usages":        `{"name": {"value": 4}, "limit": "many"}`,
		"loadBalancers": `{"name": "stranger", "properties": {"backendAddressPools": "none"}}`,
		"versions":      `{"name": "1.2.3", "properties": {"publishedDate": "yesterday"}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
			options := *r.options.ClientOptions
			options.Transport = &malformedTransport{options.Transport, kind, strings.NewReplacer(`"value":[`, `"value":[`+odd+`, null, {}, `)}
			r.options.ClientOptions = &options
			p := r.provider(t)
			s, err := p.Catalog(t.Context(), "default")
			if err != nil || len(s.Types) == 0 {
				t.Fatal("nothing is on sale:", err)
			}
			if kind == "skus" && (!slices.Equal(s.Unread, []string{"Standard_D4s_v5"}) || !strings.Contains(s.Problem, "Standard_D4s_v5")) {
				t.Errorf("unread: %q, problem: %s", s.Unread, s.Problem)
			}
			if kind != "skus" && len(s.Unread) > 0 {
				t.Errorf("unread: %q", s.Unread)
			}
			if kind == "usages" && s.QuotaLeft["regional"] == 0 {
				t.Errorf("budgets: %v", s.QuotaLeft)
			}
			run(t, p, claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
		})
	}
}

// Cached facts about the network are used while Azure does not answer or returns an empty list;
// an empty list of load balancers is cached for a minute, if none was seen before.
//
// Rule NETWORK-4.
func TestNetworkStaysKnown(t *testing.T) {
	const network = "/Microsoft.Network/.*(loadBalancers|networkSecurityGroups|/virtualNetworks/[^/]+|/subnets/[^/]+)$"
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small()
		subnet, err := r.Network.AddSubnet(r.NodeResourceGroup(), "mine", "nodes", "10.9.0.0/24")
		if err != nil {
			t.Fatal(err)
		}
		r.options.VNetSubnetID = subnet
		nth := 0
		next := func(p *azure.Provider, when string, pools int) {
			t.Helper()
			nth++
			if _, err := r.up(t, p, claim(fmt.Sprint("web-", nth), onDemand("Standard_D2s_v5", "eastus-1"))); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			nics := r.ask(t, http.MethodGet, "/subscriptions/"+r.SubscriptionID()+"/resourceGroups/"+r.NodeResourceGroup()+"/providers/Microsoft.Network/networkInterfaces", "")
			if got := strings.Count(nics, "/backendAddressPools/aksOutboundBackendPool\""); got != pools {
				t.Errorf("%s: %d interfaces are in the pool, want %d", when, got, pools)
			}
		}
		strike := func(f azureemulator.NamedFault) {
			t.Helper()
			f.Times = -1
			if err := r.Inject(f); err != nil {
				t.Fatal(err)
			}
		}
		p := r.provider(t)
		next(p, "at first", 1)
		time.Sleep(13 * time.Hour)
		strike(azureemulator.NamedFault{Name: "Status503", Target: network})
		next(p, "while the network does not answer", 2)
		r.ClearFaults()
		time.Sleep(13 * time.Hour)
		strike(azureemulator.NamedFault{Name: "NoLoadBalancers"})
		strike(azureemulator.NamedFault{Name: "NoSecurityGroups"})
		next(p, "while the network is said to be empty", 3)
		r.ClearFaults()

		p = r.provider(t)
		strike(azureemulator.NamedFault{Name: "NoLoadBalancers"})
		next(p, "a new process, and Azure lists none", 3)
		r.ClearFaults()
		time.Sleep(time.Minute)
		next(p, "a minute later", 4)
	})
}
