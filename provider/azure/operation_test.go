// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// A process that did not begin an operation reads once why it failed, and only from Resource
// Manager.
//
// Rule VM-3.
func TestRestartReadsTheNotedOperationOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change *strings.Replacer
		reads  int
	}{
		"as noted":             {strings.NewReplacer(), 1},
		"another host":         {strings.NewReplacer("https://", "https://evil."), 0},
		"a user in front":      {strings.NewReplacer("https://", "https://a:b@"), 0},
		"another subscription": {strings.NewReplacer("/subscriptions/", "/subscriptions/0"), 0},
		"another provider's":   {strings.NewReplacer("Microsoft.Compute", "Microsoft.Network"), 0},
		"another VM's":         {strings.NewReplacer("Standard_D4s_v5", "Standard_D8s_v5"), 0},
		"forgotten by Azure":   {strings.NewReplacer("/operations/", "/operations/0"), 1},
		"not even JSON":        {strings.NewReplacer("{", ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
				r.stockOut(t, onDemand("Standard_D4s_v5", "eastus-1"), true)
				c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1"))
				in, err := r.provider(t).Launch(t.Context(), c)
				if err != nil || in.LaunchState[azure.AnnotationOperation] == "" {
					t.Fatalf("to be remembered: %v, %v", in.LaunchState, err)
				}
				c.LaunchState = maps.Clone(in.LaunchState)
				c.LaunchState[azure.AnnotationOperation] = tc.change.Replace(c.LaunchState[azure.AnnotationOperation])
				before := r.Ledger().ByOperation["Operations.Get"]
				p := r.provider(t)
				for range 2000 {
					if in, err = p.Launch(t.Context(), c); err != nil || len(in.Refused) > 0 {
						break
					}
					time.Sleep(in.RetryAfter)
				}
				if err != nil || len(in.Refused) != 1 || in.Refused[0].Code != "ZonalAllocationFailed" {
					t.Errorf("attempts %+v, %v", in.Refused, err)
				}
				if value, reported := in.LaunchState[azure.AnnotationOperation]; !reported || value != "" {
					t.Errorf("a failed VM's operation is still remembered: %v", in.LaunchState)
				}
				if got := r.Ledger().ByOperation["Operations.Get"] - before; got != tc.reads {
					t.Errorf("the operation was read %d times, want %d", got, tc.reads)
				}
				for range 2000 {
					if err := p.TerminateByClaim(t.Context(), c); errors.Is(err, provider.ErrNotFound) {
						return
					}
					time.Sleep(time.Second)
				}
				t.Error("the VM does not go")
			})
		})
	}
}

// The signature in the URL of an operation is neither kept on the NodeClaim nor in an error of the network,
// which ends in logs and conditions.
//
// Rule VM-9.
func TestSignaturesOfOperationsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		r.stockOut(t, onDemand("Standard_D4s_v5", "eastus-1"), true)
		c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1"))
		in, err := r.provider(t).Launch(t.Context(), c)
		kept := in.LaunchState[azure.AnnotationOperation]
		if err != nil || kept == "" {
			t.Fatalf("to be remembered: %v, %v", in.LaunchState, err)
		}
		if strings.Contains(kept, azureemulator.OperationSignature) {
			t.Errorf("kept on the NodeClaim: %s", kept)
		}
	})
}
