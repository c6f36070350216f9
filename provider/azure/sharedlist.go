package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/ctxlock"
)

// A sharedList is the cached list of one kind of resource in the node resource group. All
// callers that wait for such a resource share it: a hundred launches cost one list per interval
// (see pace), not a hundred reads.
type sharedList[T any] struct {
	what   string
	rows   rowsOf
	decode func(json.RawMessage) (T, error)
	name   func(T) string
	join   func(former, later T) T                // merges two rows about one resource
	loose  func(name string, item T) (part, bool) // nil when the kind needs no search for unattached resources
	now    func() time.Time

	asking ctxlock.Mutex
	known  map[string]record[T] // of the last list, by the row's JSON; guarded by asking
	mu     sync.Mutex
	last   view[T]
	begun  time.Time     // start of the list being read, or of the last one
	took   time.Duration // duration of the last list
}

// A view is a complete list. It holds every resource that existed when it was started.
type view[T any] struct {
	started    time.Time
	ended      time.Time
	pages      int
	byName     map[string]T // keys in lower case; not to be changed
	loose      []part       // unattached resources, sorted by name: few, and read often
	unreadable []provider.Unreadable
}

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
	case p.machines.current().pages <= shortPages:
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

// since returns a view that was started at t or later. Callers that arrive while one is being
// read share the next.
func (r *sharedList[T]) since(ctx context.Context, t time.Time) (view[T], error) {
	if v := r.current(); !v.started.Before(t) && v.byName != nil {
		return v, nil
	}
	if err := r.asking.Lock(ctx); err != nil {
		return view[T]{}, err
	}
	defer r.asking.Unlock()
	if v := r.current(); !v.started.Before(t) && v.byName != nil {
		return v, nil
	}
	return r.read(ctx)
}

// tryList is like since, but never waits for another caller: while another caller reads the
// list, it returns the duration after which to try again, and no view. It reads the list itself
// when no other caller does, and waits only for the very first list. A list counts as new while
// its end is not before t: otherwise callers that return for a list that took longer than the
// maximum age would all find it too old.
func (r *sharedList[T]) tryList(ctx context.Context, t time.Time) (v view[T], again time.Duration, err error) {
	switch v := r.current(); {
	case v.byName == nil:
		v, err = r.since(ctx, t)
		return v, 0, err
	case !v.ended.Before(t):
		return v, 0, nil
	}
	if !r.asking.TryLock() {
		return view[T]{}, r.remaining(), nil
	}
	defer r.asking.Unlock()
	if v := r.current(); !v.ended.Before(t) {
		return v, 0, nil
	}
	v, err = r.read(ctx)
	return v, 0, err
}

// soonest is the minimum time after which a caller retries while a list is being read.
const soonest = 100 * time.Millisecond

// remaining estimates when the list being read will be ready, from the duration of the last one.
// If it takes longer than that, the estimate grows, so that callers retry less and less often.
func (r *sharedList[T]) remaining() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	elapsed := r.now().Sub(r.begun)
	return max(soonest, r.took-elapsed, min(elapsed/4, paceLong))
}

func (r *sharedList[T]) current() view[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// read lists the resources and stores a new view. Rows that did not change are not decoded
// again.
func (r *sharedList[T]) read(ctx context.Context) (view[T], error) {
	v := view[T]{started: r.now(), byName: map[string]T{}}
	r.mu.Lock()
	r.begun = v.started
	r.mu.Unlock()
	rows, pages, err := r.rows(ctx)
	if err != nil {
		return view[T]{}, armerr.Wrap(err, "listing %s", r.what)
	}
	v.pages = pages
	known := make(map[string]record[T], len(rows))
	for _, row := range rows {
		e, err := r.understand(row)
		if err != nil {
			v.unreadable = append(v.unreadable, unreadable(r.what, row, err))
			continue
		}
		known[e.row] = e
		item := e.item
		name := strings.ToLower(r.name(item))
		if former, twice := v.byName[name]; twice && r.join != nil {
			item = r.join(former, item)
		}
		v.byName[name] = item
	}
	r.known = known
	v.loose = r.looseOf(v.byName)
	r.mu.Lock()
	defer r.mu.Unlock()
	v.ended = r.now()
	r.last, r.took = v, v.ended.Sub(v.started)
	return v, nil
}

func (r *sharedList[T]) looseOf(byName map[string]T) []part {
	if r.loose == nil {
		return nil
	}
	var all []part
	for name, item := range byName {
		if x, loose := r.loose(name, item); loose {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return all
}

// A record is a row and the resource decoded from it.
type record[T any] struct {
	row  string
	item T
}

func (r *sharedList[T]) understand(row json.RawMessage) (record[T], error) {
	if e, ok := r.known[string(row)]; ok {
		return e, nil
	}
	item, err := r.decode(row)
	if err == nil && r.name(item) == "" {
		err = errors.New("it lacks its name or its properties")
	}
	return record[T]{string(row), item}, err
}

// unreadable describes a row that cannot be decoded, as far as possible.
func unreadable(what string, row json.RawMessage, why error) provider.Unreadable {
	u := provider.Unreadable{Kind: what, Why: armerr.Shorten(why.Error())}
	var name struct{ Name string }
	_ = json.Unmarshal(row, &name) // best effort
	var tags struct {
		Tags       map[string]*string
		Properties struct{ Tags map[string]*string } // where AKS puts them
	}
	_ = json.Unmarshal(row, &tags)
	u.Name, u.Claim = name.Name, cmp.Or(tag(tags.Tags, tagClaim), tag(tags.Properties.Tags, tagClaim))
	return u
}

// Unreadable returns the rows of the last lists that could not be decoded.
func (p *Provider) Unreadable() []provider.Unreadable {
	var all []provider.Unreadable
	all = append(all, p.machines.current().unreadable...)
	all = append(all, p.nics.current().unreadable...)
	return append(all, p.disks.current().unreadable...)
}

var _ provider.UnreadableLister = (*Provider)(nil)

func (p *Provider) openSharedLists() {
	p.machines = openSharedList(p, machineShelf, p.decodeMachine, func(vm *machine) string { return vm.handle })
	if p.aks != nil {
		p.machines.join = join
		p.machines.rows = p.allMachines(p.machines.rows)
	}
	p.nics = openSharedList(p, nicShelf, decodeRow[armnetwork.Interface](p), func(nic *armnetwork.Interface) string { return armtext.Of(nic.Name) })
	p.nics.loose = p.looseNIC
	p.disks = openSharedList(p, diskShelf, decodeRow[armcompute.Disk](p), func(d *armcompute.Disk) string { return armtext.Of(d.Name) })
	p.disks.loose = p.looseDisk
}

func openSharedList[T any](p *Provider, s shelf, decode func(json.RawMessage) (T, error), name func(T) string) *sharedList[T] {
	return &sharedList[T]{
		what: s.what, now: p.opts.Now, asking: ctxlock.New(), decode: decode, name: name,
		rows: func(ctx context.Context) ([]json.RawMessage, int, error) {
			return s.rows(ctx, p.clients.arm, p.opts.SubscriptionID, p.opts.NodeResourceGroup)
		},
	}
}

type rowsOf = func(context.Context) (rows []json.RawMessage, pages int, err error)

// allMachines appends the machines that AKS lists to the virtual machines. The AKS machine
// exists for longer than its virtual machine, so listing it second misses none.
func (p *Provider) allMachines(virtual rowsOf) rowsOf {
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
	vm, err := decodeRow[armcompute.VirtualMachine](p)(row)
	if err != nil || vm.Properties == nil {
		return &machine{}, err
	}
	k, handle := p.backendOf(armtext.Of(vm.Name))
	return &machine{VirtualMachine: vm, handle: handle, maker: k}, nil
}

func decodeRow[T any](p *Provider) func(row json.RawMessage) (*T, error) {
	return func(row json.RawMessage) (*T, error) {
		item := new(T)
		return item, p.decoder.decode(row, item)
	}
}
