// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// AnnotationTagKeys on an AKSNodeClass holds the keys of all tags that the class ever gave to
// virtual machines, as a JSON list: karve removes a tag that the class no longer has, and leaves
// tags of other users alone.
const AnnotationTagKeys = "karve.dev/tag-keys"

// updateSight is the maximum age of the list that virtual machines are compared by. Garbage
// collection reads it more often.
const updateSight = time.Minute

// updates holds the tags and identities that nodes of a class must have, besides the tags that
// identify them.
type updates struct {
	tags map[string]string
	// dropped are keys, in lower case, of tags that the node class had once.
	dropped []string
	// identities are added where they are missing, and never removed: other users may have
	// assigned some.
	identities []string
}

var _ provider.Updater = (*Provider)(nil)

// Update changes the tags and identities of a virtual machine, and the tags of its interface, to
// what the node class and the options say now. The virtual machine is updated last: until then a
// later call finds it out of date and continues.
func (p *Provider) Update(ctx context.Context, m provider.LaunchedNode) (provider.Update, error) {
	name, err := p.ids.vmOf(m.ProviderID)
	if errors.Is(err, provider.ErrForeign) {
		return provider.Update{}, nil // same as for one that does not exist
	}
	if err != nil {
		return provider.Update{}, err
	}
	class, err := p.class(ctx, m.Class)
	if err != nil {
		return provider.Update{}, err
	}
	v, err := p.machines.Since(ctx, p.opts.Now().Add(-updateSight))
	if err != nil {
		return provider.Update{RetryAfter: updateSight}, nil // tried again; other callers report the error
	}
	k, handle := p.backendOf(name)
	u, vm := p.updater.updates(class), v.ByName[handle]
	switch {
	case vm == nil || !p.updater.updatable(vm):
		return provider.Update{}, nil
	case vm.said != nil:
		return p.aks.update(ctx, vm, u)
	case u.fit(vm):
		return provider.Update{}, nil
	}
	return p.updater.update(ctx, k, name, u)
}

// TagKeys returns the keys of all tags that the node class gives to virtual machines and, by its
// annotation, ever gave.
func (p *Provider) TagKeys(class *v1beta1.AKSNodeClass) []string {
	keys := knownTagKeys(class)
	for key := range p.owner.wishedTags(class) {
		keys = append(keys, strings.ToLower(key))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// An updater changes the tags and identities of virtual machines, and the tags of their
// interfaces.
type updater struct {
	owner      ownership
	identities []string // that nodes must have
	now        func() time.Time
	group      string // node resource group
	list       *armlist.List[*nicRow]
	tickets    tickets
	vms        *armcompute.VirtualMachinesClient
	nics       *armnetwork.InterfacesClient
}

// updatable reports whether karve may update a virtual machine: it belongs to the cluster, is
// not in an AKS pool unknown to karve, and Azure is not working on it.
func (x *updater) updatable(vm *machine) bool {
	if vm.said != nil {
		return x.owner.ours(vm) && vm.said.updatable()
	}
	_, computes := vm.maker.(byCompute)
	return computes && x.owner.ours(vm) && !madeByAKS(vm) && armtext.Of(vm.Properties.ProvisioningState) == stateSucceeded
}

// knownTagKeys parses the annotation; a malformed one counts as empty.
func knownTagKeys(class *v1beta1.AKSNodeClass) []string {
	var keys []string
	_ = json.Unmarshal([]byte(class.Annotations[AnnotationTagKeys]), &keys)
	return slices.DeleteFunc(keys, reserved)
}

func (x *updater) updates(class *v1beta1.AKSNodeClass) updates {
	u := updates{tags: x.owner.wishedTags(class), identities: x.identities}
	for _, key := range knownTagKeys(class) {
		if !hasKey(u.tags, key) {
			u.dropped = append(u.dropped, strings.ToLower(key))
		}
	}
	return u
}

func (u updates) fit(vm *machine) bool {
	return sameTags(vm.Tags, u.over(vm.Tags)) && len(u.missing(vm)) == 0
}

// over returns the tags after the update: tags of other users are kept, with the spelling of
// their keys.
func (u updates) over(tags map[string]*string) map[string]*string {
	out := maps.Clone(tags)
	if out == nil {
		out = map[string]*string{}
	}
	maps.DeleteFunc(out, func(key string, _ *string) bool { return slices.Contains(u.dropped, strings.ToLower(key)) })
	for key, value := range u.tags {
		if hasKey(out, key) && tag(out, key) == value {
			continue
		}
		maps.DeleteFunc(out, func(k string, _ *string) bool { return strings.EqualFold(k, key) })
		out[key] = to.Ptr(value)
	}
	return out
}

func hasKey[T any](tags map[string]T, key string) bool {
	for k := range tags {
		if strings.EqualFold(k, key) {
			return true
		}
	}
	return false
}

func sameTags(a, b map[string]*string) bool {
	return maps.EqualFunc(a, b, func(a, b *string) bool { return armtext.Of(a) == armtext.Of(b) })
}

// missing returns the identities that a virtual machine lacks.
func (u updates) missing(vm *machine) []string {
	var out []string
	for _, id := range u.identities {
		if vm.Identity == nil || !hasKey(vm.Identity.UserAssignedIdentities, id) {
			out = append(out, id)
		}
	}
	return out
}

// update changes the virtual machine's interface, if necessary, and then the virtual machine.
func (x *updater) update(ctx context.Context, k backend, name string, u updates) (provider.Update, error) {
	nic, err := x.outdated(ctx, name, u)
	if err != nil {
		return provider.Update{}, fmt.Errorf("updating %s: %w", name, err)
	}
	if wait := x.tickets.update(name, nicName(nic)); wait > 0 {
		return provider.Update{RetryAfter: wait}, nil
	}
	vm, err := k.read(ctx, name)
	if errors.Is(err, provider.ErrNotFound) {
		return provider.Update{}, nil
	}
	if err != nil {
		return provider.Update{}, err
	}
	if !x.updatable(vm) || u.fit(vm) {
		return provider.Update{RetryAfter: updateSight}, nil // the list was out of date
	}
	if nic != nil {
		_, err := x.nics.UpdateTags(ctx, x.group, nicName(nic), armnetwork.TagsObject{Tags: u.over(nic.Tags)}, nil)
		if err != nil && armerr.Classify(err).Kind != armerr.NotFound {
			return provider.Update{}, armerr.Wrap(err, "updating the tags of interface %s", nicName(nic))
		}
	}
	return x.patch(ctx, name, vm, u)
}

// outdated returns the virtual machine's interface if its tags must change; nil otherwise.
func (x *updater) outdated(ctx context.Context, name string, u updates) (*armnetwork.Interface, error) {
	v, err := x.list.Since(ctx, x.now().Add(-updateSight))
	if err != nil {
		return nil, err
	}
	for _, nic := range v.ByName {
		if nic.Properties != nil && nic.Properties.VirtualMachine != nil && strings.EqualFold(lastSegment(armtext.Of(nic.Properties.VirtualMachine.ID)), name) &&
			!sameTags(nic.Tags, u.over(nic.Tags)) {
			return nic.Interface, nil
		}
	}
	return nil, nil
}

func nicName(nic *armnetwork.Interface) string {
	if nic == nil {
		return ""
	}
	return armtext.Of(nic.Name)
}

func lastSegment(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// patch changes the virtual machine as it was read: a concurrent change takes precedence, and
// the next call compares again.
func (x *updater) patch(ctx context.Context, name string, vm *machine, u updates) (provider.Update, error) {
	body := armcompute.VirtualMachineUpdate{Tags: u.over(vm.Tags)}
	changed := "tags"
	if missing := u.missing(vm); len(missing) > 0 {
		body.Identity, changed = added(vm.Identity, missing), "tags and identities"
	}
	_, err := x.vms.BeginUpdate(ctx, x.group, name, body, &armcompute.VirtualMachinesClientBeginUpdateOptions{IfMatch: vm.Etag})
	if err != nil {
		if armerr.Classify(err).Kind == armerr.Exists { // changed meanwhile
			return provider.Update{RetryAfter: updateSight}, nil
		}
		return provider.Update{}, armerr.Wrap(err, "updating %s of VM %s", changed, name)
	}
	return provider.Update{Changed: changed, RetryAfter: updateSight}, nil
}

// added returns an identity with the new IDs that keeps a system-assigned identity.
func added(had *armcompute.VirtualMachineIdentity, ids []string) *armcompute.VirtualMachineIdentity {
	out := identities(ids)
	if had != nil && had.Type != nil && strings.Contains(string(*had.Type), string(armcompute.ResourceIdentityTypeSystemAssigned)) {
		out.Type = to.Ptr(armcompute.ResourceIdentityTypeSystemAssignedUserAssigned)
	}
	return out
}
