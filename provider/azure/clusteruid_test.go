// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// providerOf returns a provider for the cluster with that UID; all clusters have one name.
func (r *region) providerOf(t *testing.T, uid string) *azure.Provider {
	t.Helper()
	r.options.ClusterUID = uid
	return r.provider(t)
}

// Of two clusters of one name in one resource group, each lists, terminates and cleans up after its
// own VMs only, whatever the case of the tag. A VM without the tag, of an earlier karve, belongs to
// both.
//
// Rule COLLECT-9.
func TestNamesakeClustersLeaveEachOthersVMsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		first, second, old := r.providerOf(t, "1111"), r.providerOf(t, "2222"), r.providerOf(t, "")
		size := onDemand("Standard_D2s_v5", "eastus-1")
		ids := map[*azure.Provider]string{}
		for p, name := range map[*azure.Provider]string{first: "a", second: "b", old: "c"} {
			id, err := r.up(t, p, claim(name, size))
			if err != nil {
				t.Fatal(err)
			}
			ids[p] = id
		}
		for p, want := range map[*azure.Provider]string{first: "a c", second: "b c", old: "a b c"} {
			list, err := p.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, in := range list {
				names = append(names, in.ClaimName)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("lists %q, want %q", got, want)
			}
		}
		if _, err := second.Get(t.Context(), ids[first]); err == nil || errors.Is(err, provider.ErrNotFound) || !strings.Contains(err.Error(), "karve.dev_cluster-uid") {
			t.Errorf("reading the namesake's VM: %v", err)
		}
		if err := second.Terminate(t.Context(), ids[first]); err == nil || !strings.Contains(err.Error(), "so karve does not delete it") {
			t.Errorf("terminating the namesake's VM: %v", err)
		}
		r.wantMachines(t, 3)

		vm := ids[first][strings.LastIndex(ids[first], "/")+1:]
		r.deleteVM(t, vm)
		r.options.ClusterUID = "1111"
		r.leaveNIC(t, vm+"-left", claim("a", size))
		for _, p := range []*azure.Provider{second, first} {
			for range 2 {
				if _, err := p.CollectLeftovers(t.Context(), nobody); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
			}
			if left := strings.Join(r.residue(t), ", "); strings.Contains(left, "-left") != (p == second) {
				t.Errorf("the namesake's turn %v; left are %s", p == second, left)
			}
		}
	})
}
