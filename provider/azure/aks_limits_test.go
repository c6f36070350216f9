// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider/azure"
)

// A thousand AKS machines are created and deleted within AKS's limit of 60 requests a minute for
// everything: in batches of fifty, and with lists that are read less often the longer they are.
//
// Rule AKS-2.
func TestThousandMachinesOfAKS(t *testing.T) {
	const n = 1000
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{
			SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1, SubnetPrefix: "10.0.0.0/16",
			Quota: map[string]int{"standardDSv5Family": 100_000}, RegionalCores: 100_000,
		}).small().aks(azure.MostInBatch)
		r.options.AKSMachines.Batching = azure.Batching{Idle: time.Second, MaxWait: 5 * time.Second, Size: azure.MostInBatch}
		r.options.ARMShare = 1
		up, all := r.eachComesAndGoes(t, r.provider(t), n)
		if up.ByOperation["Machines.CreateOrUpdate"] != n/azure.MostInBatch || all.ByOperation["AgentPools.DeleteMachines"] > 2*n/azure.MostInBatch || all.Throttled != 0 {
			t.Errorf("%d requests for machines, %d for their end, %d throttled", up.ByOperation["Machines.CreateOrUpdate"], all.ByOperation["AgentPools.DeleteMachines"], all.Throttled)
		}
		if asked := all.ByOperation["Machines.Get"]; asked > n/20 {
			t.Errorf("AKS was asked about %d machines by themselves", asked)
		}
	})
}
