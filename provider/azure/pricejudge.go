package azure

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/pricelist"
)

// What no price of a machine has ever been: so many times what it was the day before, or
// so many dollars an hour. Spot moves between a tenth and the whole of the price on demand.
const (
	implausibleFactor = 100
	implausibleUSD    = 1000
)

// A DoubtedPrice is a price of the list that is not believed.
type DoubtedPrice struct {
	Size, CapacityType string
	// Said is what the list says, in dollars an hour.
	Said float64
	// Used is what is gone by instead; zero when there was nothing but the list's.
	Used offering.Price
}

func (d DoubtedPrice) String() string {
	used := "no price is known"
	if d.Used > 0 {
		used = d.Used.String() + " is used"
	}
	return fmt.Sprintf("%s (%s) at %g USD/h: %s", d.Size, d.CapacityType, d.Said, used)
}

// A priceJudge decides which prices of the list are believed.
type priceJudge struct {
	builtIn priceTable
	// listed is where the built-in prices are from.
	listed   pricelist.List
	location string

	mu       sync.Mutex
	believed priceTable // last
	doubted  []DoubtedPrice
	absent   bool // the list has no row of the region
}

func newPriceJudge(location string) (*priceJudge, error) {
	list, err := pricelist.In(location)
	if err != nil {
		return nil, err
	}
	j := &priceJudge{builtIn: make(priceTable, len(list.Prices)), listed: list, location: location}
	for size, p := range list.Prices {
		onDemand, errA := offering.USDPerHour(p.OnDemand)
		spot, errB := offering.USDPerHour(p.Spot)
		if err := errors.Join(errA, errB); err != nil {
			return nil, fmt.Errorf("built-in prices: %s: %w", size, err)
		}
		j.builtIn[size] = price{onDemand, spot}
	}
	return j, nil
}

// believe makes a table of a list that was read. What cannot be true of a single size is
// replaced by what was known before; a list of which most cannot be true is refused.
func (j *priceJudge) believe(list *meters) (priceTable, error) {
	next := list.table()
	j.mu.Lock()
	defer j.mu.Unlock()
	doubted := j.replaceImplausible(next)
	j.absent = list.rows == 0 && len(j.believed) == 0 && !strings.EqualFold(j.listed.Region, j.location)
	switch {
	case j.absent:
		// Nobody has seen prices of this region: sovereign and private clouds are not in the
		// public list, and asking every minute would not put them there. It may have failed to
		// say so, and is read again before its next turn.
		j.believed, j.doubted = next, nil
		return next, nil
	case len(next) == 0:
		return nil, errors.New("the price list holds no VM size of the region")
	case list.unreadable*2 > list.rows:
		return nil, fmt.Errorf("%d of %d rows of the price list cannot be read", list.unreadable, list.rows)
	case len(doubted)*2 > len(next):
		return nil, fmt.Errorf("%d prices of %d sizes cannot be true, such as %s", len(doubted), len(next), slices.MinFunc(doubted, bySize))
	case len(next)*2 < len(j.believed):
		return nil, fmt.Errorf("the price list shrank from %d to %d sizes at once: keeping the earlier one", len(j.believed), len(next))
	}
	doubted = append(doubted, j.fillWorthless(next, list)...)
	slices.SortFunc(doubted, bySize)
	j.believed, j.doubted = next, doubted
	return next, nil
}

func bySize(a, b DoubtedPrice) int {
	return cmp.Or(strings.Compare(a.Size, b.Size), strings.Compare(a.CapacityType, b.CapacityType))
}

// replaceImplausible puts what was known in the place of what cannot be true.
func (j *priceJudge) replaceImplausible(next priceTable) (doubted []DoubtedPrice) {
	for size := range next {
		for _, what := range []priced{{size, false}, {size, true}} {
			said := next.of(what)
			if said == 0 || plausible(said, j.believed.of(what)) && plausible(said, j.builtIn.of(what)) {
				continue
			}
			next.set(what, j.known(what))
			doubted = append(doubted, DoubtedPrice{size, what.capacityType(), said.USD(), j.known(what)})
		}
	}
	return doubted
}

func plausible(said, known offering.Price) bool {
	if said > implausibleUSD*1e9 {
		return false
	}
	return known == 0 || said < known*implausibleFactor && said > known/implausibleFactor
}

// fillWorthless uses what was known where the list has nothing but prices of zero or less.
func (j *priceJudge) fillWorthless(next priceTable, list *meters) (doubted []DoubtedPrice) {
	for what, said := range list.worthless {
		what = list.named(what)
		if next.of(what) > 0 {
			continue // under another meter
		}
		if j.known(what) > 0 {
			next.set(what, j.known(what))
		}
		doubted = append(doubted, DoubtedPrice{what.size, what.capacityType(), said, next.of(what)})
	}
	return doubted
}

// known is the last price that was believed, else the built-in one.
func (j *priceJudge) known(what priced) offering.Price {
	return cmp.Or(j.believed.of(what), j.builtIn.of(what))
}

// DoubtedPrices are the prices of the last list that were not believed, of sizes the region
// sells to nodes, in the order of their names.
func (p *Provider) DoubtedPrices() []DoubtedPrice {
	sold := p.skus.read().value.byName
	p.judge.mu.Lock()
	defer p.judge.mu.Unlock()
	var doubted []DoubtedPrice
	for _, d := range p.judge.doubted {
		if sold[d.Size] != nil {
			doubted = append(doubted, d)
		}
	}
	return doubted
}

// PricesProblem says in words why the price list could not be read; empty when it could.
func (p *Provider) PricesProblem() string { return p.prices.read().problem }

// PricesUnlisted says in words that the price list was read and does not have the region;
// empty when it has.
func (p *Provider) PricesUnlisted() string {
	p.judge.mu.Lock()
	defer p.judge.mu.Unlock()
	if !p.judge.absent {
		return ""
	}
	return fmt.Sprintf("Azure's price list does not have the region %s: machines are chosen by prices of %s, %s, and the list is read again every %.0f minutes", p.judge.location, p.judge.listed.Region, p.judge.listed.Of, nothingFor.Minutes())
}

// Prices counts what is gone by.
func (p *Provider) PriceStats() provider.PriceStats {
	list := p.prices.read()
	return provider.PriceStats{Accepted: len(list.value), Rejected: len(p.DoubtedPrices()), Read: list.taken}
}

var _ provider.PriceReporter = (*Provider)(nil)
