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
	id    int
	key   string
	users int // classes whose constraints use it
	in    *podSelectors

	namespaces []namespaceRule // a selected pod meets all of them
	labels     constraint.Set
	nothing    bool
	// byValue are the values of one label of which every selected pod has one; nil when there is
	// no such label. Then presentLabel is a label that every selected pod has, if there is any.
	byValue      []*labelValue
	presentLabel *podLabel

	// listed are the selected classes. Where they are many, they are not listed, because most of
	// the selectors may select most of the classes; unlisted is set then.
	listed   []*PodClass
	unlisted bool
}

// namespaceRule says in which namespaces a Selector selects.
type namespaceRule struct {
	names    []string
	byLabels bool // namespaces are also selected by label
	labels   constraint.Set
}

// mostListed is how many classes a PodSelector lists.
const mostListed = 64

// ID is a small number, different for every PodSelector of a Snapshot.
func (s *PodSelector) ID() int { return s.id }

// Selectors are the IDs of the PodSelectors that select the class. They must not be changed.
func (c *PodClass) Selectors() *bitset.Sparse { return &c.selectors }

// Selects reports whether the selector selects the pods of a class.
func (s *PodSelector) Selects(c *PodClass) bool { return c.selectors.Has(s.id) }

// Classes are the classes that the selector selects, in no order. They must not be changed.
func (s *PodSelector) Classes() []*PodClass {
	if !s.unlisted {
		return s.listed
	}
	var out []*PodClass
	s.SelectsAny(func(c *PodClass) bool {
		out = append(out, c)
		return false
	})
	return out
}

// SelectsAny reports whether the selector selects a class for which f holds.
func (s *PodSelector) SelectsAny(f func(*PodClass) bool) bool {
	switch {
	case !s.unlisted:
		return slices.ContainsFunc(s.listed, f)
	case s.byValue == nil:
		return slices.ContainsFunc(s.in.classes, func(c *PodClass) bool { return s.Selects(c) && f(c) })
	}
	return slices.ContainsFunc(s.byValue, func(v *labelValue) bool {
		return slices.ContainsFunc(v.classes, func(l labelled) bool { return s.Selects(l.class) && f(l.class) })
	})
}

// AnyPod reports whether the selector selects any pod there is, running or pending.
func (s *PodSelector) AnyPod() bool { return s.SelectsAny(func(*PodClass) bool { return true }) }

// EachNode is PodClass.EachNode for all selected pods. With withoutVirtual, the pods of
// a CapacityBuffer (PodClass.Virtual) are left out.
func (s *PodSelector) EachNode(withoutVirtual bool, f func(node *NodeInfo, pods, terminating int)) {
	if !s.unlisted {
		eachNodeOf(s.listed, withoutVirtual, f)
		return
	}
	for _, c := range s.in.onNodes {
		if s.Selects(c) && !(withoutVirtual && c.Virtual) {
			c.EachNode(f)
		}
	}
}

func eachNodeOf(classes []*PodClass, withoutVirtual bool, f func(node *NodeInfo, pods, terminating int)) {
	for _, c := range classes {
		if !(withoutVirtual && c.Virtual) {
			c.EachNode(f)
		}
	}
}

// list adds a selected class to the listed ones, if they are not too many.
func (s *PodSelector) list(c *PodClass) {
	switch {
	case s.unlisted:
	case len(s.listed) < mostListed:
		s.listed = append(s.listed, c)
	default:
		s.listed, s.unlisted = nil, true
		s.in.listing.Drop(s.id)
	}
}

// matches reports whether the selector matches the class. What it selects is found faster where
// nothing needs this; see podSelectors.matching.
func (s *PodSelector) matches(c *PodClass) bool {
	return !s.nothing && s.matchesNamespace(c.namespace, c.inNamespace.labels) && matchesLabels(s.labels, c.value)
}

func (s *PodSelector) matchesNamespace(name string, labels map[string]string) bool {
	for i := range s.namespaces {
		r := &s.namespaces[i]
		if !slices.Contains(r.names, name) && !(r.byLabels && matchesLabels(r.labels, valueIn(labels))) {
			return false
		}
	}
	return true
}

// byNamespaceLabels reports whether the labels of namespaces decide what is selected.
func (s *PodSelector) byNamespaceLabels() bool {
	return slices.ContainsFunc(s.namespaces, func(r namespaceRule) bool { return r.byLabels })
}

// matchesLabels reports whether labels meet the requirements; value returns the ID of the value of
// a label, and false when the label is missing.
func matchesLabels(set constraint.Set, value func(*constraint.Key) (int, bool)) bool {
	for _, q := range set {
		v, ok := value(q.Key)
		if ok && !q.Admits(v) || !ok && !q.AdmitsAbsent() {
			return false
		}
	}
	return true
}

func valueIn(labels map[string]string) func(*constraint.Key) (int, bool) {
	return func(k *constraint.Key) (int, bool) {
		v, ok := labels[k.Name]
		if !ok {
			return 0, false
		}
		return k.ID(v), true
	}
}

// value is the ID of the value that a label of the pods has; false when they do not have it.
func (c *PodClass) value(k *constraint.Key) (int, bool) {
	for i := range c.labelled {
		if v := c.labelled[i].value; v.label.key == k {
			return v.id, true
		}
	}
	return 0, false
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
