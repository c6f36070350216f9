package azure

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
)

// A roll is the list of one kind of resource in the node resource group. All
// who wait for a resource share it: a hundred launches cost one list every
// PollEvery, not a hundred reads.
type roll[T any] struct {
	what string
	list func(context.Context) ([]T, error)
	name func(T) string
	now  func() time.Time

	asking gate
	mu     sync.Mutex
	last   view[T]
}

// A view is a complete list. It holds what existed when it was started.
type view[T any] struct {
	started time.Time
	byName  map[string]T // lower case
}

// since returns a view that was started at t or later. Callers that arrive while
// one is being read share the next.
func (r *roll[T]) since(ctx context.Context, t time.Time) (view[T], error) {
	if v := r.current(); !v.started.Before(t) && v.byName != nil {
		return v, nil
	}
	if err := r.asking.lock(ctx); err != nil {
		return view[T]{}, err
	}
	defer r.asking.unlock()
	if v := r.current(); !v.started.Before(t) && v.byName != nil {
		return v, nil
	}
	return r.read(ctx)
}

func (r *roll[T]) current() view[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// read makes a new view. A list that fails on any page is no list.
func (r *roll[T]) read(ctx context.Context) (view[T], error) {
	v := view[T]{started: r.now(), byName: map[string]T{}}
	items, err := r.list(ctx)
	if err != nil {
		return view[T]{}, wrap(err, "listing %s", r.what)
	}
	for _, item := range items {
		if name := r.name(item); name != "" {
			v.byName[strings.ToLower(name)] = item
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = v
	return v, nil
}

func (p *Provider) openRolls() {
	group := p.opts.NodeResourceGroup
	p.machines = &roll[*armcompute.VirtualMachine]{
		what: "virtual machines", now: p.opts.Now, asking: newGate(),
		list: func(ctx context.Context) ([]*armcompute.VirtualMachine, error) {
			return pages(ctx, p.clients.vms.NewListPager(group, nil), func(r armcompute.VirtualMachinesClientListResponse) []*armcompute.VirtualMachine { return r.Value })
		},
		name: func(vm *armcompute.VirtualMachine) string {
			if vm == nil || vm.Properties == nil {
				return "" // a row that says nothing must not hide the others
			}
			return text(vm.Name)
		},
	}
	p.nics = &roll[*armnetwork.Interface]{
		what: "network interfaces", now: p.opts.Now, asking: newGate(),
		list: func(ctx context.Context) ([]*armnetwork.Interface, error) {
			return pages(ctx, p.clients.nics.NewListPager(group, nil), func(r armnetwork.InterfacesClientListResponse) []*armnetwork.Interface { return r.Value })
		},
		name: func(nic *armnetwork.Interface) string {
			if nic == nil {
				return ""
			}
			return text(nic.Name)
		},
	}
	p.disks = &roll[*armcompute.Disk]{
		what: "disks", now: p.opts.Now, asking: newGate(),
		list: func(ctx context.Context) ([]*armcompute.Disk, error) {
			return pages(ctx, p.clients.disks.NewListByResourceGroupPager(group, nil), func(r armcompute.DisksClientListByResourceGroupResponse) []*armcompute.Disk { return r.Value })
		},
		name: func(d *armcompute.Disk) string {
			if d == nil {
				return ""
			}
			return text(d.Name)
		},
	}
}

// pages reads a list to its end.
func pages[R, T any](ctx context.Context, pager *runtime.Pager[R], items func(R) []T) ([]T, error) {
	var all []T
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, items(page)...)
	}
	return all, nil
}
