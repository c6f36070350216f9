// SPDX-License-Identifier: Apache-2.0

package pricing

import "github.com/karve-dev/karve/engine/offering"

// A subject is what a part of the price list is about.
type subject struct {
	// noun is one of its sizes, in words.
	noun string
	// filters select its rows, each in one list; the region is added to them.
	filters []string
	// counts reports whether a row is a price of a size.
	counts func(priceItem) bool
	// size returns the name of the size that a row prices.
	size func(priceItem) string
	// hours is how many hours a price is for.
	hours float64
}

// capacityType is RejectedPrice.CapacityType of a price.
func (s *subject) capacityType(key priceKey) string {
	switch {
	case s == managedDisks:
		return "disk"
	case key.spot:
		return offering.Spot
	}
	return offering.OnDemand
}

// hoursPerMonth are the hours of the month by which Azure charges what it prices by the month.
const hoursPerMonth = 730

var virtualMachines = &subject{
	noun:    "VM size",
	filters: []string{"serviceFamily eq 'Compute' and serviceName eq 'Virtual Machines'"},
	counts:  priceItem.isLinuxVM,
	size:    func(i priceItem) string { return i.ArmSKUName },
	hours:   1,
}

// managedDisks are the disks that nodes start from: see DiskType.
var managedDisks = &subject{
	noun: "disk size",
	filters: []string{
		"serviceFamily eq 'Storage' and serviceName eq 'Storage' and productName eq '" + productOf[PremiumSSD] + "'",
		"serviceFamily eq 'Storage' and serviceName eq 'Storage' and productName eq '" + productOf[StandardHDD] + "'",
	},
	counts: priceItem.isLocalDisk,
	size:   priceItem.diskTier,
	hours:  hoursPerMonth,
}
