// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"testing"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/provider/providertest"
)

// aks makes AKS create the region's machines, up to size with one request.
func (r *region) aks(size int) *region {
	r.options.AKSMachines = azure.AKSMachines{
		Pool: r.MachinesPool(), ResourceGroup: r.ClusterResourceGroup(), CreateNodes: true,
		Batching: azure.Batching{Idle: time.Millisecond, MaxWait: 10 * time.Millisecond, Size: size},
	}
	return r
}

// Machines that AKS creates, one or many per request, pass the tests of virtual machines that
// Compute creates.
//
// Rule AKS-1.
func TestAKSMachineLaws(t *testing.T) {
	for name, size := range map[string]int{"singly": 1, "in batches": azure.MostInBatch} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Harness {
				r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(size)
				return providertest.Harness{
					Class:    "default",
					Open:     func(t *testing.T) provider.Provider { return r.provider(t) },
					StockOut: r.stockOut,
					Residue:  func(t *testing.T) []string { return append(r.residue(t), r.pooled()...) },
					Pause:    func(time.Duration) {},
				}
			})
		})
	}
}

// pooled returns the machines of the agent pool.
func (r *region) pooled() []string {
	var names []string
	for _, m := range r.State().Machines {
		names = append(names, "pooled "+m.Name)
	}
	return names
}
