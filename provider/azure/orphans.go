package azure

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

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

// Orphans lists interfaces and disks that carry our tags or those of Karpenter's
// provider, are bound to nothing and whose machine is not in a list made after theirs.
// An error means that the list is not complete.
func (p *Provider) Orphans(ctx context.Context) ([]Orphan, error) {
	// What is made together with a machine appears before it or with it, so the
	// machines must be listed last; a machine listed after its NIC cannot be missed.
	parts, err := p.looseParts(ctx, p.opts.Now())
	if err != nil {
		return nil, err
	}
	machines, err := p.machines.since(ctx, p.opts.Now())
	if err != nil {
		return nil, err
	}
	var out []Orphan
	for _, part := range parts {
		if part.ours && machines.byName[part.machine] == nil && !machines.mayHold(part.machine) {
			out = append(out, part.orphan)
		}
	}
	return out, nil
}

// mayHold reports whether a row that could not be read may be the one of that name.
func (v view[T]) mayHold(name string) bool {
	for _, row := range v.unreadable {
		if row.Name == "" || strings.EqualFold(row.Name, name) {
			return true
		}
	}
	return false
}

// A part is an interface or disk, and whose it is.
type part struct {
	kind, name string
	tags       map[string]*string
	orphan     Orphan // should its machine not exist
	machine    string // its owner by its tags
	ours       bool   // it is this cluster's, by its tags
}

// looseParts are those that are bound to nothing, as of since or later.
func (p *Provider) looseParts(ctx context.Context, since time.Time) ([]part, error) {
	nics, err := p.nics.since(ctx, since)
	if err != nil {
		return nil, err
	}
	disks, err := p.disks.since(ctx, since)
	if err != nil {
		return nil, err
	}
	return slices.Concat(nics.loose, disks.loose), nil
}

// looseNIC is the interface as a part, if it is bound to nothing.
func (p *Provider) looseNIC(name string, nic *armnetwork.Interface) (part, bool) {
	if nic.Properties != nil && nic.Properties.VirtualMachine != nil {
		return part{}, false
	}
	return p.part(OrphanNIC, name, nic.Tags), true
}

func (p *Provider) looseDisk(name string, d *armcompute.Disk) (part, bool) {
	if text(d.ManagedBy) != "" {
		return part{}, false
	}
	return p.part(OrphanDisk, name, d.Tags), true
}

func (p *Provider) part(kind, name string, tags map[string]*string) part {
	x := part{kind: kind, name: name, tags: tags}
	x.orphan, x.machine, x.ours = p.ownerOf(x)
	return x
}

// ownerOf says by its tags whose a part is, and whether it is this cluster's at all.
func (p *Provider) ownerOf(x part) (o Orphan, machine string, ours bool) {
	o = Orphan{Kind: x.kind, Name: x.name, Claim: tag(x.tags, tagClaim), ClaimUID: tag(x.tags, tagClaimUID)}
	if strings.EqualFold(tag(x.tags, tagCluster), p.opts.ClusterName) && o.ClaimUID != "" {
		machine = machineName(o.Claim, o.ClaimUID)
		return o, machine, belongs(x.name, machine)
	}
	if p.inheritedTags(x.tags) && strings.HasPrefix(x.name, namePrefix) && tag(x.tags, tagAKSMachine) == "" {
		o.Claim = strings.TrimPrefix(x.name, namePrefix)
		return o, x.name, true
	}
	return o, "", false
}

// reservedFor is how long Azure keeps an interface for a machine that could not be
// made. Nothing that was loose for a shorter time is nobody's.
const reservedFor = 180 * time.Second

// Tidy reclaims the orphans of claims that are no more.
func (p *Provider) CollectOrphans(ctx context.Context, claimed func(name, uid string) bool) ([]string, error) {
	orphans, err := p.Orphans(ctx)
	if err != nil {
		return nil, err
	}
	orphans = slices.DeleteFunc(orphans, func(o Orphan) bool { return claimed(o.Claim, o.ClaimUID) })
	var names []string
	var errs []error
	for _, o := range p.orphans.old(orphans, p.opts.Now()) {
		asked, err := p.reclaim(ctx, o)
		if asked {
			names = append(names, o.Name)
		}
		errs = append(errs, err)
	}
	return names, errors.Join(errs...)
}

var _ provider.OrphanCollector = (*Provider)(nil)

// orphans remember since when parts are orphans, and which of them Azure would not give
// up yet. Losing that costs time and nothing else.
type orphans struct {
	mu    sync.Mutex
	first map[Orphan]time.Time
	busy  map[string]time.Time // refused until then, by kind and name
}

// old returns those that have been orphans for longer than any reservation, and
// forgets those that are none any more.
func (s *orphans) old(orphans []Orphan, now time.Time) []Orphan {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := map[Orphan]time.Time{}
	var old []Orphan
	for _, o := range orphans {
		since, known := s.first[o]
		if !known {
			since = now
		}
		if first[o] = since; now.Sub(since) >= reservedFor {
			old = append(old, o)
		}
	}
	s.first = first
	return old
}

// refusedFor is how long a part is left alone that Azure would not give up.
const refusedFor = 30 * time.Second

// keptBack reports whether Azure has just refused to give the part up.
func (s *orphans) keptBack(o Orphan, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.busy[o.Kind+o.Name])
}

func (s *orphans) refused(o Orphan, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.busy, func(_ string, until time.Time) bool { return !now.Before(until) })
	if s.busy == nil {
		s.busy = map[string]time.Time{}
	}
	s.busy[o.Kind+o.Name] = now.Add(refusedFor)
}

// leftovers are what a machine that is gone has left behind. Disks do not always carry
// the tags of their machine, so those that carry none are known by the name we gave.
func (p *Provider) leftovers(ctx context.Context, machine string) ([]Orphan, error) {
	since := p.opts.Now().Add(-p.calm())
	if asked := p.inFlight.get(machine).asked; asked.After(since) {
		since = asked
	}
	parts, err := p.looseParts(ctx, since)
	if err != nil {
		return nil, err
	}
	var left []Orphan
	for _, x := range parts {
		if x.ours && x.machine == machine || x.kind == OrphanDisk && len(x.tags) == 0 && isDiskOf(x.name, machine) {
			left = append(left, x.orphan)
		}
	}
	return left, nil
}

// Reclaim asks for an orphan's deletion. One that Azure still keeps for its
// machine, or whose turn it is not yet by Azure's limits, is left for a later call.
func (p *Provider) Reclaim(ctx context.Context, o Orphan) error {
	_, err := p.reclaim(ctx, o)
	return err
}

// reclaim reports whether the orphan is on its way out.
func (p *Provider) reclaim(ctx context.Context, o Orphan) (asked bool, err error) {
	if p.orphans.keptBack(o, p.opts.Now()) || !p.mayReclaim(o.Name) {
		return false, nil
	}
	if o.Kind == OrphanNIC {
		_, err = p.clients.nics.BeginDelete(ctx, p.opts.NodeResourceGroup, o.Name, nil)
	} else {
		_, err = p.clients.disks.BeginDelete(ctx, p.opts.NodeResourceGroup, o.Name, nil)
	}
	switch classify(err).kind {
	case inUse:
		p.orphans.refused(o, p.opts.Now())
		return false, nil
	case notFound:
		return true, nil
	}
	if err != nil {
		return false, wrap(err, "deleting %s %s", o.Kind, o.Name)
	}
	return true, nil
}
