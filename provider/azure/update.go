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

// updateListAge is the maximum age of the list that virtual machines are compared by. Garbage
// collection reads it more often.
const updateListAge = time.Minute

// wantedMetadata holds the tags and identities that nodes of a class must have, besides the tags
// that identify them.
type wantedMetadata struct {
	tags map[string]string
	// removed are keys, in lower case, of tags that the node class had once.
	removed []string
	// identities are added where they are missing, and never removed: other users may have
	// assigned some.
	identities []string
}

// An updater changes the tags and identities of virtual machines, and the tags of their
// interfaces.
type updater struct {
	owner      ownership
	identities []string // that nodes must have
	ids        providerIDs
	classes    classReader
	backends   *backends
	pool       *aksPool
	vmList     *vmList
	nicList    *armlist.List[*nicRow]
	limiter    rateLimiter
	group      string // node resource group
	vms        *armcompute.VirtualMachinesClient
	nics       *armnetwork.InterfacesClient
	now        func() time.Time
}

// update changes the tags and identities of a virtual machine, and the tags of its interface, to
// what the node class and the options say now. The virtual machine is updated last: until then a
// later call finds it out of date and continues.
func (x *updater) update(ctx context.Context, m provider.LaunchedNode) (provider.Update, error) {
	name, err := x.ids.vmOf(m.ProviderID)
	if errors.Is(err, provider.ErrForeign) {
		return provider.Update{}, nil // same as for one that does not exist
	}
	if err != nil {
		return provider.Update{}, err
	}
	class, err := x.classes.read(ctx, m.Class)
	if err != nil {
		return provider.Update{}, err
	}
	v, err := x.vmList.NotOlderThan(ctx, x.now().Add(-updateListAge))
	if err != nil {
		return provider.Update{RetryAfter: updateListAge}, nil // tried again; other callers report the error
	}
	b, handle := x.backends.byVMName(name)
	u, vm := x.wanted(class), v.ByName[handle]
	switch {
	case vm == nil || !x.updatable(vm):
		return provider.Update{}, nil
	case vm.aksMachine != nil:
		return x.updateAKSMachine(ctx, vm, u)
	case u.appliedTo(vm):
		return provider.Update{}, nil
	}
	return x.updateVM(ctx, b, name, u)
}

// tagKeys returns the keys of all tags that the node class gives to virtual machines and, by its
// annotation, ever gave.
func (x *updater) tagKeys(class *v1beta1.AKSNodeClass) []string {
	keys := knownTagKeys(class)
	for key := range x.owner.configuredTags(class) {
		keys = append(keys, strings.ToLower(key))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// updatable reports whether karve may update a virtual machine: it belongs to the cluster, is
// not in an AKS pool unknown to karve, and Azure is not working on it.
func (x *updater) updatable(vm *virtualMachine) bool {
	if vm.aksMachine != nil {
		return x.owner.ours(vm) && vm.aksMachine.updatable()
	}
	return !vm.inPool && x.owner.ours(vm) && !madeByAKS(vm) && vm.provisioningState() == stateSucceeded
}

// knownTagKeys parses the annotation; a malformed one counts as empty.
func knownTagKeys(class *v1beta1.AKSNodeClass) []string {
	var keys []string
	_ = json.Unmarshal([]byte(class.Annotations[AnnotationTagKeys]), &keys)
	return slices.DeleteFunc(keys, reserved)
}

// wanted returns what the virtual machines of the class must have.
func (x *updater) wanted(class *v1beta1.AKSNodeClass) wantedMetadata {
	u := wantedMetadata{tags: x.owner.configuredTags(class), identities: x.identities}
	for _, key := range knownTagKeys(class) {
		if !hasKey(u.tags, key) {
			u.removed = append(u.removed, strings.ToLower(key))
		}
	}
	return u
}

// appliedTo reports whether a virtual machine has the tags and identities.
func (u wantedMetadata) appliedTo(vm *virtualMachine) bool {
	return sameTags(vm.Tags, u.mergedTags(vm.Tags)) && len(u.missingIdentities(vm)) == 0
}

// mergedTags returns the tags after the update: tags of other users are kept, with the spelling of
// their keys.
func (u wantedMetadata) mergedTags(tags map[string]*string) map[string]*string {
	out := maps.Clone(tags)
	if out == nil {
		out = map[string]*string{}
	}
	maps.DeleteFunc(out, func(key string, _ *string) bool { return slices.Contains(u.removed, strings.ToLower(key)) })
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

// missingIdentities returns the identities that a virtual machine lacks.
func (u wantedMetadata) missingIdentities(vm *virtualMachine) []string {
	var out []string
	for _, id := range u.identities {
		if vm.Identity == nil || !hasKey(vm.Identity.UserAssignedIdentities, id) {
			out = append(out, id)
		}
	}
	return out
}

// updateVM changes the virtual machine's interface, if necessary, and then the virtual machine.
func (x *updater) updateVM(ctx context.Context, b backend, name string, u wantedMetadata) (provider.Update, error) {
	nic, err := x.outdatedNIC(ctx, name, u)
	if err != nil {
		return provider.Update{}, fmt.Errorf("updating %s: %w", name, err)
	}
	if wait := x.limiter.reserveUpdate(name, nicName(nic)); wait > 0 {
		return provider.Update{RetryAfter: wait}, nil
	}
	vm, err := b.read(ctx, name)
	if errors.Is(err, provider.ErrNotFound) {
		return provider.Update{}, nil
	}
	if err != nil {
		return provider.Update{}, err
	}
	if !x.updatable(vm) || u.appliedTo(vm) {
		return provider.Update{RetryAfter: updateListAge}, nil // the list was out of date
	}
	if nic != nil {
		_, err := x.nics.UpdateTags(ctx, x.group, nicName(nic), armnetwork.TagsObject{Tags: u.mergedTags(nic.Tags)}, nil)
		if err != nil && armerr.Classify(err).Kind != armerr.NotFound {
			return provider.Update{}, armerr.Wrap(err, "updating the tags of interface %s", nicName(nic))
		}
	}
	return x.patch(ctx, name, vm, u)
}

// outdatedNIC returns the virtual machine's interface if its tags must change; nil otherwise.
func (x *updater) outdatedNIC(ctx context.Context, name string, u wantedMetadata) (*armnetwork.Interface, error) {
	v, err := x.nicList.NotOlderThan(ctx, x.now().Add(-updateListAge))
	if err != nil {
		return nil, err
	}
	for _, nic := range v.ByName {
		if nic.Properties != nil && nic.Properties.VirtualMachine != nil && strings.EqualFold(lastSegment(armtext.Of(nic.Properties.VirtualMachine.ID)), name) &&
			!sameTags(nic.Tags, u.mergedTags(nic.Tags)) {
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
func (x *updater) patch(ctx context.Context, name string, vm *virtualMachine, u wantedMetadata) (provider.Update, error) {
	body := armcompute.VirtualMachineUpdate{Tags: u.mergedTags(vm.Tags)}
	changed := "tags"
	if missing := u.missingIdentities(vm); len(missing) > 0 {
		body.Identity, changed = withIdentities(vm.Identity, missing), "tags and identities"
	}
	_, err := x.vms.BeginUpdate(ctx, x.group, name, body, &armcompute.VirtualMachinesClientBeginUpdateOptions{IfMatch: vm.Etag})
	if err != nil {
		if armerr.Classify(err).Kind == armerr.Conflict { // changed meanwhile
			return provider.Update{RetryAfter: updateListAge}, nil
		}
		return provider.Update{}, armerr.Wrap(err, "updating %s of VM %s", changed, name)
	}
	return provider.Update{Changed: changed, RetryAfter: updateListAge}, nil
}

// withIdentities returns an identity with the new IDs that keeps a system-assigned identity.
func withIdentities(had *armcompute.VirtualMachineIdentity, ids []string) *armcompute.VirtualMachineIdentity {
	out := identities(ids)
	if had != nil && had.Type != nil && strings.Contains(string(*had.Type), string(armcompute.ResourceIdentityTypeSystemAssigned)) {
		out.Type = to.Ptr(armcompute.ResourceIdentityTypeSystemAssignedUserAssigned)
	}
	return out
}
