package cluster

import (
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// Snapshot is the snapshot a decision reads, compiled: see spec.go for what goes in.
// It belongs to its Builder and is valid until the Builder changes; decisions
// memoise in it, so only one may run at a time.
type Snapshot struct {
	Space     *constraint.Space
	Resources *quantity.Space
	// Markets are the pools with what they can buy: weight descending, then name.
	Catalogs []*PoolCatalog
	// Hosts are the nodes that take pods: initialized ones first, then by key. In a WhatIf
	// some of them may not: their NodeIndex is negative.
	Nodes []*NodeInfo
	// Stuck are the nodes that take no pods although they stay: their labels and
	// pods count for the neighbours' rules all the same.
	Unschedulable []*NodeInfo
	// Classes are the pending pods: priority descending, then the larger share of
	// a machine, then signature.
	Classes []*PodClass
	// Budgets is what is left of each quota after nodes the cloud does not count
	// yet. A budget that is not listed is not limited.
	QuotaLeft map[string]int64
	// Repulsions are the required anti-affinity terms of all pods, running ones
	// included.
	AntiAffinityTerms []*AntiAffinityTerm
	Settings          Settings

	worn    map[*constraint.Key]int // see Builder
	indexes map[string]*NodeIndex   // the Builder's; see NodeIndex
	builder *Builder                // for Trials
	trial   *WhatIf                 // that supposes this Snapshot; nil for what is so
}

// Pending counts the pods to be placed.
func (w *Snapshot) Pending() int {
	n := 0
	for _, c := range w.Classes {
		n += len(c.Pods)
	}
	return n
}

// NodeInfo is a node that takes pods.
type NodeInfo struct {
	Node
	// Free is what is left after bound pods and DaemonSet pods yet to come.
	Free quantity.Vector
	// Mounted are the shared volumes attached already.
	Mounted map[Mount]bool
	// Awaited are the host ports of DaemonSet pods yet to come.
	DaemonPorts []Port
	// NodeIndex is the host's position in Snapshot.Nodes; negative when it takes no pods.
	Index int

	place   *place
	labels  map[*constraint.Key]int
	at      int          // position in Snapshot.Nodes, be it closed by a WhatIf; negative when it is not there
	movable []content    // see content; nil when it must be made anew
	crew    []ClassCount // see Crew; likewise
	vacated bool         // by a WhatIf
}

// ClassCount is pods of one class on one node.
type ClassCount struct {
	Class             *PodClass
	Pods, Terminating int // Pods includes those that are terminating
}

// Crew lists the pods that run on the node, by class, in no order. It must not be changed.
func (h *NodeInfo) PodsByClass() []ClassCount {
	if h.crew == nil && h.place != nil {
		h.crew = muster(make([]ClassCount, 0, len(h.place.pods)), h.place.pods)
	}
	return h.crew
}

// muster adds pods to the crew.
func muster(crew []ClassCount, pods []*pod) []ClassCount {
	for _, p := range pods {
		i := enrol(&crew, p.class)
		crew[i].Pods++
		if p.dying {
			crew[i].Terminating++
		}
	}
	return crew
}

// enrol finds the class's place in the crew, and makes one when there is none.
func enrol(crew *[]ClassCount, c *PodClass) int {
	for i := range *crew {
		if (*crew)[i].Class == c {
			return i
		}
	}
	*crew = append(*crew, ClassCount{Class: c})
	return len(*crew) - 1
}

// Accepts reports whether the node's labels and taints let pods of the shape in; room is
// another question.
func (h *NodeInfo) Accepts(c *PodShape) bool {
	if _, ok := tolerates(c.Tolerations, h.Taints, c.AvoidSoft); !ok {
		return false
	}
	return h.meets(c.Alternatives)
}

func (h *NodeInfo) meets(alternatives []constraint.Set) bool {
	for _, alt := range alternatives {
		if h.Matches(alt) {
			return true
		}
	}
	return false
}

// MeetsAll reports whether the host's labels meet every requirement of the set.
func (h *NodeInfo) Matches(set constraint.Set) bool {
	for _, q := range set {
		id, ok := h.labels[q.Key]
		if ok && !q.Admits(id) || !ok && !q.AdmitsAbsent() {
			return false
		}
	}
	return true
}

// Meets reports whether the host's labels meet the pods' own requirements.
func (h *NodeInfo) MatchesOwn(c *PodShape) bool { return h.meets(c.own) }

// Tolerated reports whether pods of the shape tolerate the host's taints.
func (h *NodeInfo) Tolerated(c *PodShape) bool {
	_, ok := Tolerates(c.Tolerations, h.Taints)
	return ok
}

// Value is the number of the value that the host's label has; false when it has
// no such label.
func (h *NodeInfo) Value(k *constraint.Key) (int, bool) {
	id, ok := h.labels[k]
	return id, ok
}

// Each visits the nodes that run pods of the class, terminating ones included.
func (c *PodClass) EachNode(f func(h *NodeInfo, pods, terminating int)) { c.each(f) }
