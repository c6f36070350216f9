// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/reason"
)

// PodClass is a group of pods that every decision treats alike: one PodShape, one priority,
// the same spread constraints and pod (anti-)affinity, and the same answer to every selector
// of any pod. A Deployment of 5,000 replicas is one PodClass with 5,000 pods.
type PodClass struct {
	*PodShape
	Priority int32
	// Virtual is set when the pods stand for spare capacity; they are placed last.
	Virtual bool
	// Preferred are the terms of node affinity that should hold, heaviest first.
	Preferred []PreferredTerm
	// Spreads, Affinity and AntiAffinity are the topology spread constraints and pod
	// (anti-)affinity terms of the pods, including soft and preferred ones.
	Spreads                []TopologySpread
	Affinity, AntiAffinity []AffinityTerm
	// Refused says why the class cannot be planned for at all; empty when it can.
	Refused reason.Reason
	Detail  string
	Facts   reason.Facts // the parameters of Detail
	// PodsToPlace are the pods to be placed: first pending pods, then pods of nodes marked for
	// deletion, each oldest first.
	PodsToPlace []PodRef
	// Owed is how many more pods the owners of its pending pods have yet to create: see
	// Builder.SetOwed. They are none of PodsToPlace.
	Owed int

	classMatch
	namespace      string
	labels         []labelPair         // those that some selector selects by, sorted by key
	unused         unusedLabels        // others
	ownTerms       []*AntiAffinityTerm // required anti-affinity terms of its pods
	usedSelectors  []*PodSelector      // selectors of its constraints
	selectedLabels []string            // pod labels that these selectors select by

	key              string
	bodyLen          int                    // of key, without the labels
	podTotal         int                    // number of pods in the class, bound ones included
	podsOn           map[*nodePods]podCount // nil before the first is bound
	pending          []*pod
	owners           []string // of the pending pods, each once
	podsToPlaceStale bool     // PodsToPlace must be listed again, and owners
	unplaced         []*pod   // the pods that PodsToPlace lists during a WhatIf
}

// podCount is how many pods of a class are bound to a node, and how many of them are
// terminating.
type podCount struct{ pods, terminating int32 }

// TopologySpread is a TopologySpreadConstraint, compiled.
type TopologySpread struct {
	Key                         *constraint.Key
	Selector                    *PodSelector
	MaxSkew, MinDomains         int
	Soft                        bool
	IgnoreAffinity, HonorTaints bool
}

// AffinityTerm is a PodAffinityTerm, compiled.
type AffinityTerm struct {
	Key      *constraint.Key
	Selector *PodSelector
	Weight   int32 // 0: required
}

// String names the class by its first pod, for people.
func (c *PodClass) String() string {
	if len(c.PodsToPlace) == 0 {
		return "no pods to place"
	}
	return fmt.Sprintf("%s/%s and %d more", c.PodsToPlace[0].Namespace, c.PodsToPlace[0].Name, len(c.PodsToPlace)-1)
}

// EachNode visits the nodes that run pods of the class, with the number of these pods and how
// many of them are terminating. Nodes marked for deletion are left out: their pods run
// elsewhere once the plan has been carried out. The order is undefined.
func (c *PodClass) EachNode(f func(node *NodeInfo, pods, terminating int)) {
	for bound, n := range c.podsOn {
		if node := bound.node; node != nil && !node.MarkedForDeletion {
			f(node, int(n.pods), int(n.terminating))
		}
	}
}

// addBound adds the bound pod to the pods of its node, or subtracts it (by is 1 or -1).
func (c *PodClass) addBound(p *pod, by int32) {
	n := c.podsOn[p.bound]
	n.pods += by
	if p.terminating {
		n.terminating += by
	}
	if n.pods == 0 {
		delete(c.podsOn, p.bound)
		return
	}
	c.setPodsOn(p.bound, n)
}

// setPodsOn sets how many pods of the class are bound to the node.
func (c *PodClass) setPodsOn(bound *nodePods, n podCount) {
	if c.podsOn == nil {
		c.podsOn = map[*nodePods]podCount{}
	}
	c.podsOn[bound] = n
}

// setPodsToPlace sets PodsToPlace: the pending pods, then those of nodes marked for deletion, each
// oldest first.
func (c *PodClass) setPodsToPlace(toReschedule []*pod) {
	c.podsToPlaceStale = false
	c.setOwners()
	c.PodsToPlace = make([]PodRef, 0, len(c.pending)+len(toReschedule))
	for _, pods := range [][]*pod{c.pending, toReschedule} {
		pods = slices.Clone(pods)
		slices.SortFunc(pods, compareAge)
		for _, p := range pods {
			c.PodsToPlace = append(c.PodsToPlace, p.PodRef)
		}
	}
}

// compareAge orders old pods first. It reads no name that cannot matter: names are seldom in the
// processor's caches.
func compareAge(x, y *pod) int {
	if c := cmp.Compare(x.created, y.created); c != 0 {
		return c
	}
	if c := strings.Compare(x.Namespace, y.Namespace); c != 0 {
		return c
	}
	if c := strings.Compare(x.Name, y.Name); c != 0 {
		return c
	}
	return strings.Compare(x.UID, y.UID)
}

// compareClasses puts high priority first, then large pods, because small pods fill gaps.
// Virtual pods come after all real pods.
func compareClasses(x, y *PodClass) int {
	if x.Virtual != y.Virtual {
		if y.Virtual {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(y.Priority, x.Priority); c != 0 {
		return c
	}
	if c := cmp.Compare(y.size, x.size); c != 0 {
		return c
	}
	return strings.Compare(x.key, y.key)
}
