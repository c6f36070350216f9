// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// Move is a set of nodes that are removed together, and their replacements. Moves of one plan
// share no node: neither among the removed nodes nor between these and the nodes that receive
// pods.
type Move struct {
	Cause Cause
	// Nodes are the keys of the nodes to be removed, sorted.
	Nodes []string
	// Nominations say which existing nodes take pods of the move; Launches are new nodes for the
	// other pods. Whichever offerings are launched, the move saves what its pools ask for, except
	// for causes that replace a node whatever it costs.
	Nominations []schedule.Nomination
	Launches    []schedule.Launch
	// PriceBefore is what the removed nodes cost per hour, PriceAfter what the launches cost at
	// their first offerings.
	PriceBefore, PriceAfter offering.Price
	// Evictions counts the pods that move.
	Evictions int
	// CutShort are the searches for the move's plan that were cut short.
	CutShort []schedule.CutShort
	// Detail describes the move in words. For Balanced pools Score is the deciding score, by pool.
	Detail string
	Score  map[string]float64
}

// Saves is what the move saves per hour; negative when it costs more.
func (m Move) Saves() offering.Price { return m.PriceBefore - m.PriceAfter }

// Kept is a node that is not removed, and why.
type Kept struct {
	Key     string
	Because reason.Reason
	Detail  string
	Facts   reason.Facts
	// Until is when the reason lapses by itself; zero when it does not depend on time.
	Until time.Time
	// WouldSave is what its removal would save per hour. Zero when that was not computed.
	WouldSave offering.Price
}

// Plan is the moves to make, in the order in which the search accepted them, and the nodes that are
// left alone, with the reasons. Only the Plan of a search made in one call names every node.
type Plan struct {
	Moves []Move
	Kept  []Kept // by key
	// Done is set when the search looked at everything; else Next says where the next call
	// continues, with Moves among Input.Underway.
	Done bool
	Next Cursor
}

// Cursor is where a search that was cut short continues. The zero Cursor is the beginning.
type Cursor struct {
	Stage int
	Key   string
}

// newMove builds a move from the plan.
func newMove(cause Cause, set []*node, p schedule.Plan) Move {
	m := Move{Cause: cause, Nominations: p.Nominations, Launches: p.Launches, PriceAfter: p.Price(), CutShort: p.CutShort}
	for _, n := range set {
		m.Nodes = append(m.Nodes, n.Key)
		m.PriceBefore = m.PriceBefore.Add(n.price)
	}
	slices.Sort(m.Nodes)
	for _, r := range m.Nominations {
		m.Evictions += len(r.Pods)
	}
	for i := range m.Launches {
		m.Evictions += len(m.Launches[i].Pods)
	}
	m.Detail = m.describe()
	return m
}

// describe says what a move does, in words.
func (m *Move) describe() string {
	var words []string
	if n := len(m.Nodes); n > 1 {
		words = append(words, fmt.Sprintf("%d nodes", n))
	}
	for i := range m.Launches {
		c := m.Launches[i].Offerings[0]
		words = append(words, fmt.Sprintf("launch %s in %s as %s", c.Type, c.Zone, c.CapacityType))
	}
	switch saves := m.Saves(); {
	case saves > 0:
		words = append(words, fmt.Sprintf("saves $%s/h", saves))
	case saves < 0:
		words = append(words, fmt.Sprintf("costs $%s/h more", -saves))
	}
	switch {
	case m.Evictions == 1:
		words = append(words, "1 pod moves")
	case m.Evictions > 1:
		words = append(words, fmt.Sprintf("%d pods move", m.Evictions))
	}
	return strings.Join(words, ", ")
}
