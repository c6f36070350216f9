// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// PodSelector is a Selector, or several that must all match, with the pod classes that it
// selects, on whatever node their pods run. Equal selectors share one PodSelector.
type PodSelector struct {
	id      int
	key     string
	users   int // classes whose constraints use it
	classes []*PodClass

	all []compiledSelector // a selected pod matches all of them
	// requiredLabel is a label with its value that every selected pod has; empty when there is
	// no such label.
	requiredLabel string
}

// compiledSelector is a Selector, compiled.
type compiledSelector struct {
	namespaces        []string
	byNamespaceLabels bool // namespaces are also selected by label
	namespaceLabels   constraint.Set
	labels            constraint.Set
	nothing           bool
}

// ID is a small number, different for every PodSelector of a Snapshot.
func (s *PodSelector) ID() int { return s.id }

// Selectors are the IDs of the PodSelectors that select the class. They must not be changed.
func (c *PodClass) Selectors() bitset.Set { return c.selectors }

// Selects reports whether the selector selects the pods of a class.
func (s *PodSelector) Selects(c *PodClass) bool { return c.selectors.Has(s.id) }

// Classes are the classes that the selector selects, in no order. They must not be changed.
func (s *PodSelector) Classes() []*PodClass { return s.classes }

// AnyPod reports whether the selector selects any pod there is, running or pending.
func (s *PodSelector) AnyPod() bool { return len(s.classes) > 0 }

// EachNode is PodClass.EachNode for all selected pods. With withoutVirtual, the pods of
// a CapacityBuffer (PodClass.Virtual) are left out.
func (s *PodSelector) EachNode(withoutVirtual bool, f func(node *NodeInfo, pods, terminating int)) {
	eachNodeOf(s.classes, withoutVirtual, f)
}

func eachNodeOf(classes []*PodClass, withoutVirtual bool, f func(node *NodeInfo, pods, terminating int)) {
	for _, c := range classes {
		if !(withoutVirtual && c.Virtual) {
			c.EachNode(f)
		}
	}
}

// addIfSelected adds the class to the selected ones when the selector matches it.
// namespaceLabels are the labels of the class's namespace.
func (s *PodSelector) addIfSelected(c *PodClass, namespaceLabels map[string]string) {
	if s.matches(c, namespaceLabels) {
		s.classes = append(s.classes, c)
		c.selectors.Put(s.id)
	}
}

func (s *PodSelector) matches(c *PodClass, namespaceLabels map[string]string) bool {
	for i := range s.all {
		if !s.all[i].matches(c, namespaceLabels) {
			return false
		}
	}
	return true
}

// byNamespaceLabels reports whether the labels of namespaces decide what is selected.
func (s *PodSelector) byNamespaceLabels() bool {
	return slices.ContainsFunc(s.all, func(one compiledSelector) bool { return one.byNamespaceLabels })
}

func (s *compiledSelector) matches(c *PodClass, namespaceLabels map[string]string) bool {
	if s.nothing {
		return false
	}
	if !slices.Contains(s.namespaces, c.namespace) {
		if !s.byNamespaceLabels || !matchesLabels(s.namespaceLabels, namespaceLabels) {
			return false
		}
	}
	return matchesLabels(s.labels, c.labels)
}

func matchesLabels(set constraint.Set, labels map[string]string) bool {
	for _, q := range set {
		v, ok := labels[q.Key.Name]
		if ok && !q.Admits(q.Key.ID(v)) || !ok && !q.AdmitsAbsent() {
			return false
		}
	}
	return true
}

// remove removes a class that is selected.
func (s *PodSelector) remove(c *PodClass) {
	s.classes = removeFrom(s.classes, c)
	c.selectors.Drop(s.id)
}

// removeAll removes all classes.
func (s *PodSelector) removeAll() {
	for _, c := range s.classes {
		c.selectors.Drop(s.id)
	}
	s.classes = nil
}

// removeFrom removes x from the list, which is in no order.
func removeFrom[T comparable](list []T, x T) []T {
	i := slices.Index(list, x)
	if i < 0 {
		return list
	}
	last := len(list) - 1
	list[i] = list[last]
	clear(list[last:])
	return list[:last]
}
