package disrupt

import (
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// Move is nodes that go together, and what takes their place. Moves of one plan share
// no node: neither among those that go nor between those and the homes of their pods.
type Move struct {
	Cause Cause
	// Nodes are the keys of those that go, sorted.
	Nodes []string
	// Homes are nodes that exist where pods fit; Launches what is bought for the others.
	// Whichever choices are bought, the move saves what its pools ask for, unless the
	// cause leaves no choice.
	Receivers []schedule.Nomination
	Launches  []schedule.Launch
	// Before is what the nodes that go cost per hour, After what the launches cost at
	// their first choices.
	Before, After offering.Price
	// Evictions counts the pods that move.
	Evictions int
	// Detail says why in words; for Balanced pools Score is what decided, per pool.
	Detail string
	Score  map[string]float64
}

// Saves is what the move saves per hour; negative when it costs.
func (m Move) Saves() offering.Price { return m.Before - m.After }

// Kept is a node that stays, and why.
type Kept struct {
	Key     string
	Because reason.Reason
	Detail  string
	Facts   reason.Facts
	// Until is when the reason lapses by itself; zero when it is not a matter of time.
	Until time.Time
	// Costs is what leaving it costs per hour: what would be saved if it could go; zero
	// when that was not looked into.
	Costs offering.Price
}

// Plan is moves to make, best first, and every node that is left alone with the reason.
type Plan struct {
	Moves []Move
	Kept  []Kept // by key
	// Done is set when everything was looked into; else Next continues where this ended,
	// with Moves among Cluster.Underway.
	Done bool
	Next Cursor
}

// Cursor is where a search that was cut short continues. The zero Cursor is the beginning.
type Cursor struct {
	Stage int
	Key   string
}
