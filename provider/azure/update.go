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
)

// AnnotationTagKeys on an AKSNodeClass holds the keys of all tags that it ever gave to
// machines, as a JSON list: a tag that the class has no more is taken off by that, while
// tags that others put on machines stay.
const AnnotationTagKeys = "karve.dev/tag-keys"

// updateSight is how old the list of machines may be by which they are compared. Garbage
// collection reads it more often.
const updateSight = time.Minute

// updates is what machines of a class shall carry besides what says what they are.
type updates struct {
	tags map[string]string
	// dropped are keys, in lower case, of tags that the class had once.
	dropped []string
	// identities are added where they are missing, and never taken away: others may have
	// assigned some.
	identities []string
}

var _ provider.Updater = (*Provider)(nil)

// Update brings tags and identities of a machine, and the tags of its interface, to what
// its class and the options say now. The machine goes last: while it is not up to date, a
// later call finds that something is left to be done.
func (p *Provider) Update(ctx context.Context, m provider.LaunchedNode) (provider.Update, error) {
	name, err := p.machineOf(m.ProviderID)
	if errors.Is(err, provider.ErrForeign) {
		return provider.Update{}, nil // as for a machine that is gone
	}
	if err != nil {
		return provider.Update{}, err
	}
	class, err := p.class(ctx, m.Class)
	if err != nil {
		return provider.Update{}, err
	}
	v, err := p.machines.since(ctx, p.opts.Now().Add(-updateSight))
	if err != nil {
		return provider.Update{RetryAfter: updateSight}, nil // whoever cannot wait for the list says so
	}
	k, handle := p.backendOf(name)
	u, vm := p.updates(class), v.byName[handle]
	switch {
	case vm == nil || !p.updatable(vm):
		return provider.Update{}, nil
	case vm.said != nil:
		return p.aks.update(ctx, vm, u)
	case u.fit(vm):
		return provider.Update{}, nil
	}
	return p.update(ctx, k, name, u)
}

// updatable leaves alone what is not ours, what AKS keeps that karve does not know of, and
// what Azure is working on.
func (p *Provider) updatable(vm *machine) bool {
	if vm.said != nil {
		return p.ours(vm) && vm.said.updatable()
	}
	_, computes := vm.maker.(byCompute)
	return computes && p.ours(vm) && !madeByAKS(vm) && text(vm.Properties.ProvisioningState) == stateSucceeded
}

// TagKeys are the keys of all tags that the class gives to machines and, as far as its
// annotation knows, ever gave.
func (p *Provider) TagKeys(class *v1beta1.AKSNodeClass) []string {
	keys := knownTagKeys(class)
	for key := range p.wishedTags(class) {
		keys = append(keys, strings.ToLower(key))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// knownTagKeys reads the annotation; one that cannot be read is as good as none.
func knownTagKeys(class *v1beta1.AKSNodeClass) []string {
	var keys []string
	_ = json.Unmarshal([]byte(class.Annotations[AnnotationTagKeys]), &keys)
	return slices.DeleteFunc(keys, reserved)
}

func (p *Provider) updates(class *v1beta1.AKSNodeClass) updates {
	u := updates{tags: p.wishedTags(class), identities: p.opts.NodeIdentities}
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

// over is what tags become: those of others stay, with the spelling of their keys.
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
	return maps.EqualFunc(a, b, func(a, b *string) bool { return text(a) == text(b) })
}

// missing are the identities that a machine lacks.
func (u updates) missing(vm *machine) []string {
	var out []string
	for _, id := range u.identities {
		if vm.Identity == nil || !hasKey(vm.Identity.UserAssignedIdentities, id) {
			out = append(out, id)
		}
	}
	return out
}

// update changes the machine's interface, if it has to, and then the machine.
func (p *Provider) update(ctx context.Context, k backend, name string, u updates) (provider.Update, error) {
	nic, err := p.outdated(ctx, name, u)
	if err != nil {
		return provider.Update{}, fmt.Errorf("updating %s: %w", name, err)
	}
	if wait := p.mayUpdate(name, nicName(nic)); wait > 0 {
		return provider.Update{RetryAfter: wait}, nil
	}
	vm, err := k.read(ctx, name)
	if errors.Is(err, provider.ErrNotFound) {
		return provider.Update{}, nil
	}
	if err != nil {
		return provider.Update{}, err
	}
	if !p.updatable(vm) || u.fit(vm) {
		return provider.Update{RetryAfter: updateSight}, nil // the list was older than that
	}
	if nic != nil {
		_, err := p.clients.nics.UpdateTags(ctx, p.opts.NodeResourceGroup, nicName(nic), armnetwork.TagsObject{Tags: u.over(nic.Tags)}, nil)
		if err != nil && classify(err).kind != notFound {
			return provider.Update{}, wrap(err, "updating the tags of interface %s", nicName(nic))
		}
	}
	return p.patch(ctx, name, vm, u)
}

// outdated is the machine's interface when its tags are not what they shall be.
func (p *Provider) outdated(ctx context.Context, name string, u updates) (*armnetwork.Interface, error) {
	v, err := p.nics.since(ctx, p.opts.Now().Add(-updateSight))
	if err != nil {
		return nil, err
	}
	for _, nic := range v.byName {
		if nic.Properties != nil && nic.Properties.VirtualMachine != nil && strings.EqualFold(lastSegment(text(nic.Properties.VirtualMachine.ID)), name) &&
			!sameTags(nic.Tags, u.over(nic.Tags)) {
			return nic, nil
		}
	}
	return nil, nil
}

func nicName(nic *armnetwork.Interface) string {
	if nic == nil {
		return ""
	}
	return text(nic.Name)
}

func lastSegment(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// patch changes the machine as it was read: who changes it meanwhile wins, and the next
// call looks again.
func (p *Provider) patch(ctx context.Context, name string, vm *machine, u updates) (provider.Update, error) {
	body := armcompute.VirtualMachineUpdate{Tags: u.over(vm.Tags)}
	changed := "tags"
	if missing := u.missing(vm); len(missing) > 0 {
		body.Identity, changed = added(vm.Identity, missing), "tags and identities"
	}
	_, err := p.clients.vms.BeginUpdate(ctx, p.opts.NodeResourceGroup, name, body, &armcompute.VirtualMachinesClientBeginUpdateOptions{IfMatch: vm.Etag})
	if err != nil {
		if classify(err).kind == exists { // it was changed meanwhile
			return provider.Update{RetryAfter: updateSight}, nil
		}
		return provider.Update{}, wrap(err, "updating %s of machine %s", changed, name)
	}
	return provider.Update{Changed: changed, RetryAfter: updateSight}, nil
}

// added keeps the kind of identity that a machine has besides.
func added(had *armcompute.VirtualMachineIdentity, ids []string) *armcompute.VirtualMachineIdentity {
	out := identities(ids)
	if had != nil && had.Type != nil && strings.Contains(string(*had.Type), string(armcompute.ResourceIdentityTypeSystemAssigned)) {
		out.Type = to.Ptr(armcompute.ResourceIdentityTypeSystemAssignedUserAssigned)
	}
	return out
}
