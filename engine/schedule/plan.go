// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// Plan says which nodes to launch and where the pods go. It is complete: every pod of the snapshot that is
// to be placed is in exactly one of Launches, Nominations and Unplaced.
type Plan struct {
	Launches    []Launch
	Nominations []Nomination // by node key
	Unplaced    []Unplaced
	// LowerBound is a price per hour below which no plan can launch nodes for the pods of
	// Launches, each at the pool weight that it has there. It is computed from the fractional
	// covering of their requests (linear programs), and takes into account which offerings each
	// pod may use and how many nodes the pods limited per node need. Zero when no node is
	// launched.
	LowerBound offering.Price
	// CutShort are the searches that stopped because their steps were spent, each once.
	CutShort []CutShort
	// Preferences counts the preferences (affinity, soft spread and the like) that are
	// honoured.
	Preferences Preferences
}

// Preferences summarises the pods' preferences and what honouring them costs. All fields are
// zero when no pod has preferences or the settings ignore them.
type Preferences struct {
	// Asked and Honoured count preferences, one per preference and pod. Honoured are those
	// that hold once every pod is where the plan puts it, whether or not the plan tried to
	// honour them; a launch counts as its first offering.
	Asked, Honoured int
	// Cost is what honouring them adds to the plan's price per hour; never negative.
	Cost offering.Price
}

// Price is what the first offerings of the plan's launches cost together, per hour.
func (p Plan) Price() offering.Price {
	var sum offering.Price
	for _, l := range p.Launches {
		sum = sum.Add(l.Offerings[0].Price)
	}
	return sum
}

// ListPrice is what the instances of the plan's first offerings cost together by list, per hour:
// Price without what their nodes cost besides.
func (p Plan) ListPrice() offering.Price {
	var sum offering.Price
	for _, l := range p.Launches {
		sum = sum.Add(l.Offerings[0].ListPrice())
	}
	return sum
}

// Gap is by which fraction of LowerBound the plan's price exceeds it: 0.02 is two percent.
// Zero when there is no bound.
func (p Plan) Gap() float64 {
	if p.LowerBound <= 0 {
		return 0
	}
	return float64(p.Price()-p.LowerBound) / float64(p.LowerBound)
}

// Launch is a node that a plan asks for: one NodeClaim with the offerings that it accepts. Its
// instance is launched later, by controller/lifecycle.
type Launch struct {
	Pool string
	// Offerings are the acceptable ones, cheapest first; never empty. Each of them holds the
	// pods within the pool's limits.
	Offerings []offering.Ref
	// Rules describe the same for a NodeClaim: instance types, zones, capacity types and
	// every other label requirement, sorted by key.
	Rules []constraint.Rule
	// Labels are those the node gets from the pool's template and from single-valued rules.
	Labels map[string]string
	Taints []cluster.Taint
	// Requests are those of the pods and DaemonSets together, Daemons the DaemonSets' share. Launches
	// may share them, so they must not be changed.
	Requests, Daemons quantity.Amounts
	Pods              []cluster.PodRef
	// RunnersUp are other instance types, each once, for the explanation: first cheaper ones
	// that could not be launched, then the next in price. At most three; launches may share
	// the slice.
	RunnersUp []RunnerUp
	// Relaxed lists the labels for which the offerings have fewer values than the pool's
	// minValues ask for, sorted. It is empty unless the settings allow that.
	Relaxed []string
}

// RunnerUp is an offering that could have been launched instead, and why it was not.
type RunnerUp struct {
	offering.Ref
	Pool string         // the NodePool that would have launched it
	More offering.Price // than the first offering, per hour; negative when it is cheaper
	// Because is HigherPrice for an instance type that is among the launch's offerings. Otherwise
	// it says what kept the type out of them: Availability, Quota, Addresses, Limits,
	// Requirements, Preference, Ports, Topology, Weight, or Resources when it is too small.
	Because reason.Reason
	Why     string       // in words
	Facts   reason.Facts // the parameters of Why as data
}

// Nomination says which pods should fit on a node that exists or is in flight.
type Nomination struct {
	Node string // cluster.Node.Key
	Pods []cluster.PodRef
}

// Unplaced is a group of like pods that cannot be placed, and why.
type Unplaced struct {
	Pods    []cluster.PodRef
	Because reason.Reason
	Detail  string       // in words; empty when the Funnels say it all
	Facts   reason.Facts // the parameters of Detail as data
	Funnels []reason.Funnel
}
