package provider

import "time"

// Priced is a Provider that goes by a list of prices which it does not believe blindly.
type Priced interface {
	// Prices says how the list stands. It answers from memory.
	Prices() Prices
}

// Prices counts the prices of a list. The zero value is a list that was never read.
type Prices struct {
	// Believed is how many machine types have a price; Doubted is how many prices were
	// not believed when the list was last read.
	Believed, Doubted int
	// Read is when that was.
	Read time.Time
}
