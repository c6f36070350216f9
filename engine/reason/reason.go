// SPDX-License-Identifier: Apache-2.0

// Package reason names why something was not done. A Reason is a result, not an error: it is
// stable, is counted where it is decided, and reads the same in events, logs and the command
// line.
//
// The values are part of karve's API: they are never renamed and never reused. The zero
// Reason means "no objection".
package reason

// Reason says which filter removed a candidate, or why no node was found for a pod.
type Reason string

// Filters, in the order in which they are applied to the offerings of one pool (see Funnel).
const (
	Requirements Reason = "Requirements" // labels: nodeSelector, affinity, pool and type requirements
	Volumes      Reason = "Volumes"      // a volume cannot be mounted there, or not at all yet
	Taints       Reason = "Taints"       // the pool's taints are not tolerated
	Resources    Reason = "Resources"    // not even an empty node has the capacity, after DaemonSet overhead
	Ports        Reason = "Ports"        // a DaemonSet takes a host port that the pod needs
	Limits       Reason = "Limits"       // the pool's spec.limits are used up
	Quota        Reason = "Quota"        // the subscription's quota is used up
	Addresses    Reason = "Addresses"    // the subnet has no addresses left
	Availability Reason = "Availability" // not available now: out of stock or restricted
)

// Filters that look at more than one offering, or at running pods and nodes.
const (
	Topology  Reason = "Topology"  // topology spread or pod (anti-)affinity
	MinValues Reason = "MinValues" // fewer values would be left than the pool's minValues require
)

// Why one offering was launched rather than another, besides the filters above.
const (
	HigherPrice Reason = "HigherPrice" // it would fit, at a higher price
	Weight      Reason = "Weight"      // its pool has a lower weight
	Preference  Reason = "Preference"  // it would fit, but not meet preferences of pods
)

// Why no node was planned for a pod, without looking at offerings.
const (
	// Unsupported: the pod uses a feature that this version does not plan for yet.
	Unsupported Reason = "Unsupported"
	// Invalid: the pod's constraints are invalid, or contradict each other.
	Invalid Reason = "Invalid"
	// OptedOut: the pod requires that karpenter.sh/nodepool does not exist.
	OptedOut Reason = "OptedOut"
	// NoNodePools: there is no NodePool from which to launch a node.
	NoNodePools Reason = "NoNodePools"
	// NoOfferings: the pool's node class has no offerings.
	NoOfferings Reason = "NoOfferings"
	// NodePoolNotReady: the pool or its node class is not ready.
	NodePoolNotReady Reason = "NodePoolNotReady"
	// Static: the pool keeps a fixed number of nodes, whatever pods are pending.
	Static Reason = "Static"
)

// Cut is one step of a Funnel: a filter and how many offerings it removed.
type Cut struct {
	By      Reason
	Removed int    // offerings removed by this filter
	Detail  string // which constraint it was, in words that tell the reader what to change
	// Facts are the parameters of Detail as data: resource, asked, largest, …
	Facts Facts `json:",omitempty"`
}

// Funnel follows the offerings of one pool through the filters for one class of pods:
// Offerings is the number before the first filter, and each filter that removed any has one Cut.
// The Removed counts add up to Offerings when no offering was left.
type Funnel struct {
	Pool      string
	Offerings int
	Cuts      []Cut
	// Blocked says why the pool was not considered, with Detail in words; empty when it was
	// considered.
	Blocked Reason
	Detail  string
	Facts   Facts `json:",omitempty"` // the parameters of Detail; the Cuts have their own
}

// Last returns the last Cut; false when no filter removed any offering.
func (f Funnel) Last() (Cut, bool) {
	if len(f.Cuts) == 0 {
		return Cut{}, false
	}
	return f.Cuts[len(f.Cuts)-1], true
}

// Left is how many offerings passed all filters.
func (f Funnel) Left() int {
	left := f.Offerings
	for _, c := range f.Cuts {
		left -= c.Removed
	}
	return left
}
