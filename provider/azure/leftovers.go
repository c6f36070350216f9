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

	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// A Leftover is an interface or disk of this cluster whose virtual machine does not exist. It
// costs money or an address until it is deleted.
type Leftover struct {
	Kind  string // NIC or Disk
	Name  string
	Claim string // NodeClaim it was created for; empty when its tags name none
	// ClaimUID distinguishes claims of one name.
	ClaimUID string
}

// Kinds of Leftover.
const (
	LeftoverNIC  = "NIC"
	LeftoverDisk = "Disk"
)

// A leftoverCollector deletes interfaces and disks that no virtual machine has any more. It
// remembers when it first found each, and which deletions Azure refused; losing that costs time
// and nothing else.
type leftoverCollector struct {
	vms        *vmList
	nics       *armlist.List[*nicRow]
	disks      *armlist.List[*diskRow]
	limiter    rateLimiter
	group      string // node resource group
	nicClient  *armnetwork.InterfacesClient
	diskClient *armcompute.DisksClient
	now        func() time.Time

	mu           sync.Mutex
	firstSeen    map[Leftover]time.Time
	refusedUntil map[string]time.Time // end of the pause after a refused deletion, by kind and name
}

// reservedFor is how long Azure keeps an interface for a virtual machine whose creation failed.
// A resource that was unattached for less time may still be in use.
const reservedFor = 180 * time.Second

// collect deletes the leftovers of claims that do not exist any more, and returns their names.
func (s *leftoverCollector) collect(ctx context.Context, claimed func(name, uid string) bool) ([]string, error) {
	leftovers, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	leftovers = slices.DeleteFunc(leftovers, func(l Leftover) bool { return claimed(l.Claim, l.ClaimUID) })
	var names []string
	var errs []error
	for _, l := range s.overdue(leftovers, s.now()) {
		requested, err := s.delete(ctx, l)
		if requested {
			names = append(names, l.Name)
		}
		errs = append(errs, err)
	}
	return names, errors.Join(errs...)
}

// list lists interfaces and disks that carry the tags of karve or of Karpenter's provider, are
// attached to nothing and whose virtual machine is missing from a list that was made after
// theirs. After an error the list is not complete.
func (s *leftoverCollector) list(ctx context.Context) ([]Leftover, error) {
	// Interfaces and disks appear before their virtual machine or with it. The virtual machines
	// are listed last, so that none is missed.
	resources, err := s.unattached(ctx, s.now())
	if err != nil {
		return nil, err
	}
	vms, err := s.vms.NotOlderThan(ctx, s.now())
	if err != nil {
		return nil, err
	}
	var out []Leftover
	for _, r := range resources {
		if r.ours && vms.ByName[r.vm] == nil && !vms.MayContain(r.vm) {
			out = append(out, r.leftover)
		}
	}
	return out, nil
}

// A nodeResource is an interface or disk of a node, and its owner.
type nodeResource struct {
	kind, name string
	tags       map[string]*string
	leftover   Leftover // the Leftover if the virtual machine does not exist
	vm         string   // owner by the tags
	ours       bool     // belongs to this cluster by the tags
}

// unattached returns the interfaces and disks that are attached to nothing, from lists started
// at since or later.
func (s *leftoverCollector) unattached(ctx context.Context, since time.Time) ([]nodeResource, error) {
	nics, err := s.nics.NotOlderThan(ctx, since)
	if err != nil {
		return nil, err
	}
	disks, err := s.disks.NotOlderThan(ctx, since)
	if err != nil {
		return nil, err
	}
	resources := make([]nodeResource, 0, len(nics.Selected)+len(disks.Selected))
	for _, n := range nics.Selected {
		resources = append(resources, *n.unattached)
	}
	for _, d := range disks.Selected {
		resources = append(resources, *d.unattached)
	}
	return resources, nil
}

// A nicRow is an interface in the list; unattached is nil when a virtual machine has it.
type nicRow struct {
	*armnetwork.Interface
	unattached *nodeResource
}

func newNICList(c *connection, owner ownership) *armlist.List[*nicRow] {
	list := newList(c, nicResource, func(row json.RawMessage) (*nicRow, error) { return decodeNIC(owner, c.decoder, row) },
		func(n *nicRow) string { return armtext.Of(n.Name) })
	list.Select = func(n *nicRow) bool { return n.unattached != nil }
	return list
}

func decodeNIC(owner ownership, d *armlist.Decoder, row json.RawMessage) (*nicRow, error) {
	nic, err := armlist.Decode[armnetwork.Interface](d, row)
	if err != nil || nic.Properties != nil && nic.Properties.VirtualMachine != nil {
		return &nicRow{Interface: nic}, err
	}
	return &nicRow{nic, owner.resource(LeftoverNIC, strings.ToLower(armtext.Of(nic.Name)), nic.Tags)}, nil
}

// A diskRow is a disk in the list; unattached is nil when a virtual machine has it.
type diskRow struct {
	*armcompute.Disk
	unattached *nodeResource
}

func newDiskList(c *connection, owner ownership) *armlist.List[*diskRow] {
	list := newList(c, diskResource, func(row json.RawMessage) (*diskRow, error) { return decodeDisk(owner, c.decoder, row) },
		func(d *diskRow) string { return armtext.Of(d.Name) })
	list.Select = func(d *diskRow) bool { return d.unattached != nil }
	return list
}

func decodeDisk(owner ownership, d *armlist.Decoder, row json.RawMessage) (*diskRow, error) {
	disk, err := armlist.Decode[armcompute.Disk](d, row)
	if err != nil || armtext.Of(disk.ManagedBy) != "" {
		return &diskRow{Disk: disk}, err
	}
	return &diskRow{disk, owner.resource(LeftoverDisk, strings.ToLower(armtext.Of(disk.Name)), disk.Tags)}, nil
}

func (o ownership) resource(kind, name string, tags map[string]*string) *nodeResource {
	r := nodeResource{kind: kind, name: name, tags: tags}
	r.leftover, r.vm, r.ours = o.ownerOf(r)
	return &r
}

// ownerOf returns the owner of a resource by its tags, and whether the resource belongs to this
// cluster.
func (o ownership) ownerOf(r nodeResource) (leftover Leftover, vm string, ours bool) {
	leftover = Leftover{Kind: r.kind, Name: r.name, Claim: tag(r.tags, tagClaim), ClaimUID: tag(r.tags, tagClaimUID)}
	if o.karvesTags(r.tags) {
		vm = vmNameFor(leftover.Claim, leftover.ClaimUID)
		return leftover, vm, isPartOf(r.name, vm)
	}
	if o.inheritedTags(r.tags) && strings.HasPrefix(r.name, namePrefix) && tag(r.tags, tagAKSMachine) == "" {
		leftover.Claim = strings.TrimPrefix(r.name, namePrefix)
		return leftover, r.name, true
	}
	return leftover, "", false
}

// overdue returns the leftovers that are older than any reservation, and forgets the resources that
// are no longer leftovers.
func (s *leftoverCollector) overdue(leftovers []Leftover, now time.Time) []Leftover {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := map[Leftover]time.Time{}
	var old []Leftover
	for _, l := range leftovers {
		since, known := s.firstSeen[l]
		if !known {
			since = now
		}
		if first[l] = since; now.Sub(since) >= reservedFor {
			old = append(old, l)
		}
	}
	s.firstSeen = first
	return old
}

// refusedFor is how long a resource is left alone after Azure refused its deletion.
const refusedFor = 30 * time.Second

// refusedLately reports whether Azure has just refused to delete the resource.
func (s *leftoverCollector) refusedLately(l Leftover, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.refusedUntil[l.Kind+l.Name])
}

func (s *leftoverCollector) recordRefusal(l Leftover, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.refusedUntil, func(_ string, until time.Time) bool { return !now.Before(until) })
	if s.refusedUntil == nil {
		s.refusedUntil = map[string]time.Time{}
	}
	s.refusedUntil[l.Kind+l.Name] = now.Add(refusedFor)
}

// leftoversOf returns the interfaces and disks of a virtual machine that does not exist any more.
// Disks do not always carry the tags of their virtual machine; those without tags are found by
// the name that karve gives them. The lists are started at since or later.
func (s *leftoverCollector) leftoversOf(ctx context.Context, vm string, since time.Time) ([]Leftover, error) {
	resources, err := s.unattached(ctx, since)
	if err != nil {
		return nil, err
	}
	var left []Leftover
	for _, x := range resources {
		if x.ours && x.vm == vm || x.kind == LeftoverDisk && len(x.tags) == 0 && isDiskOf(x.name, vm) {
			left = append(left, x.leftover)
		}
	}
	return left, nil
}

// delete requests the deletion of a leftover. It sends no request while Azure still reserves the
// leftover for its virtual machine, or the rate limits do not allow the deletion; a later call
// tries again. It reports whether the leftover does not exist any more or its deletion was
// requested.
func (s *leftoverCollector) delete(ctx context.Context, l Leftover) (requested bool, err error) {
	if s.refusedLately(l, s.now()) || !s.limiter.reserveDeleteResource(l.Name) {
		return false, nil
	}
	if l.Kind == LeftoverNIC {
		_, err = s.nicClient.BeginDelete(ctx, s.group, l.Name, nil)
	} else {
		_, err = s.diskClient.BeginDelete(ctx, s.group, l.Name, nil)
	}
	switch armerr.Classify(err).Kind {
	case armerr.InUse:
		s.recordRefusal(l, s.now())
		return false, nil
	case armerr.NotFound:
		return true, nil
	}
	if err != nil {
		return false, armerr.Wrap(err, "deleting %s %s", l.Kind, l.Name)
	}
	return true, nil
}
