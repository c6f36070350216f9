// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"strings"
	"testing"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider/azure"
)

// A DNS cache in mode Preferred waits for Kubernetes 1.37, and for a network in which no policy
// can keep pods from it.
//
// Rule BOOTSTRAP-8.
func TestPreferredLocalDNS(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	for name, test := range map[string]struct {
		kubernetes, plugin, mode, dataplane, policy, want string
	}{
		"in time":             {"1.37.0", "azure", "overlay", "azure", "", ""},
		"later":               {"1.40.2", "azure", "", "", "azure", ""},
		"too early":           {"1.36.3", "azure", "overlay", "azure", "", "from 1.37"},
		"nobody knows when":   {"", "azure", "overlay", "azure", "", "from 1.37"},
		"another network":     {"1.37.0", "none", "", "", "", "plugin"},
		"the usual network":   {"1.37.0", "", "", "", "", "cilium dataplane"},
		"policies by calico":  {"1.37.0", "azure", "overlay", "azure", "calico", "calico"},
		"policies by cilium":  {"1.37.0", "azure", "overlay", "", "cilium", "cilium"},
		"the other dataplane": {"1.37.0", "azure", "overlay", "cilium", "", "cilium dataplane"},
	} {
		o := r.options
		o.NetworkPlugin, o.NetworkPluginMode, o.NetworkDataplane, o.NetworkPolicy = test.plugin, test.mode, test.dataplane, test.policy
		p, err := azure.New(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := p.WithoutLocalDNS(class(test.kubernetes)); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
