// Package reason names why something was not done. A Reason is a result, not an
// error: stable, counted where it is decided, and rendered alike in events, logs
// and the command line.
//
// Values are part of karve's API: never renamed, never reused. The zero Reason
// means "no objection".
package reason

// Reason says which filter removed a candidate, or why a pod was left out.
type Reason string

// Filters in the order they are applied to the offers of one pool (see Funnel).
const (
	Requirements Reason = "Requirements" // labels: nodeSelector, affinity, pool and type requirements
	Taints       Reason = "Taints"       // the pool's taints are not tolerated
	Resources    Reason = "Resources"    // no room even on an empty machine, after DaemonSet overhead
	Ports        Reason = "Ports"        // a DaemonSet takes a host port that the pod needs
	Limits       Reason = "Limits"       // the pool's spec.limits leave no room
	Quota        Reason = "Quota"        // the subscription's quota leaves no room
	Addresses    Reason = "Addresses"    // the subnet has no addresses left
	Availability Reason = "Availability" // on no shelf now: out of stock or restricted
)

// Filters that look at more than one offer, or at what runs already.
const (
	Volumes   Reason = "Volumes"   // a volume cannot be mounted there, or not at all yet
	Topology  Reason = "Topology"  // topology spread or pod (anti-)affinity
	MinValues Reason = "MinValues" // too little variety would be left for the pool's minValues
)

// Why one machine was bought rather than another, besides the filters above.
const (
	Dearer     Reason = "Dearer"     // it would do, at a higher price
	Weight     Reason = "Weight"     // its pool weighs less
	Preference Reason = "Preference" // it would do, were it not for what pods prefer
)

// Why a pod was left out without looking at offers.
const (
	// Unsupported: the pod needs a semantic this version does not plan yet.
	Unsupported Reason = "Unsupported"
	// Invalid: the pod's constraints cannot be read, or contradict each other.
	Invalid Reason = "Invalid"
	// OptedOut: the pod requires that karpenter.sh/nodepool does not exist.
	OptedOut Reason = "OptedOut"
	// NoPools: there is no NodePool to buy from.
	NoPools Reason = "NoPools"
	// NoOffers: nothing is on sale for the pool's node class.
	NoOffers Reason = "NoOffers"
	// PoolNotReady: the pool or its node class is not ready.
	PoolNotReady Reason = "PoolNotReady"
	// Static: the pool keeps a fixed number of nodes, whatever is pending.
	Static Reason = "Static"
)

// Cut is one step of a Funnel: what a filter left and took.
type Cut struct {
	By      Reason
	Removed int    // offers removed by this filter
	Detail  string // which constraint it was, in words a person can act on
	// Facts are the parameters of Detail as data: resource, asked, largest, …
	Facts Facts `json:",omitempty"`
}

// Funnel follows the offers of one pool through the filters for one class of
// pods: Offers on entry, then one Cut per filter that removed any. Removed counts
// add up to Offers when nothing was left.
type Funnel struct {
	Pool   string
	Offers int
	Cuts   []Cut
	// Blocked says why the pool was not looked at, with Detail in words; empty
	// when it was.
	Blocked Reason
	Detail  string
	Facts   Facts `json:",omitempty"` // the parameters of Detail; the Cuts have their own
}

// Last returns the filter that removed the last candidates, and what it took.
func (f Funnel) Last() (Cut, bool) {
	if len(f.Cuts) == 0 {
		return Cut{}, false
	}
	return f.Cuts[len(f.Cuts)-1], true
}

// Left is how many offers came through all filters.
func (f Funnel) Left() int {
	left := f.Offers
	for _, c := range f.Cuts {
		left -= c.Removed
	}
	return left
}
