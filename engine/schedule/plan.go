package schedule

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// Plan says what to buy and where the pods go. It is complete: every pending pod
// of the World is in exactly one of Launches, Nominations and Unplaced.
type Plan struct {
	Launches    []Launch
	Nominations []Nomination // by node key
	Unplaced    []Unplaced
	// LowerBound is a price below which no plan can host the pods of Launches that
	// buys for each of them at the same pool weight: from the fractional covering of
	// what they ask for (linear programs), minding which rows each pod may use and how
	// many machines those need that keep apart. Zero when nothing is launched.
	LowerBound offering.Price
	// Unimproved is how many machines with room to spare are bought without a look at whether the
	// plan can do without them: the search for that is bounded.
	Unimproved int
	// Preferences says what became of preferred affinity, soft spread and the like.
	Preferences Preferences
}

// Preferences is the account of what pods merely prefer. All zero when nobody
// prefers anything or the settings ignore it.
type Preferences struct {
	// Asked and Honoured count preferences, one per preference and pod. Honoured are
	// those that hold once everybody is where the plan says, whoever set out to
	// honour them; machines count as their first choices.
	Asked, Honoured int
	// Cost is what honouring them adds to the plan's price per hour; never negative.
	Cost offering.Price
}

// Price is what the plan's first choices cost together, per hour.
func (p Plan) Price() offering.Price {
	var sum offering.Price
	for _, l := range p.Launches {
		sum = sum.Add(l.Offerings[0].Price)
	}
	return sum
}

// Gap is how much more the plan costs than LowerBound, as a part of that: 0.02 is two
// percent. Zero when there is no bound.
func (p Plan) Gap() float64 {
	if p.LowerBound <= 0 {
		return 0
	}
	return float64(p.Price()-p.LowerBound) / float64(p.LowerBound)
}

// Launch is one machine to buy.
type Launch struct {
	Pool string
	// Choices are acceptable offers, cheapest first; never empty. Any of them holds
	// the pods within the pool's limits.
	Offerings []offering.Ref
	// Rules describe the same for a NodeClaim: instance types, zones, capacity
	// types and every other label requirement, sorted by key.
	Rules []constraint.Rule
	// Labels the node gets from the pool's template and from single-valued rules.
	Labels map[string]string
	Taints []cluster.Taint
	// Requests is what the pods and DaemonSets ask for together.
	Requests quantity.Amounts
	Daemons  quantity.Amounts // the DaemonSets' share of Requests
	Pods     []cluster.PodRef
	// RunnersUp are other types, each once, for the explanation: cheaper ones that were
	// not to be had first, then the next in price. At most three; launches may share them.
	RunnersUp []RunnerUp
	// Relaxed lists the labels for which the choices have less variety than the
	// pool's minValues ask for, sorted; empty unless the settings allow it.
	Relaxed []string
}

// RunnerUp is what might have been bought instead, and why it was not.
type RunnerUp struct {
	offering.Ref
	Pool string         // that would have bought it
	More offering.Price // than the first choice, per hour; negative when it is cheaper
	// Because is Dearer for what is among the choices, and else what kept it out of them:
	// Availability, Quota, Addresses, Limits, Requirements, Preference, Topology, Weight, or
	// Resources when it is too small.
	Because reason.Reason
	Why     string       // in words
	Facts   reason.Facts // the parameters of Why as data
}

// Nomination says which pods should fit on a node that exists or is on its way.
type Nomination struct {
	Node string // cluster.Node.Key
	Pods []cluster.PodRef
}

// Unplaced is a group of like pods that nothing can host, and why.
type Unplaced struct {
	Pods    []cluster.PodRef
	Because reason.Reason
	Detail  string       // in words; empty when the Funnels say it all
	Facts   reason.Facts // the parameters of Detail as data
	Funnels []reason.Funnel
}
