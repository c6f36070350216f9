// SPDX-License-Identifier: Apache-2.0

package provider

import "time"

// PriceReporter is a Provider that reads a list of prices and rejects implausible ones.
type PriceReporter interface {
	// PriceStats returns the state of the list. It makes no call to the cloud.
	PriceStats() PriceStats
}

// PriceStats counts the prices of a list. The zero value is a list that was never read.
type PriceStats struct {
	// Accepted is how many instance types have a price; Rejected is how many prices were
	// implausible when the list was last read.
	Accepted, Rejected int
	// Read is when the list was last read.
	Read time.Time
}
