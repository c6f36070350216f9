package azure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// addressBudget returns the quota name of a subnet's free addresses. Nodes of a cluster are in
// one virtual network, so the names of the network and the subnet are enough.
func addressBudget(s subnetID) string {
	return offering.AddressQuota + strings.ToLower(s.vnet+"/"+s.subnet)
}

// keptByAzure is the number of addresses in each range that no node gets: the first four and the
// last.
const keptByAzure = 5

// addressBook tracks the free addresses of a subnet: the last reading, and what was reserved or
// freed since.
type addressBook struct {
	subnet subnetID
	source *source[usages] // the quota of this subnet only
	ledger *ledger
	asked  time.Time // last use; guarded by addressBooks.mu
}

// addressBooks holds the addressBooks by subnet ID in lower case.
type addressBooks struct {
	p *Provider

	mu   sync.Mutex
	byID map[string]*addressBook
}

// of returns the book of a subnet; nil when the ID is malformed.
func (b *addressBooks) of(id string) *addressBook {
	id = strings.ToLower(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if book, known := b.byID[id]; known {
		book.asked = b.p.opts.Now()
		return book
	}
	subnet, err := parseSubnetID(id)
	if err != nil {
		return nil
	}
	book := &addressBook{subnet: subnet, ledger: newLedger(), asked: b.p.opts.Now()}
	book.source = &source[usages]{
		name: "addresses of subnet " + subnet.subnet, now: b.p.opts.Now, patience: b.p.opts.Patience, panics: b.p.opts.Panics,
		load: func(ctx context.Context) (usages, error) { return b.p.readAddresses(ctx, subnet) },
		same: usages.sameLimits,
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

// readAddresses reads how many addresses a subnet has and how many are in use.
func (p *Provider) readAddresses(ctx context.Context, s subnetID) (usages, error) {
	resp, err := p.clients.subnets.Get(ctx, s.group, s.vnet, s.subnet, nil)
	if err != nil {
		return nil, wrap(err, "reading the subnet")
	}
	size := addressesIn(resp.Properties)
	if size == 0 {
		return nil, errors.New("the answer of Azure has no range of it")
	}
	p.network.noteRanges(s, resp.Properties)
	return usages{addressBudget(s): {limit: size, used: taken(resp.Properties)}}, nil
}

// sixSuffix is the suffix of a node's IPv6 IP configuration.
const sixSuffix = "-ipv6"

// taken returns how many IPv4 addresses are in use. A subnet reports only the ID of an IP
// configuration. IPv6 configurations of karve's nodes are recognized by their name; those of
// other owners count as well.
func taken(s *armnetwork.SubnetPropertiesFormat) int64 {
	var n int64
	for _, c := range s.IPConfigurations {
		if c != nil && !strings.HasSuffix(strings.ToLower(armtext.Of(c.ID)), sixSuffix) {
			n++
		}
	}
	return n
}

// hasSix reports whether a subnet has an IPv6 range.
func hasSix(s *armnetwork.SubnetPropertiesFormat) bool {
	return slices.ContainsFunc(ranges(s), func(r netip.Prefix) bool { return r.Addr().Is6() })
}

// ranges returns the address ranges of a subnet that can be parsed.
func ranges(s *armnetwork.SubnetPropertiesFormat) []netip.Prefix {
	if s == nil {
		return nil
	}
	prefixes := armtext.Sorted(s.AddressPrefixes)
	if len(prefixes) == 0 {
		prefixes = []string{armtext.Of(s.AddressPrefix)}
	}
	var out []netip.Prefix
	for _, prefix := range prefixes {
		if r, err := netip.ParsePrefix(prefix); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// addressesIn returns how many IPv4 addresses nodes can have in a subnet; zero when the subnet
// has no IPv4 range that can be parsed.
func addressesIn(s *armnetwork.SubnetPropertiesFormat) int64 {
	var size int64
	for _, r := range ranges(s) {
		if r.Addr().Is4() {
			size += max(0, int64(1)<<(32-r.Bits())-keptByAzure)
		}
	}
	return size
}

// left returns what remains of the subnet; nil while that is not known.
func (b *addressBook) left() map[string]int64 {
	if b == nil {
		return nil
	}
	known := b.source.read()
	return b.ledger.left([]string{addressBudget(b.subnet)}, known.value, known.taken)
}

// problem describes why the subnet could not be read; empty when it could.
func (b *addressBook) problem() string {
	if b == nil {
		return ""
	}
	known := b.source.read()
	if known.problem != "" && known.version == 0 {
		return known.problem + ": machines are bought without regard to the addresses left"
	}
	return known.problem
}

// How often addresses are counted again.
const (
	addressesEvery = 3 * time.Minute
	// addressesBusy is the interval while nodes are launched or deleted.
	addressesBusy = time.Minute
)

// keepAddresses checks every minute whether addresses have to be counted again.
func (p *Provider) keepAddresses(ctx context.Context) {
	for pause(ctx, addressesBusy) {
		for _, book := range p.addresses.all() {
			if book.ledger.active() || p.opts.Now().Sub(book.source.read().taken) >= addressesEvery {
				book.source.ask(ctx) // does not wait: an error of one subnet must not delay the others
			}
		}
	}
}

// addressesOf returns how many addresses of its subnet a node takes: one with an overlay or a
// network plugin other than Azure's, otherwise one for each pod it may run.
func (p *Provider) addressesOf(maxPods int64) int64 {
	if p.opts.NetworkPlugin != pluginAzure || p.opts.NetworkPluginMode == modeOverlay {
		return 1
	}
	return max(1, maxPods)
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
	subnet, err := parseSubnetID(sh.subnet)
	if err != nil {
		return offering.QuotaUse{}, false
	}
	return offering.QuotaUse{Quota: addressBudget(subnet), Amount: p.addressesOf(sh.maxPods)}, true
}

// reserve takes an offering's quota use out of the quota and the subnet, or returns the name of
// the quota that is too small.
func (l *launch) reserve(draws []offering.QuotaUse) (short string, ok bool) {
	if short, ok := l.p.ledger.reserve(l.name, draws, l.in.quota.value, l.in.quota.taken); !ok {
		return short, false
	}
	book := l.p.addresses.of(l.subnet())
	if book == nil {
		return "", true
	}
	known := book.source.read()
	if short, ok := book.ledger.reserve(l.name, draws, known.value, known.taken); !ok {
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
	err := l.p.quota.refreshOlder(ctx, lately)
	fresh := l.p.quota.read()
	newer := fresh.taken.After(l.in.quota.taken)
	l.in.quota = fresh
	if book := l.p.addresses.of(l.subnet()); book != nil {
		before := book.source.read().taken
		err = errors.Join(err, book.source.refreshOlder(ctx, lately))
		newer = newer || book.source.read().taken.After(before)
	}
	if err != nil && !newer {
		return false, fmt.Errorf("counting anew: %w", err)
	}
	return newer, nil
}
