package azure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// addressBudget returns the quota name of a subnet's free addresses. Nodes of a cluster are in
// one virtual network, so the names of the network and the subnet are enough.
func addressBudget(s network.SubnetID) string {
	return offering.AddressQuota + s.Key()
}

// addressBook tracks the free addresses of a subnet: the last reading, and what was reserved or
// freed since.
type addressBook struct {
	subnet network.SubnetID
	source *cached.Source[usages] // the quota of this subnet only
	ledger *ledger
	asked  time.Time // last use; guarded by addressBooks.mu
}

// addressBooks holds the addressBooks by subnet ID in lower case.
type addressBooks struct {
	cached.Env
	// read returns how many addresses a subnet has, and how many are in use.
	read func(context.Context, network.SubnetID) (size, used int64, err error)

	mu   sync.Mutex
	byID map[string]*addressBook
}

// of returns the book of a subnet; nil when the ID is malformed.
func (b *addressBooks) of(id string) *addressBook {
	id = strings.ToLower(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if book, known := b.byID[id]; known {
		book.asked = b.Now()
		return book
	}
	subnet, err := network.ParseSubnetID(id)
	if err != nil {
		return nil
	}
	book := &addressBook{subnet: subnet, ledger: newLedger(), asked: b.Now()}
	book.source = &cached.Source[usages]{
		Name: "addresses of subnet " + subnet.Name, Env: b.Env,
		Load: func(ctx context.Context) (usages, error) {
			size, used, err := b.read(ctx, subnet)
			return usages{addressBudget(subnet): {limit: size, used: used}}, err
		},
		Same: usages.sameLimits,
	}
	b.byID[id] = book
	return book
}

func (b *addressBooks) all() []*addressBook {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*addressBook
	for _, id := range slices.Sorted(maps.Keys(b.byID)) {
		all = append(all, b.byID[id])
	}
	return all
}

// left returns what remains of the subnet; nil while that is not known.
func (b *addressBook) left() map[string]int64 {
	if b == nil {
		return nil
	}
	known := b.source.State()
	return b.ledger.left([]string{addressBudget(b.subnet)}, known.Value, known.Taken)
}

// problem describes why the subnet could not be read; empty when it could.
func (b *addressBook) problem() string {
	if b == nil {
		return ""
	}
	known := b.source.State()
	if known.Problem != "" && known.Version == 0 {
		return known.Problem + ": machines are bought without regard to the addresses left"
	}
	return known.Problem
}

// How often addresses are counted again.
const (
	addressesEvery = 3 * time.Minute
	// addressesBusy is the interval while nodes are launched or deleted.
	addressesBusy = time.Minute
)

// keepAddresses checks every minute whether addresses have to be counted again.
func (p *Provider) keepAddresses(ctx context.Context) {
	for cached.Pause(ctx, addressesBusy) {
		for _, book := range p.addresses.all() {
			if book.ledger.active() || p.opts.Now().Sub(book.source.State().Taken) >= addressesEvery {
				book.source.Request(ctx) // does not wait: an error of one subnet must not delay the others
			}
		}
	}
}

// withAddresses adds to each offering the addresses that a node of the shape takes.
func (p *Provider) withAddresses(offers []offering.Offering, sh shape) []offering.Offering {
	draw, ok := p.addressDraw(sh)
	if !ok {
		return offers
	}
	drawn := map[string][]offering.QuotaUse{} // offerings of one capacity type share theirs
	for i := range offers {
		o := &offers[i]
		if drawn[o.CapacityType] == nil {
			drawn[o.CapacityType] = append(o.QuotaUses[:len(o.QuotaUses):len(o.QuotaUses)], draw)
		}
		o.QuotaUses = drawn[o.CapacityType]
	}
	return offers
}

func (p *Provider) addressDraw(sh shape) (offering.QuotaUse, bool) {
	subnet, err := network.ParseSubnetID(sh.subnet)
	if err != nil {
		return offering.QuotaUse{}, false
	}
	return offering.QuotaUse{Quota: addressBudget(subnet), Amount: p.opts.cni().AddressesPerNode(sh.maxPods)}, true
}

// reserve takes an offering's quota use out of the quota and the subnet, or returns the name of
// the quota that is too small.
func (l *launch) reserve(draws []offering.QuotaUse) (short string, ok bool) {
	if short, ok := l.p.ledger.reserve(l.name, draws, l.in.quota.Value, l.in.quota.Taken); !ok {
		return short, false
	}
	book := l.p.addresses.of(l.subnet())
	if book == nil {
		return "", true
	}
	known := book.source.State()
	if short, ok := book.ledger.reserve(l.name, draws, known.Value, known.Taken); !ok {
		l.p.ledger.cancel(l.name)
		return short, false
	}
	return "", true
}

// settle records that the creation was accepted, or may have been.
func (l *launch) settle(at time.Time) {
	l.p.ledger.settle(l.name, at)
	if book := l.p.addresses.of(l.subnet()); book != nil {
		book.ledger.settle(l.name, at)
	}
}

// unreserve cancels the reservation of a creation that was refused or not requested.
func (l *launch) unreserve() {
	l.p.ledger.cancel(l.name)
	if book := l.p.addresses.of(l.subnet()); book != nil {
		book.ledger.cancel(l.name)
	}
}

// credit frees the quota of a virtual machine at the time it was found gone.
func (p *Provider) credit(machine string, draws []offering.QuotaUse, at time.Time) {
	p.ledger.credit(machine, draws, at)
	for _, book := range p.addresses.all() {
		for _, d := range draws {
			if d.Quota == addressBudget(book.subnet) {
				book.ledger.credit(machine, draws, at)
			}
		}
	}
}

// recount reads quota and addresses again, unless that was done a moment ago. It reports whether
// either is newer than before.
func (l *launch) recount(ctx context.Context) (bool, error) {
	lately := l.p.opts.Now().Add(-5 * time.Second)
	err := l.p.quota.RefreshOlder(ctx, lately)
	fresh := l.p.quota.State()
	newer := fresh.Taken.After(l.in.quota.Taken)
	l.in.quota = fresh
	if book := l.p.addresses.of(l.subnet()); book != nil {
		before := book.source.State().Taken
		err = errors.Join(err, book.source.RefreshOlder(ctx, lately))
		newer = newer || book.source.State().Taken.After(before)
	}
	if err != nil && !newer {
		return false, fmt.Errorf("counting anew: %w", err)
	}
	return newer, nil
}
