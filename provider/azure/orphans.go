// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// An Orphan is an interface or disk of this cluster whose virtual machine does not exist. It
// costs money or an address until it is deleted.
type Orphan struct {
	Kind  string // NIC or Disk
	Name  string
	Claim string // NodeClaim it was created for; empty when its tags name none
	// ClaimUID distinguishes claims of one name.
	ClaimUID string
}

// Kinds of Orphan.
const (
	OrphanNIC  = "NIC"
	OrphanDisk = "Disk"
)

// Orphans lists interfaces and disks that carry the tags of karve or of Karpenter's provider,
// are attached to nothing and whose virtual machine is missing from a list that was made after
// theirs. After an error the list is not complete.
func (p *Provider) Orphans(ctx context.Context) ([]Orphan, error) {
	// Interfaces and disks appear before their virtual machine or with it. The virtual machines
	// are listed last, so that none is missed.
	parts, err := p.orphans.looseParts(ctx, p.opts.Now())
	if err != nil {
		return nil, err
	}
	machines, err := p.machines.Since(ctx, p.opts.Now())
	if err != nil {
		return nil, err
	}
	var out []Orphan
	for _, part := range parts {
		if part.ours && machines.ByName[part.machine] == nil && !machines.MayHold(part.machine) {
			out = append(out, part.orphan)
		}
	}
	return out, nil
}

// A part is an interface or disk and its owner.
type part struct {
	kind, name string
	tags       map[string]*string
	orphan     Orphan // the Orphan if the virtual machine does not exist
	machine    string // owner by the tags
	ours       bool   // belongs to this cluster by the tags
}

// looseParts returns the interfaces and disks that are attached to nothing, from lists started
// at since or later.
func (s *orphanCollector) looseParts(ctx context.Context, since time.Time) ([]part, error) {
	nics, err := s.nics.Since(ctx, since)
	if err != nil {
		return nil, err
	}
	disks, err := s.disks.Since(ctx, since)
	if err != nil {
		return nil, err
	}
	parts := make([]part, 0, len(nics.Selected)+len(disks.Selected))
	for _, n := range nics.Selected {
		parts = append(parts, *n.loose)
	}
	for _, d := range disks.Selected {
		parts = append(parts, *d.loose)
	}
	return parts, nil
}

// A nicRow is an interface in the list; loose is nil when it is attached to a virtual machine.
type nicRow struct {
	*armnetwork.Interface
	loose *part
}

func decodeNIC(owner ownership, d *armlist.Decoder, row json.RawMessage) (*nicRow, error) {
	nic, err := armlist.Decode[armnetwork.Interface](d, row)
	if err != nil || nic.Properties != nil && nic.Properties.VirtualMachine != nil {
		return &nicRow{Interface: nic}, err
	}
	return &nicRow{nic, owner.part(OrphanNIC, strings.ToLower(armtext.Of(nic.Name)), nic.Tags)}, nil
}

// A diskRow is a disk in the list; loose is nil when it is attached to a virtual machine.
type diskRow struct {
	*armcompute.Disk
	loose *part
}

func decodeDisk(owner ownership, d *armlist.Decoder, row json.RawMessage) (*diskRow, error) {
	disk, err := armlist.Decode[armcompute.Disk](d, row)
	if err != nil || armtext.Of(disk.ManagedBy) != "" {
		return &diskRow{Disk: disk}, err
	}
	return &diskRow{disk, owner.part(OrphanDisk, strings.ToLower(armtext.Of(disk.Name)), disk.Tags)}, nil
}

func (w ownership) part(kind, name string, tags map[string]*string) *part {
	x := part{kind: kind, name: name, tags: tags}
	x.orphan, x.machine, x.ours = w.ownerOf(x)
	return &x
}

// ownerOf returns the owner of a part by its tags, and whether the part belongs to this cluster.
func (w ownership) ownerOf(x part) (o Orphan, machine string, ours bool) {
	o = Orphan{Kind: x.kind, Name: x.name, Claim: tag(x.tags, tagClaim), ClaimUID: tag(x.tags, tagClaimUID)}
	if strings.EqualFold(tag(x.tags, tagCluster), w.cluster) && o.ClaimUID != "" {
		machine = machineName(o.Claim, o.ClaimUID)
		return o, machine, belongs(x.name, machine)
	}
	if w.inheritedTags(x.tags) && strings.HasPrefix(x.name, namePrefix) && tag(x.tags, tagAKSMachine) == "" {
		o.Claim = strings.TrimPrefix(x.name, namePrefix)
		return o, x.name, true
	}
	return o, "", false
}

// reservedFor is how long Azure keeps an interface for a virtual machine whose creation failed.
// A part that was unattached for less time may still be in use.
const reservedFor = 180 * time.Second

// CollectOrphans deletes the orphans of claims that do not exist any more.
func (p *Provider) CollectOrphans(ctx context.Context, claimed func(name, uid string) bool) ([]string, error) {
	orphans, err := p.Orphans(ctx)
	if err != nil {
		return nil, err
	}
	orphans = slices.DeleteFunc(orphans, func(o Orphan) bool { return claimed(o.Claim, o.ClaimUID) })
	var names []string
	var errs []error
	for _, o := range p.orphans.old(orphans, p.opts.Now()) {
		asked, err := p.orphans.reclaim(ctx, o)
		if asked {
			names = append(names, o.Name)
		}
		errs = append(errs, err)
	}
	return names, errors.Join(errs...)
}

var _ provider.OrphanCollector = (*Provider)(nil)

// An orphanCollector deletes interfaces and disks that no virtual machine has any more. It
// remembers when it first found each, and which deletions Azure refused; losing that costs time
// and nothing else.
type orphanCollector struct {
	now     func() time.Time
	nics    *armlist.List[*nicRow]
	disks   *armlist.List[*diskRow]
	tickets tickets
	// deleteNIC and deleteDisk request a deletion by name.
	deleteNIC, deleteDisk func(ctx context.Context, name string) error

	mu    sync.Mutex
	first map[Orphan]time.Time
	busy  map[string]time.Time // no deletion until then, by kind and name
}

// old returns the orphans that are older than any reservation, and forgets the parts that are no
// longer orphans.
func (s *orphanCollector) old(orphans []Orphan, now time.Time) []Orphan {
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

// refusedFor is how long a part is left alone after Azure refused its deletion.
const refusedFor = 30 * time.Second

// keptBack reports whether Azure has just refused to delete the part.
func (s *orphanCollector) keptBack(o Orphan, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.busy[o.Kind+o.Name])
}

func (s *orphanCollector) refused(o Orphan, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.busy, func(_ string, until time.Time) bool { return !now.Before(until) })
	if s.busy == nil {
		s.busy = map[string]time.Time{}
	}
	s.busy[o.Kind+o.Name] = now.Add(refusedFor)
}

// leftovers returns the interfaces and disks of a virtual machine that does not exist any more.
// Disks do not always carry the tags of their virtual machine; those without tags are found by
// the name that karve gives them. The lists are started at since or later.
func (s *orphanCollector) leftovers(ctx context.Context, machine string, since time.Time) ([]Orphan, error) {
	parts, err := s.looseParts(ctx, since)
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

// Reclaim requests the deletion of an orphan. It returns nil without a request while Azure still
// reserves the orphan for its virtual machine, or the rate limits do not allow the deletion; a
// later call tries again.
func (p *Provider) Reclaim(ctx context.Context, o Orphan) error {
	_, err := p.orphans.reclaim(ctx, o)
	return err
}

// reclaim reports whether the orphan does not exist any more or its deletion was requested.
func (s *orphanCollector) reclaim(ctx context.Context, o Orphan) (asked bool, err error) {
	if s.keptBack(o, s.now()) || !s.tickets.mayDeletePart(o.Name) {
		return false, nil
	}
	if o.Kind == OrphanNIC {
		err = s.deleteNIC(ctx, o.Name)
	} else {
		err = s.deleteDisk(ctx, o.Name)
	}
	switch armerr.Classify(err).Kind {
	case armerr.InUse:
		s.refused(o, s.now())
		return false, nil
	case armerr.NotFound:
		return true, nil
	}
	if err != nil {
		return false, armerr.Wrap(err, "deleting %s %s", o.Kind, o.Name)
	}
	return true, nil
}
