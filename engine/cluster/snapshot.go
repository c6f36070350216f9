// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// Snapshot is the compiled input of a decision, made from the types in spec.go. It belongs to
// its Builder and is valid until the Builder changes. Decisions memoise in it, so only one
// decision may run at a time.
type Snapshot struct {
	Space     *constraint.Space
	Resources *quantity.Space
	// Catalogs are the pools with the offerings they can launch: weight descending, then name.
	Catalogs []*PoolCatalog
	// Nodes are the nodes that take pods: initialized ones first, then by key. In a WhatIf some
	// of them may take no pods: their Index is negative.
	Nodes []*NodeInfo
	// Unschedulable are the nodes that are not leaving but take no pods: their labels and pods
	// still count for spread constraints and affinity terms of other pods.
	Unschedulable []*NodeInfo
	// Classes are the pending pods: priority descending, then the larger share of a node, then
	// signature.
	Classes []*PodClass
	// QuotaLeft is the remaining amount of each quota, less what nodes use that the cloud does
	// not count yet. A quota that is not listed is not limited.
	QuotaLeft map[string]int64
	// AntiAffinityTerms are the required anti-affinity terms of all pods, including running
	// pods.
	AntiAffinityTerms []*AntiAffinityTerm
	Settings          Settings

	labelsInUse map[*constraint.Key]int // see Builder
	indexes     map[string]*NodeIndex   // the Builder's; see NodeIndex
	builder     *Builder                // for WhatIf
	trial       *WhatIf                 // the WhatIf that supposes this state; nil for the actual one
}

// Pending counts the pods to be placed.
func (w *Snapshot) Pending() int {
	n := 0
	for _, c := range w.Classes {
		n += len(c.Pods)
	}
	return n
}

// NodeInfo is a node with what the engine computed about it. A node is listed in
// Snapshot.Nodes while it takes pods.
type NodeInfo struct {
	Node
	// Free is the capacity left after bound pods and after DaemonSet pods that are not bound
	// yet.
	Free quantity.Vector
	// Mounted are the shared volumes that are attached already.
	Mounted map[Mount]bool
	// DaemonPorts are the host ports of DaemonSet pods that are not bound yet.
	DaemonPorts []Port
	// Index is the node's position in Snapshot.Nodes; negative when it takes no pods.
	Index int

	place     *place
	labels    map[*constraint.Key]int
	at        int          // as Index, even if a WhatIf closed the node; negative when not listed
	movable   []content    // see content; nil when it must be computed again
	podsThere []ClassCount // see PodsByClass; nil when it must be computed again
	vacated   bool         // by WhatIf.RemoveNodes
}

// ClassCount is the number of pods of one class on one node.
type ClassCount struct {
	Class             *PodClass
	Pods, Terminating int // Pods includes the terminating ones
}

// PodsByClass lists the pods that run on the node, by class, in no order. It must not be
// changed.
func (h *NodeInfo) PodsByClass() []ClassCount {
	if h.podsThere == nil && h.place != nil {
		h.podsThere = collectPods(make([]ClassCount, 0, len(h.place.pods)), h.place.pods)
	}
	return h.podsThere
}

// collectPods adds the pods to the counts per class, terminating ones as such.
func collectPods(podsThere []ClassCount, pods []*pod) []ClassCount {
	for _, p := range pods {
		i := addPod(&podsThere, p.class)
		podsThere[i].Pods++
		if p.dying {
			podsThere[i].Terminating++
		}
	}
	return podsThere
}

// addPod returns the index of the class's entry in the counts; it appends the entry when there
// is none.
func addPod(podsThere *[]ClassCount, c *PodClass) int {
	for i := range *podsThere {
		if (*podsThere)[i].Class == c {
			return i
		}
	}
	*podsThere = append(*podsThere, ClassCount{Class: c})
	return len(*podsThere) - 1
}

// Accepts reports whether the node's labels and taints admit pods of the shape. It does not
// look at free capacity.
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

// Matches reports whether the node's labels meet every requirement of the set.
func (h *NodeInfo) Matches(set constraint.Set) bool {
	for _, q := range set {
		id, ok := h.labels[q.Key]
		if ok && !q.Admits(id) || !ok && !q.AdmitsAbsent() {
			return false
		}
	}
	return true
}

// MatchesOwn reports whether the node's labels meet the pods' own requirements, without
// those of their volumes.
func (h *NodeInfo) MatchesOwn(c *PodShape) bool { return h.meets(c.own) }

// Tolerated reports whether pods of the shape tolerate the node's taints.
func (h *NodeInfo) Tolerated(c *PodShape) bool {
	_, ok := Tolerates(c.Tolerations, h.Taints)
	return ok
}

// Value is the ID of the value that the node has for the label; false when it has no such
// label.
func (h *NodeInfo) Value(k *constraint.Key) (int, bool) {
	id, ok := h.labels[k]
	return id, ok
}

// EachNode visits the nodes that run pods of the class; terminating pods are included.
func (c *PodClass) EachNode(f func(h *NodeInfo, pods, terminating int)) { c.each(f) }

// CatalogOf is the catalog of the NodePool with that name; nil when there is none.
func (w *Snapshot) CatalogOf(pool string) *PoolCatalog {
	for _, m := range w.Catalogs {
		if m.Pool.Name == pool {
			return m
		}
	}
	return nil
}
