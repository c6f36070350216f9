package azure

import (
	"context"
	"errors"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/provider"
)

// An Orphan is an interface or disk of ours whose machine does not exist. It
// costs money or an address until it is reclaimed.
type Orphan struct {
	Kind  string // NIC or Disk
	Name  string
	Claim string // name of the NodeClaim it was made for; empty when its tags do not say
	// ClaimUID tells claims of one name apart.
	ClaimUID string
}

// Kinds of Orphan.
const (
	OrphanNIC  = "NIC"
	OrphanDisk = "Disk"
)

// Orphans lists interfaces and disks that carry our tags, are bound to nothing
// and whose machine is not in a list made after theirs. An error means that
// the list is not complete.
func (p *Provider) Orphans(ctx context.Context) ([]Orphan, error) {
	// What is made together with a machine appears before it or with it, so the
	// machines must be listed last; a machine listed after its NIC cannot be missed.
	start := p.opts.Now()
	nics, err := p.nics.since(ctx, start)
	if err != nil {
		return nil, err
	}
	disks, err := p.disks.since(ctx, start)
	if err != nil {
		return nil, err
	}
	machines, err := p.machines.since(ctx, p.opts.Now())
	if err != nil {
		return nil, err
	}
	owned := func(tags map[string]*string, name string) (Orphan, bool) {
		o := Orphan{Name: name, Claim: tag(tags, tagClaim), ClaimUID: tag(tags, tagClaimUID)}
		machine := machineName(o.Claim, o.ClaimUID)
		ours := strings.EqualFold(tag(tags, tagCluster), p.opts.ClusterName) && o.ClaimUID != ""
		return o, ours && belongs(name, machine) && machines.byName[machine] == nil
	}
	var out []Orphan
	for _, name := range sortedKeys(nics.byName) {
		if nic := nics.byName[name]; free(nic) {
			if o, ok := owned(nic.Tags, name); ok {
				o.Kind = OrphanNIC
				out = append(out, o)
			}
		}
	}
	for _, name := range sortedKeys(disks.byName) {
		if disk := disks.byName[name]; detached(disk) {
			if o, ok := owned(disk.Tags, name); ok {
				o.Kind = OrphanDisk
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// Tidy reclaims the orphans of claims that are no more.
func (p *Provider) Tidy(ctx context.Context, claimed func(name, uid string) bool) ([]string, error) {
	orphans, err := p.Orphans(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	var errs []error
	for _, o := range orphans {
		if claimed(o.Claim, o.ClaimUID) {
			continue
		}
		if err := p.Reclaim(ctx, o); err != nil {
			errs = append(errs, err)
			continue
		}
		names = append(names, o.Name)
	}
	return names, errors.Join(errs...)
}

var _ provider.Tidier = (*Provider)(nil)

func free(nic *armnetwork.Interface) bool {
	return nic.Properties == nil || nic.Properties.VirtualMachine == nil
}

func detached(d *armcompute.Disk) bool { return text(d.ManagedBy) == "" }

// leftovers are what a machine that is gone has left behind, by name: disks do
// not always carry the tags of their machine.
func (p *Provider) leftovers(ctx context.Context, machine string) ([]Orphan, error) {
	since := p.opts.Now().Add(-p.pace())
	if asked := p.flights.get(machine).asked; asked.After(since) {
		since = asked
	}
	nics, err := p.nics.since(ctx, since)
	if err != nil {
		return nil, err
	}
	disks, err := p.disks.since(ctx, since)
	if err != nil {
		return nil, err
	}
	var left []Orphan
	for _, name := range sortedKeys(nics.byName) {
		if belongs(name, machine) {
			left = append(left, Orphan{Kind: OrphanNIC, Name: name})
		}
	}
	for _, name := range sortedKeys(disks.byName) {
		if belongs(name, machine) {
			left = append(left, Orphan{Kind: OrphanDisk, Name: name})
		}
	}
	return left, nil
}

// Reclaim asks for an orphan's deletion. One that Azure still keeps for its
// machine, or whose turn it is not yet by Azure's limits, is left for a later call.
func (p *Provider) Reclaim(ctx context.Context, o Orphan) error {
	if !p.mayReclaim(o.Name) {
		return nil
	}
	var err error
	if o.Kind == OrphanNIC {
		_, err = p.clients.nics.BeginDelete(ctx, p.opts.NodeResourceGroup, o.Name, nil)
	} else {
		_, err = p.clients.disks.BeginDelete(ctx, p.opts.NodeResourceGroup, o.Name, nil)
	}
	if err == nil {
		return nil
	}
	if kind := classify(err).kind; kind == notFound || kind == inUse {
		return nil
	}
	return wrap(err, "deleting %s %s", o.Kind, o.Name)
}
