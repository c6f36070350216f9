package disrupt

import "time"

// Budget is one of a pool's disruption budgets, as it stands now.
type Budget struct {
	// Causes it holds for; nil means all.
	Causes []Cause
	// Nodes is how many may be down at once; with Percent, of every hundred, rounded up.
	Nodes   int
	Percent bool
	// Active is set while its schedule says so, or when it has none; Until is when that
	// changes by itself, zero when it does not.
	Active bool
	Until  time.Time
	// Broken is set when it cannot be read: it then allows nothing, whatever its schedule.
	Broken bool
}
