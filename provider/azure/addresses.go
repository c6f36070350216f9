package azure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/engine/offering"
)

// addressBudget is the budget of a subnet's free addresses. Nodes of a cluster are in
// one virtual network, so that its name and the subnet's tell enough.
func addressBudget(s subnetID) string {
	return offering.AddressQuota + strings.ToLower(s.vnet+"/"+s.subnet)
}

// keptByAzure are the addresses of each range that no machine gets: the first four and
// the last.
const keptByAzure = 5

// addressBook knows how many addresses a subnet has, as read and as promised since.
type addressBook struct {
	subnet subnetID
	source *source[usages] // of one budget
	ledger *ledger
	asked  time.Time // last; guarded by the mutex of addressBooks
}

// addressBooks are kept by subnet id in lower case.
type addressBooks struct {
	p *Provider

	mu   sync.Mutex
	byID map[string]*addressBook
}

// of is the book of a subnet; nil when the id is none.
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
	for _, id := range sortedKeys(b.byID) {
		all = append(all, b.byID[id])
	}
	return all
}

// readAddresses counts what a subnet has and what is taken of it.
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

// sixSuffix ends the name of a node's IP configuration of IPv6.
const sixSuffix = "-ipv6"

// taken is how many IPv4 addresses are in use. A subnet tells no more of an IP
// configuration than its id: those of IPv6 are known by their name where they are ours, and
// count as well where they are not.
func taken(s *armnetwork.SubnetPropertiesFormat) int64 {
	var n int64
	for _, c := range s.IPConfigurations {
		if c != nil && !strings.HasSuffix(strings.ToLower(text(c.ID)), sixSuffix) {
			n++
		}
	}
	return n
}

// hasSix reports whether a subnet has a range of IPv6.
func hasSix(s *armnetwork.SubnetPropertiesFormat) bool {
	return slices.ContainsFunc(ranges(s), func(r netip.Prefix) bool { return r.Addr().Is6() })
}

// ranges are those of a subnet that can be read.
func ranges(s *armnetwork.SubnetPropertiesFormat) []netip.Prefix {
	if s == nil {
		return nil
	}
	prefixes := sortedTexts(s.AddressPrefixes)
	if len(prefixes) == 0 {
		prefixes = []string{text(s.AddressPrefix)}
	}
	var out []netip.Prefix
	for _, prefix := range prefixes {
		if r, err := netip.ParsePrefix(prefix); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// addressesIn is how many IPv4 addresses machines can have in a subnet; zero when it
// does not say.
func addressesIn(s *armnetwork.SubnetPropertiesFormat) int64 {
	var size int64
	for _, r := range ranges(s) {
		if r.Addr().Is4() {
			size += max(0, int64(1)<<(32-r.Bits())-keptByAzure)
		}
	}
	return size
}

// left is what remains of the subnet; nil while that is not known.
func (b *addressBook) left() map[string]int64 {
	if b == nil {
		return nil
	}
	known := b.source.read()
	return b.ledger.left([]string{addressBudget(b.subnet)}, known.value, known.taken)
}

// problem says what could not be read.
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
	// addressesBusy is how often while machines are bought or returned.
	addressesBusy = time.Minute
)

// keepAddresses looks every minute whether there is a reason to count anew.
func (p *Provider) keepAddresses(ctx context.Context) {
	for pause(ctx, addressesBusy) {
		for _, book := range p.addresses.all() {
			if book.ledger.active() || p.opts.Now().Sub(book.source.read().taken) >= addressesEvery {
				book.source.ask(ctx) // nobody waits: one subnet's trouble is not another's
			}
		}
	}
}

// addressesOf is how many addresses of its subnet a node takes: with an overlay, or a
// network of the user's own, one; else one for each pod it may have.
func (p *Provider) addressesOf(maxPods int64) int64 {
	if p.opts.NetworkPlugin != pluginAzure || p.opts.NetworkPluginMode == modeOverlay {
		return 1
	}
	return max(1, maxPods)
}

// withAddresses adds to offers what a node of the shape takes of its subnet.
func (p *Provider) withAddresses(offers []offering.Offering, sh shape) []offering.Offering {
	draw, ok := p.addressDraw(sh)
	if !ok {
		return offers
	}
	drawn := map[string][]offering.QuotaUse{} // offers of one capacity type share theirs
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

// reserve takes what an offer draws out of quota and subnet, or reports the budget that
// does not hold it.
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

// settle says that the purchase was accepted, or may have been.
func (l *launch) settle(at time.Time) {
	l.p.ledger.settle(l.name, at)
	if book := l.p.addresses.of(l.subnet()); book != nil {
		book.ledger.settle(l.name, at)
	}
}

// unreserve forgets a purchase that was refused or not made.
func (l *launch) unreserve() {
	l.p.ledger.cancel(l.name)
	if book := l.p.addresses.of(l.subnet()); book != nil {
		book.ledger.cancel(l.name)
	}
}

// credit gives back what a machine drew, at the time it was seen to be gone.
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

// recount reads quota and addresses anew, unless that was done a moment ago. It
// reports whether either is newer than before.
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
