// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// attachLimits records how many volumes each node can attach, as the CSI drivers on it report,
// and derives which instance types can attach fewer than their catalog says. The limits learned
// for a type are forgotten with its last node: they depend on the cluster's objects alone, so
// two processes that watch them agree.
type attachLimits struct {
	nodes   map[string]*storagev1.CSINode
	typeOf  map[string]string // node → instance type, where both are known
	nodesOf map[string]map[string]bool
	// lowest is the smallest limit reported for each type, by driver.
	lowest map[string]map[string]int64
}

func newAttachLimits() *attachLimits {
	return &attachLimits{
		nodes: map[string]*storagev1.CSINode{}, typeOf: map[string]string{},
		nodesOf: map[string]map[string]bool{}, lowest: map[string]map[string]int64{},
	}
}

// setInstanceType records the instance type of a node; empty when the node is not known. It reports
// whether the limits of any type changed.
func (l *attachLimits) setInstanceType(node, instanceType string) bool {
	old := l.typeOf[node]
	if old == instanceType {
		return false
	}
	delete(l.typeOf, node)
	unset(l.nodesOf, old, node)
	changed := old != "" && l.updateLowest(old)
	if instanceType == "" {
		return changed
	}
	l.typeOf[node] = instanceType
	set(l.nodesOf, instanceType, node)
	return l.updateLowest(instanceType) || changed
}

// setCSINode records the CSINode in which a node's drivers report their limits; nil when it was
// deleted. It reports whether the limits of the node's type changed.
func (l *attachLimits) setCSINode(node string, n *storagev1.CSINode) bool {
	before := reported(l.nodes[node])
	if l.nodes[node] = n; n == nil {
		delete(l.nodes, node)
	}
	instanceType, ok := l.typeOf[node]
	return ok && !maps.Equal(before, reported(n)) && l.updateLowest(instanceType)
}

// hasDrivers reports whether a storage driver has registered on the node.
func (l *attachLimits) hasDrivers(node string) bool {
	n := l.nodes[node]
	return n != nil && len(n.Spec.Drivers) > 0
}

func (l *attachLimits) updateLowest(instanceType string) bool {
	smallest := map[string]int64{}
	for node := range l.nodesOf[instanceType] {
		for driver, n := range reported(l.nodes[node]) {
			if least, ok := smallest[driver]; !ok || n < least {
				smallest[driver] = n
			}
		}
	}
	if maps.Equal(smallest, l.lowest[instanceType]) {
		return false
	}
	if l.lowest[instanceType] = smallest; len(smallest) == 0 {
		delete(l.lowest, instanceType)
	}
	return true
}

// reported returns the limits that a node's drivers report. A driver that reports no limit has
// none.
func reported(n *storagev1.CSINode) map[string]int64 {
	if n == nil {
		return nil
	}
	var out map[string]int64
	for i := range n.Spec.Drivers {
		if d := &n.Spec.Drivers[i]; d.Allocatable != nil && d.Allocatable.Count != nil {
			if out == nil {
				out = map[string]int64{}
			}
			out[d.Name] = int64(max(0, *d.Allocatable.Count))
		}
	}
	return out
}

// lower returns types with the learned limits where those are smaller, and types itself when none
// are.
func (l *attachLimits) lower(types []offering.InstanceType) []offering.InstanceType {
	var out []offering.InstanceType
	for i := range types {
		capacity := lowered(types[i].Capacity, l.lowest[types[i].Name])
		if capacity == nil {
			continue
		}
		if out == nil {
			out = append(out, types...)
		}
		out[i].Capacity = capacity
	}
	if out == nil {
		return types
	}
	return out
}

// lowered is a copy of capacity with smaller limits; nil when none is smaller.
func lowered(capacity quantity.Amounts, limits map[string]int64) quantity.Amounts {
	var out quantity.Amounts
	for driver, n := range limits {
		name := quantity.Attachable + driver
		if had, ok := capacity[name]; !ok || n >= had {
			continue
		}
		if out == nil {
			out = maps.Clone(capacity)
		}
		out[name] = n
	}
	return out
}

// apply sets the attach limits in the node's allocatable resources: the reported ones and, for
// drivers that have not reported yet, those of its instance type. instanceType may be nil.
func (l *attachLimits) apply(w *cluster.Node, instanceType *offering.InstanceType) {
	if w.Allocatable == nil {
		w.Allocatable = quantity.Amounts{}
	}
	if instanceType != nil && w.HasNodeClaim {
		for name, n := range instanceType.Capacity {
			if had, ok := w.Allocatable[name]; strings.HasPrefix(name, quantity.Attachable) && (!ok || n < had) {
				w.Allocatable[name] = n
			}
		}
	}
	n := l.nodes[w.Name]
	if n == nil {
		return
	}
	for i := range n.Spec.Drivers {
		delete(w.Allocatable, quantity.Attachable+n.Spec.Drivers[i].Name)
	}
	for driver, count := range reported(n) {
		w.Allocatable[quantity.Attachable+driver] = count
	}
}
