package provider

import "time"

// PriceReporter is a Provider that goes by a list of prices which it does not believe blindly.
type PriceReporter interface {
	// PriceStats says how the list stands. It answers from memory.
	PriceStats() PriceStats
}

// PriceStats counts the prices of a list. The zero value is a list that was never read.
type PriceStats struct {
	// Believed is how many machine types have a price; Doubted is how many prices were
	// not believed when the list was last read.
	Accepted, Rejected int
	// Read is when that was.
	Read time.Time
}
