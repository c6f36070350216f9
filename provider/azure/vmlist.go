// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// The kinds of resource that karve lists, in the API versions of the SDK's clients for them.
var (
	vmResource   = armlist.Resource{Kind: "virtual machines", Provider: "Microsoft.Compute/virtualMachines", Version: "2026-04-01"}
	nicResource  = armlist.Resource{Kind: "network interfaces", Provider: "Microsoft.Network/networkInterfaces", Version: "2025-03-01"}
	diskResource = armlist.Resource{Kind: "disks", Provider: "Microsoft.Compute/disks", Version: "2026-03-02"}
)

// resourceLists are the cached lists of the node resource group. All parts share them.
type resourceLists struct {
	vms   *vmList
	nics  *armlist.List[*nicRow]
	disks *armlist.List[*diskRow]
}

func newResourceLists(c *connection, pollEvery time.Duration, owner ownership, pool *aksPool) resourceLists {
	return resourceLists{vms: newVMList(c, pollEvery, pool), nics: newNICList(c, owner), disks: newDiskList(c, owner)}
}

// unreadable returns the rows of the last lists that could not be decoded.
func (l resourceLists) unreadable() []provider.Unreadable {
	var all []provider.Unreadable
	all = append(all, l.vms.Last().Unreadable...)
	all = append(all, l.nics.Last().Unreadable...)
	return append(all, l.disks.Last().Unreadable...)
}

// A vmList is the cached list of virtual machines, joined with the machines of the AKS pool.
type vmList struct {
	*armlist.List[*virtualMachine]
	pollEvery time.Duration // zero for an age that depends on the length of the list
	pool      *aksPool      // nil for none
}

func newVMList(c *connection, pollEvery time.Duration, pool *aksPool) *vmList {
	list := newList(c, vmResource, func(row json.RawMessage) (*virtualMachine, error) {
		if pool != nil && isAKSRow(row) {
			return pool.decode(row)
		}
		return decodeVM(c.decoder, pool, row)
	}, func(vm *virtualMachine) string { return vm.handle })
	if pool != nil {
		list.Join = mergeDescriptions
		list.Rows = pool.addRows(list.Rows)
	}
	return &vmList{List: list, pollEvery: pollEvery, pool: pool}
}

// decodeVM decodes a row of Compute's list. A virtual machine without properties gets no handle.
func decodeVM(d *armlist.Decoder, pool *aksPool, row json.RawMessage) (*virtualMachine, error) {
	vm, err := armlist.Decode[armcompute.VirtualMachine](d, row)
	if err != nil || vm.Properties == nil {
		return &virtualMachine{}, err
	}
	handle, inPool := pool.handleOf(armtext.Of(vm.Name))
	return &virtualMachine{VirtualMachine: vm, handle: handle, inPool: inPool}, nil
}

// The maximum age of the list while callers wait for news: a long list costs one request per
// page, so it is read less often.
const (
	shortListAge = 2 * time.Second
	longListAge  = 5 * time.Second
	shortPages   = 3
	// unrequestedListAge is the maximum age for claims that no virtual machine was requested for
	// yet.
	unrequestedListAge = 30 * time.Second
)

// maxAgeForLaunch returns the maximum age of the list for launches that wait, which is also how
// often they retry. The list is not read while no caller waits.
func (l *vmList) maxAgeForLaunch() time.Duration {
	switch {
	case l.pollEvery > 0:
		return l.pollEvery
	case l.pool != nil:
		return l.pool.maxListAge()
	case l.Last().Pages <= shortPages:
		return shortListAge
	}
	return longListAge
}

// maxAgeForDeletion returns the maximum age of lists for deletions: they are not urgent, and long
// lists are most of the cost of a deletion.
func (l *vmList) maxAgeForDeletion() time.Duration {
	if age := l.maxAgeForLaunch(); age > shortListAge {
		return 2 * age
	}
	return l.maxAgeForLaunch()
}

// claimInRow returns the NodeClaim by the tags of a row that cannot be decoded; empty when it has
// none.
func claimInRow(row json.RawMessage) string {
	var tags struct {
		Tags       map[string]*string
		Properties struct{ Tags map[string]*string } // where AKS puts them
	}
	_ = json.Unmarshal(row, &tags) // best effort
	return cmp.Or(tag(tags.Tags, tagClaim), tag(tags.Properties.Tags, tagClaim))
}
