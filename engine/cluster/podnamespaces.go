// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/karve-dev/karve/engine/bitset"

	"maps"
	"slices"
)

// podNamespaces are the namespaces that exist, that classes are in, or that selectors name, and
// which selectors select pods in them.
type podNamespaces struct {
	byName map[string]*podNamespace
	// byLabels are the selectors that select namespaces by label.
	byLabels map[*PodSelector]bool
}

// podNamespace is one namespace.
type podNamespace struct {
	name   string
	labels map[string]string
	exists bool
	// classes are in it, and naming is how many selectors select pods in namespaces that they
	// name, this one among them.
	classes, naming int
	selectors       bitset.Sparse // those that may select pods in it
}

func newPodNamespaces() podNamespaces {
	return podNamespaces{byName: map[string]*podNamespace{}, byLabels: map[*PodSelector]bool{}}
}

func (ns *podNamespaces) getOrAdd(name string) *podNamespace {
	n := ns.byName[name]
	if n == nil {
		n = &podNamespace{name: name}
		ns.byName[name] = n
		for s := range ns.byLabels {
			n.addIfMatched(s)
		}
	}
	return n
}

func (n *podNamespace) addIfMatched(s *PodSelector) {
	if s.matchesNamespace(n.name, n.labels) {
		n.selectors.Put(s.id)
	}
}

func (ns *podNamespaces) dropIfUnused(n *podNamespace) {
	if !n.exists && n.classes == 0 && n.naming == 0 {
		delete(ns.byName, n.name)
	}
}

// addSelector adds the selector to the namespaces in which it may select pods.
func (ns *podNamespaces) addSelector(s *PodSelector) {
	names, named := s.namedNamespaces()
	for _, name := range names {
		ns.getOrAdd(name).naming++
	}
	for n := range ns.candidates(names, named) {
		n.addIfMatched(s)
	}
	if s.byNamespaceLabels() {
		ns.byLabels[s] = true
	}
}

// removeSelector undoes addSelector.
func (ns *podNamespaces) removeSelector(s *PodSelector) {
	names, named := s.namedNamespaces()
	for n := range ns.candidates(names, named) {
		if s.matchesNamespace(n.name, n.labels) {
			n.selectors.Drop(s.id)
		}
	}
	for _, name := range names {
		n := ns.byName[name]
		n.naming--
		ns.dropIfUnused(n)
	}
	delete(ns.byLabels, s)
}

// candidates visits the named namespaces, or all if the selector does not name them.
func (ns *podNamespaces) candidates(names []string, named bool) func(func(*podNamespace) bool) {
	if !named {
		return maps.Values(ns.byName)
	}
	return func(yield func(*podNamespace) bool) {
		for _, name := range names {
			if !yield(ns.byName[name]) {
				return
			}
		}
	}
}

// namedNamespaces lists names of which the namespace of every selected pod has one, each once;
// false when there are no such names.
func (s *PodSelector) namedNamespaces() ([]string, bool) {
	for _, r := range s.namespaces {
		if !r.byLabels && len(r.names) <= 1 {
			return r.names, true
		}
		if !r.byLabels {
			return slices.Compact(slices.Sorted(slices.Values(r.names))), true
		}
	}
	return nil, false
}

// setLabels sets the labels of a namespace, and reports whether other selectors than before may
// select pods in it.
func (ns *podNamespaces) setLabels(n *podNamespace, labels map[string]string) bool {
	before := n.labels
	n.labels = labels
	if maps.Equal(before, labels) {
		return false
	}
	changed := false
	for s := range ns.byLabels {
		switch was, is := s.matchesNamespace(n.name, before), s.matchesNamespace(n.name, labels); {
		case was == is:
			continue
		case is:
			n.selectors.Put(s.id)
		default:
			n.selectors.Drop(s.id)
		}
		changed = true
	}
	return changed
}
