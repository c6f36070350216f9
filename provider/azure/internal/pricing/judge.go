// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/pricelist"
)

// Bounds that no real price has ever passed: the factor by which a price changes within a day,
// and dollars an hour. Spot prices move between a tenth and the whole of the on-demand price.
const (
	implausibleFactor = 100
	implausibleUSD    = 1000
)

// A DoubtedPrice is an implausible price of the list, which is not used.
type DoubtedPrice struct {
	Size, CapacityType string
	// Said is the price in the list, in dollars an hour.
	Said float64
	// Used is the price that is used instead; zero when no other is known.
	Used offering.Price
}

func (d DoubtedPrice) String() string {
	used := "no price is known"
	if d.Used > 0 {
		used = d.Used.String() + " is used"
	}
	return fmt.Sprintf("%s (%s) at %g USD/h: %s", d.Size, d.CapacityType, d.Said, used)
}

// A Judge decides which prices of the list are used.
type Judge struct {
	BuiltIn Table
	// Source is the source of the built-in prices.
	Source   pricelist.List
	location string

	mu       sync.Mutex
	accepted Table // the last table that was accepted
	doubted  []DoubtedPrice
	absent   bool // the list has no row of the region
}

func NewJudge(location string) (*Judge, error) {
	list, err := pricelist.In(location)
	if err != nil {
		return nil, err
	}
	j := &Judge{BuiltIn: make(Table, len(list.Prices)), Source: list, location: location}
	for size, p := range list.Prices {
		onDemand, errA := offering.USDPerHour(p.OnDemand)
		spot, errB := offering.USDPerHour(p.Spot)
		if err := errors.Join(errA, errB); err != nil {
			return nil, fmt.Errorf("built-in prices: %s: %w", size, err)
		}
		j.BuiltIn[size] = Price{onDemand, spot}
	}
	return j, nil
}

// accept makes a price table of a list that was read. Implausible prices of single sizes are
// replaced by the last known ones; a list whose prices are mostly implausible is an error.
func (j *Judge) accept(list *meters) (Table, error) {
	next := list.table()
	j.mu.Lock()
	defer j.mu.Unlock()
	doubted := j.replaceImplausible(next)
	j.absent = list.rows == 0 && len(j.accepted) == 0 && !strings.EqualFold(j.Source.Region, j.location)
	switch {
	case j.absent:
		// No price of this region is known: sovereign and private clouds are not in the public
		// list, and reading every minute would not change that. The list may also be incomplete
		// by mistake, so it is read again before the usual interval ends.
		j.accepted, j.doubted = next, nil
		return next, nil
	case len(next) == 0:
		return nil, errors.New("the price list holds no VM size of the region")
	case list.unreadable*2 > list.rows:
		return nil, fmt.Errorf("%d of %d rows of the price list cannot be read", list.unreadable, list.rows)
	case len(doubted)*2 > len(next):
		return nil, fmt.Errorf("%d prices of %d sizes cannot be true, such as %s", len(doubted), len(next), slices.MinFunc(doubted, bySize))
	case len(next)*2 < len(j.accepted):
		return nil, fmt.Errorf("the price list shrank from %d to %d sizes at once: keeping the earlier one", len(j.accepted), len(next))
	}
	doubted = append(doubted, j.fillWorthless(next, list)...)
	slices.SortFunc(doubted, bySize)
	j.accepted, j.doubted = next, doubted
	return next, nil
}

func bySize(a, b DoubtedPrice) int {
	return cmp.Or(strings.Compare(a.Size, b.Size), strings.Compare(a.CapacityType, b.CapacityType))
}

// replaceImplausible replaces implausible prices by the last known ones.
func (j *Judge) replaceImplausible(next Table) (doubted []DoubtedPrice) {
	for size := range next {
		for _, what := range []priced{{size, false}, {size, true}} {
			said := next.of(what)
			if said == 0 || plausible(said, j.accepted.of(what)) && plausible(said, j.BuiltIn.of(what)) {
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

// fillWorthless uses the last known price where the list has only prices of zero or less.
func (j *Judge) fillWorthless(next Table, list *meters) (doubted []DoubtedPrice) {
	for what, said := range list.worthless {
		what = list.named(what)
		if next.of(what) > 0 {
			continue // another meter has a price
		}
		if j.known(what) > 0 {
			next.set(what, j.known(what))
		}
		doubted = append(doubted, DoubtedPrice{what.size, what.capacityType(), said, next.of(what)})
	}
	return doubted
}

// known returns the last accepted price, else the built-in one.
func (j *Judge) known(what priced) offering.Price {
	return cmp.Or(j.accepted.of(what), j.BuiltIn.of(what))
}

// Rejected returns the implausible prices of the last list, sorted by name.
func (j *Judge) Rejected() []DoubtedPrice {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.doubted)
}

// Unlisted says that the price list was read and lacks the region, and that it is read again
// after every; empty when the list has the region.
func (j *Judge) Unlisted(every time.Duration) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.absent {
		return ""
	}
	return fmt.Sprintf("Azure's price list does not have the region %s: offerings are priced as in %s, %s, and the list is read again every %.0f minutes", j.location, j.Source.Region, j.Source.Of, every.Minutes())
}
