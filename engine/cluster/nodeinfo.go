// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// NodeInfo is a Node with what the engine computed about it and about the pods on it. A node is
// listed in Snapshot.Nodes while it takes pods.
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

	bound         *nodePods // nil when nothing is bound and the node has no name yet
	labels        map[*constraint.Key]int
	listIndex     int          // as Index, even if the node takes no pods in a WhatIf; negative when not listed
	reschedulable []classPods  // see reschedulablePods; nil when it must be computed again
	podsByClass   []ClassCount // see PodsByClass; nil when it must be computed again
	removed       bool         // by WhatIf.RemoveNodes
}

// ClassCount is the number of pods of one class on one node.
type ClassCount struct {
	Class             *PodClass
	Pods, Terminating int // Pods includes the terminating ones
}

// PodsByClass lists the pods that run on the node, by class, in no order. It must not be
// changed.
func (node *NodeInfo) PodsByClass() []ClassCount {
	if node.podsByClass == nil && node.bound != nil {
		counts := make([]ClassCount, 0, len(node.bound.pods))
		for _, p := range node.bound.pods {
			i := indexOfClass(&counts, p.class)
			counts[i].Pods++
			if p.terminating {
				counts[i].Terminating++
			}
		}
		node.podsByClass = counts
	}
	return node.podsByClass
}

// indexOfClass returns the index of the class's entry in the counts; it appends the entry when
// there is none.
func indexOfClass(counts *[]ClassCount, c *PodClass) int {
	for i := range *counts {
		if (*counts)[i].Class == c {
			return i
		}
	}
	*counts = append(*counts, ClassCount{Class: c})
	return len(*counts) - 1
}

// Accepts reports whether the node's labels and taints admit pods of the shape. It does not
// look at free capacity.
func (node *NodeInfo) Accepts(s *PodShape) bool {
	if _, ok := tolerates(s.Tolerations, node.Taints, s.AvoidSoft); !ok {
		return false
	}
	return node.meets(s.Alternatives)
}

// acceptsOnAnyHostname is Accepts without requirements on the hostname: a shape that has any
// is checked for taints only.
func (node *NodeInfo) acceptsOnAnyHostname(s *PodShape) bool {
	if s.UsesHostname {
		_, ok := tolerates(s.Tolerations, node.Taints, s.AvoidSoft)
		return ok
	}
	return node.Accepts(s)
}

func (node *NodeInfo) meets(alternatives []constraint.Set) bool {
	for _, alt := range alternatives {
		if node.Matches(alt) {
			return true
		}
	}
	return false
}

// Matches reports whether the node's labels meet every requirement of the set.
func (node *NodeInfo) Matches(set constraint.Set) bool {
	for _, q := range set {
		id, ok := node.labels[q.Key]
		if ok && !q.Admits(id) || !ok && !q.AdmitsAbsent() {
			return false
		}
	}
	return true
}

// MatchesOwn reports whether the node's labels meet the pods' own requirements, without
// those of their volumes.
func (node *NodeInfo) MatchesOwn(s *PodShape) bool { return node.meets(s.own) }

// Tolerated reports whether pods of the shape tolerate the node's taints.
func (node *NodeInfo) Tolerated(s *PodShape) bool {
	_, ok := Tolerates(s.Tolerations, node.Taints)
	return ok
}

// Value is the ID of the value that the node has for the label; false when it has no such
// label.
func (node *NodeInfo) Value(k *constraint.Key) (int, bool) {
	id, ok := node.labels[k]
	return id, ok
}

// readLabels interns the node's labels.
func (node *NodeInfo) readLabels(interner *constraint.Interner) {
	node.labels = make(map[*constraint.Key]int, len(node.Labels))
	for k, v := range node.Labels {
		key := interner.Key(k)
		node.labels[key] = key.ID(v)
	}
}

// refresh computes what follows from the pods on the node and from the DaemonSets.
func (node *NodeInfo) refresh(resources *quantity.Positions, daemons []*daemon) {
	node.reschedulable, node.podsByClass = nil, nil
	node.Free = resources.CapacityVector(node.Allocatable)
	node.Mounted, node.DaemonPorts = nil, nil
	bound := map[string]bool{} // DaemonSets whose pod is bound, by UID
	if node.bound != nil {
		for _, p := range node.bound.pods {
			node.Free = node.Free.Sub(p.class.Requests)
			node.mount(p.class.Mounts)
			if p.daemonSet != "" {
				bound[p.daemonSet] = true
			}
		}
	}
	for _, d := range daemons {
		if !bound[d.UID] && d.runsOn(node) {
			node.Free = node.Free.Sub(d.requests)
			node.DaemonPorts = append(node.DaemonPorts, d.Ports...)
		}
	}
}

// mount attaches the volumes that are not attached yet.
func (node *NodeInfo) mount(mounts []Mount) {
	for _, m := range mounts {
		if node.Mounted[m] {
			continue
		}
		if node.Mounted == nil {
			node.Mounted = map[Mount]bool{}
		}
		node.Mounted[m] = true
		node.Free[m.Dim]--
	}
}
