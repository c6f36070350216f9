// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// API versions of the SDK's clients for the same resources.
var (
	machineShelf = armlist.Resource{What: "virtual machines", Provider: "Microsoft.Compute/virtualMachines", Version: "2026-04-01"}
	nicShelf     = armlist.Resource{What: "network interfaces", Provider: "Microsoft.Network/networkInterfaces", Version: "2025-03-01"}
	diskShelf    = armlist.Resource{What: "disks", Provider: "Microsoft.Compute/disks", Version: "2026-03-02"}
)

// The maximum age of a list while callers wait for news: long lists cost one request per page,
// so they are read less often.
const (
	paceShort  = 2 * time.Second
	paceLong   = 5 * time.Second
	shortPages = 3
	// oldView is the maximum age for claims that no virtual machine was requested for yet.
	oldView = 30 * time.Second
)

// pace returns the maximum age of the list of virtual machines for launches that wait. The list
// is not read while no caller waits.
func (p *Provider) pace() time.Duration {
	switch {
	case p.opts.PollEvery > 0:
		return p.opts.PollEvery
	case p.aks != nil:
		return p.aks.pace()
	case p.machines.Last().Pages <= shortPages:
		return paceShort
	}
	return paceLong
}

// calm returns the maximum age of lists for deletions: they are not urgent, and long lists are
// most of the cost of a deletion.
func (p *Provider) calm() time.Duration {
	if pace := p.pace(); pace > paceShort {
		return 2 * pace
	}
	return p.pace()
}

// Unreadable returns the rows of the last lists that could not be decoded.
func (p *Provider) Unreadable() []provider.Unreadable {
	var all []provider.Unreadable
	all = append(all, p.machines.Last().Unreadable...)
	all = append(all, p.nics.Last().Unreadable...)
	return append(all, p.disks.Last().Unreadable...)
}

var _ provider.UnreadableLister = (*Provider)(nil)

func (p *Provider) openSharedLists() {
	p.machines = openSharedList(p, machineShelf, p.decodeMachine, func(vm *machine) string { return vm.handle })
	if p.aks != nil {
		p.machines.Join = join
		p.machines.Rows = p.allMachines(p.machines.Rows)
	}
	p.nics = openSharedList(p, nicShelf, func(row json.RawMessage) (*nicRow, error) { return decodeNIC(p.owner, &p.decoder, row) },
		func(n *nicRow) string { return armtext.Of(n.Name) })
	p.nics.Selects = func(n *nicRow) bool { return n.loose != nil }
	p.disks = openSharedList(p, diskShelf, func(row json.RawMessage) (*diskRow, error) { return decodeDisk(p.owner, &p.decoder, row) },
		func(d *diskRow) string { return armtext.Of(d.Name) })
	p.disks.Selects = func(d *diskRow) bool { return d.loose != nil }
	p.orphans = &orphanCollector{
		now: p.opts.Now, nics: p.nics, disks: p.disks, tickets: p.tickets,
		deleteNIC: func(ctx context.Context, name string) error {
			_, err := p.clients.nics.BeginDelete(ctx, p.opts.NodeResourceGroup, name, nil)
			return err
		},
		deleteDisk: func(ctx context.Context, name string) error {
			_, err := p.clients.disks.BeginDelete(ctx, p.opts.NodeResourceGroup, name, nil)
			return err
		},
	}
	p.updater = &updater{
		owner: p.owner, identities: p.opts.NodeIdentities, now: p.opts.Now, group: p.opts.NodeResourceGroup,
		list: p.nics, tickets: p.tickets, vms: p.clients.vms, nics: p.clients.nics,
	}
}

func openSharedList[T any](p *Provider, s armlist.Resource, decode func(json.RawMessage) (T, error), name func(T) string) *armlist.List[T] {
	list := armlist.New(s.What, p.opts.Now, func(ctx context.Context) ([]json.RawMessage, int, error) {
		return s.Rows(ctx, p.clients.arm, p.opts.SubscriptionID, p.opts.NodeResourceGroup)
	}, decode, name)
	list.Owner = claimInRow
	return list
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

// allMachines appends the machines that AKS lists to the virtual machines. The AKS machine
// exists for longer than its virtual machine, so listing it second misses none.
func (p *Provider) allMachines(virtual armlist.RowsFunc) armlist.RowsFunc {
	return func(ctx context.Context) ([]json.RawMessage, int, error) {
		rows, pages, err := virtual(ctx)
		if err != nil {
			return nil, 0, err
		}
		theirs, err := p.aks.rows(ctx)
		return append(rows, theirs...), pages, err
	}
}

// decodeMachine decodes a row of the list of virtual machines. A virtual machine without
// properties gets no handle.
func (p *Provider) decodeMachine(row json.RawMessage) (*machine, error) {
	if p.aks != nil && isAKSRow(row) {
		return p.aks.decode(row)
	}
	vm, err := armlist.Decode[armcompute.VirtualMachine](&p.decoder, row)
	if err != nil || vm.Properties == nil {
		return &machine{}, err
	}
	k, handle := p.backendOf(armtext.Of(vm.Name))
	return &machine{VirtualMachine: vm, handle: handle, maker: k}, nil
}
