// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/reason"
)

// Budget is one of a pool's disruption budgets, as it stands now.
type Budget struct {
	// Causes that the budget applies to; nil means all.
	Causes []Cause
	// Nodes is how many nodes may be disrupted at once; with Percent, a percentage, rounded up.
	Nodes   int
	Percent bool
	// Active is set while the budget's schedule is active, or when it has none; Until is when that
	// may change by itself, zero when it does not.
	Active bool
	Until  time.Time
	// Invalid is set when the budget cannot be parsed: the pool then allows no disruption, for any
	// cause and whatever the schedule.
	Invalid bool
}

// NodeCount is the nodes of a pool as its budgets count them.
type NodeCount struct {
	// Nodes counts nodes that were initialized and whose instances are not terminating; Down
	// counts those among them that are not ready, are leaving, or are in a move.
	Nodes, Down int
}

// CountNodes counts the nodes of every pool. Each node that a new move takes adds one to Down,
// for every cause.
func CountNodes(in *Input) map[string]NodeCount {
	going := map[string]bool{}
	for _, m := range in.Underway {
		for _, key := range m.Nodes {
			going[key] = true
		}
	}
	out := map[string]NodeCount{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if n.Initialized.IsZero() || n.Terminating {
			continue // an uninitialized node is no disruption, and would round percentages up
		}
		count := out[n.Pool]
		count.Nodes++
		if n.MarkedForDeletion || !n.Ready || going[n.Key] {
			count.Down++
		}
		out[n.Pool] = count
	}
	return out
}

// AllowedDisruptions is how many more nodes of the pool may be disrupted for that cause, and the
// objection for a node that may not (Kept without a key). The strictest budget decides; a pool
// without budgets may lose all nodes at once.
func AllowedDisruptions(p *Pool, count NodeCount, cause Cause) (int, Kept) {
	most, until := MaxDown(p, count.Nodes, cause)
	kept := Kept{
		Because: BudgetExhausted,
		Detail:  fmt.Sprintf("No allowed disruptions for disruption reason %s due to blocking budget", cause.inBudgets()),
		Facts:   reason.FactsOf(map[string]any{"nodepool": p.Name, "nodes": count.Nodes, "down": count.Down, "allowed": most}),
		Until:   until,
	}
	return max(0, most-count.Down), kept
}

// MaxDown is how many of the pool's nodes may be down at once for that cause (math.MaxInt32
// when no budget bounds it), and when that may change by itself.
func MaxDown(p *Pool, nodes int, cause Cause) (most int, until time.Time) {
	most = math.MaxInt32
	for i := range p.Budgets {
		b := &p.Budgets[i]
		if b.Invalid {
			return 0, time.Time{}
		}
		if !b.appliesTo(cause) {
			continue
		}
		if b.Active {
			most = min(most, b.limit(nodes))
		}
		if !b.Until.IsZero() && (until.IsZero() || b.Until.Before(until)) {
			until = b.Until
		}
	}
	return most, until
}

// inBudgets is the cause under which budgets count this one.
func (c Cause) inBudgets() Cause {
	if c == Expired {
		return Drifted
	}
	return c
}

func (b *Budget) appliesTo(cause Cause) bool {
	return b.Causes == nil || slices.Contains(b.Causes, cause.inBudgets())
}

// limit is the budget's limit for that number of nodes, at most math.MaxInt32. Percentages round
// up: ten percent of three nodes is one, or a small pool could never change.
func (b *Budget) limit(nodes int) int {
	n := min(max(b.Nodes, 0), math.MaxInt32)
	if !b.Percent {
		return n
	}
	return min((n*nodes+99)/100, math.MaxInt32)
}
