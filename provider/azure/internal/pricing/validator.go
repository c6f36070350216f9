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

// A RejectedPrice is an implausible price of the list, which is not used.
type RejectedPrice struct {
	// Size is a VM size, or the tier of an OS disk, with the CapacityType "disk".
	Size, CapacityType string
	// Listed is the price in the list, in dollars an hour.
	Listed float64
	// Used is the price that is used instead; zero when no other is known.
	Used offering.Price
}

func (d RejectedPrice) String() string {
	used := "no price is known"
	if d.Used > 0 {
		used = d.Used.String() + " is used"
	}
	return fmt.Sprintf("%s (%s) at %g USD/h: %s", d.Size, d.CapacityType, d.Listed, used)
}

// A Validator decides which prices of the list are used.
type Validator struct {
	subject *subject
	BuiltIn Table
	// Source is the source of the built-in prices.
	Source   pricelist.List
	location string

	mu             sync.Mutex
	accepted       Table // the last table that was accepted
	rejected       []RejectedPrice
	regionUnlisted bool // the list has no row of the region
}

// NewDiskValidator returns the validator of the prices of managed disks.
func NewDiskValidator(location string) *Validator {
	return &Validator{subject: managedDisks, BuiltIn: builtInDisks(), Source: pricelist.List{Region: "eastus", Month: "2026"}, location: location}
}

// NewValidator returns the validator of the prices of VM sizes.
func NewValidator(location string) (*Validator, error) {
	list, err := pricelist.In(location)
	if err != nil {
		return nil, err
	}
	v := &Validator{subject: virtualMachines, BuiltIn: make(Table, len(list.Prices)), Source: list, location: location}
	for size, p := range list.Prices {
		onDemand, errA := offering.USDPerHour(p.OnDemand)
		spot, errB := offering.USDPerHour(p.Spot)
		if err := errors.Join(errA, errB); err != nil {
			return nil, fmt.Errorf("built-in prices: %s: %w", size, err)
		}
		v.BuiltIn[size] = Price{onDemand, spot}
	}
	return v, nil
}

// accept makes a price table of a list that was read. Implausible prices of single sizes are
// replaced by the last known ones; a list whose prices are mostly implausible is an error.
func (v *Validator) accept(list *meters) (Table, error) {
	next := list.table()
	v.mu.Lock()
	defer v.mu.Unlock()
	rejected := v.replaceImplausible(next)
	v.regionUnlisted = list.rows == 0 && len(v.accepted) == 0 && !strings.EqualFold(v.Source.Region, v.location)
	switch {
	case v.regionUnlisted:
		// No price of this region is known: sovereign and private clouds are not in the public
		// list, and reading every minute would not change that. The list may also be incomplete
		// by mistake, so it is read again before the usual interval ends.
		v.accepted, v.rejected = next, nil
		return next, nil
	case len(next) == 0:
		return nil, fmt.Errorf("the price list holds no %s of the region", v.subject.noun)
	case list.unreadable*2 > list.rows:
		return nil, fmt.Errorf("%d of %d rows of the price list cannot be read", list.unreadable, list.rows)
	case len(rejected)*2 > len(next):
		return nil, fmt.Errorf("%d prices of %d sizes cannot be true, such as %s", len(rejected), len(next), slices.MinFunc(rejected, bySize))
	case len(next)*2 < len(v.accepted):
		return nil, fmt.Errorf("the price list shrank from %d to %d sizes at once: keeping the earlier one", len(v.accepted), len(next))
	}
	rejected = append(rejected, v.replaceNonPositive(next, list)...)
	slices.SortFunc(rejected, bySize)
	v.accepted, v.rejected = next, rejected
	return next, nil
}

func bySize(a, b RejectedPrice) int {
	return cmp.Or(strings.Compare(a.Size, b.Size), strings.Compare(a.CapacityType, b.CapacityType))
}

// replaceImplausible replaces implausible prices by the last known ones.
func (v *Validator) replaceImplausible(next Table) (rejected []RejectedPrice) {
	for size := range next {
		for _, key := range []priceKey{{size, false}, {size, true}} {
			listedPrice := next.of(key)
			if listedPrice == 0 || plausible(listedPrice, v.accepted.of(key)) && plausible(listedPrice, v.BuiltIn.of(key)) {
				continue
			}
			next.set(key, v.lastKnown(key))
			rejected = append(rejected, RejectedPrice{size, v.subject.capacityType(key), listedPrice.USD(), v.lastKnown(key)})
		}
	}
	return rejected
}

func plausible(listedPrice, known offering.Price) bool {
	if listedPrice > implausibleUSD*1e9 {
		return false
	}
	return known == 0 || listedPrice < known*implausibleFactor && listedPrice > known/implausibleFactor
}

// replaceNonPositive uses the last known price where the list has only prices of zero or less.
func (v *Validator) replaceNonPositive(next Table, list *meters) (rejected []RejectedPrice) {
	for key, listedPrice := range list.nonPositive {
		key = list.named(key)
		if next.of(key) > 0 {
			continue // another meter has a price
		}
		if v.lastKnown(key) > 0 {
			next.set(key, v.lastKnown(key))
		}
		rejected = append(rejected, RejectedPrice{key.size, v.subject.capacityType(key), listedPrice, next.of(key)})
	}
	return rejected
}

// lastKnown returns the last accepted price, else the built-in one.
func (v *Validator) lastKnown(key priceKey) offering.Price {
	return cmp.Or(v.accepted.of(key), v.BuiltIn.of(key))
}

// Rejected returns the implausible prices of the last list, sorted by name.
func (v *Validator) Rejected() []RejectedPrice {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.rejected)
}

// Unlisted says that the price list was read and lacks the region, and that it is read again
// after every; empty when the list has the region.
func (v *Validator) Unlisted(every time.Duration) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.regionUnlisted {
		return ""
	}
	return fmt.Sprintf("Azure's price list does not have the region %s: offerings are priced as in %s, %s, and the list is read again every %.0f minutes", v.location, v.Source.Region, v.Source.Month, every.Minutes())
}
