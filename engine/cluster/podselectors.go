// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
)

// podSelectors keeps the selectors that constraints of pods use, and which classes each of
// them selects. Most selectors require a value of some label: such a selector is matched only
// with classes that have the value.
type podSelectors struct {
	labels  *constraint.Interner // labels of pods and of namespaces
	classes map[string]*PodClass // all classes, by key; podClasses adds and removes them

	byKey           map[string]*PodSelector
	byID            []*PodSelector
	freeIDs         []int                     // to be used again
	byRequiredLabel map[string][]*PodSelector // "" lists the selectors that require no value
	classesByLabel  map[string][]*PodClass
	namespaces      map[string]map[string]string // labels by namespace
	scratch         signature
}

func newPodSelectors(classes map[string]*PodClass) podSelectors {
	return podSelectors{
		labels: constraint.NewInterner(), classes: classes, byKey: map[string]*PodSelector{}, byRequiredLabel: map[string][]*PodSelector{},
		classesByLabel: map[string][]*PodClass{}, namespaces: map[string]map[string]string{},
	}
}

// acquire returns the PodSelector of the pods that all the selectors match for one class more,
// which hands it back with release.
func (ss *podSelectors) acquire(all ...Selector) (*PodSelector, error) {
	key := ss.key(all)
	if s := ss.byKey[key]; s != nil {
		s.users++
		return s, nil
	}
	s := &PodSelector{key: key, users: 1}
	for _, sel := range all {
		one, err := ss.compile(sel)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, one)
		s.requiredLabel = cmp.Or(s.requiredLabel, requiredLabel(one.labels))
	}
	ss.add(s)
	ss.match(s)
	return s, nil
}

// key identifies the selectors, in any order and however often each is named.
func (ss *podSelectors) key(all []Selector) string {
	keys := make([]string, 0, len(all))
	for _, sel := range all {
		ss.scratch.reset()
		ss.scratch.selector(sel)
		keys = append(keys, string(ss.scratch.bytes))
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), "") // the key of a selector is no prefix of another's
}

func (ss *podSelectors) compile(sel Selector) (compiledSelector, error) {
	labels, err := ss.labels.Set(sel.Labels)
	if err != nil {
		return compiledSelector{}, err
	}
	namespaceLabels, err := ss.labels.Set(sel.NamespaceLabels)
	return compiledSelector{
		namespaces: sel.Namespaces, byNamespaceLabels: sel.NamespaceLabels != nil, namespaceLabels: namespaceLabels,
		labels: labels, nothing: sel.Nothing,
	}, err
}

// requiredLabel is the first label and value that the requirements admit alone; empty when
// there is none.
func requiredLabel(labels constraint.Set) string {
	for _, q := range labels {
		if v, ok := q.Single(); ok {
			return labelWithValue(q.Key.Name, v)
		}
	}
	return ""
}

func labelWithValue(label, value string) string { return label + "\x00" + value }

// add gives the selector an ID and adds it to the maps.
func (ss *podSelectors) add(s *PodSelector) {
	if n := len(ss.freeIDs); n > 0 {
		s.id, ss.freeIDs = ss.freeIDs[n-1], ss.freeIDs[:n-1]
		ss.byID[s.id] = s
	} else {
		s.id = len(ss.byID)
		ss.byID = append(ss.byID, s)
	}
	ss.byKey[s.key] = s
	ss.byRequiredLabel[s.requiredLabel] = append(ss.byRequiredLabel[s.requiredLabel], s)
}

// match adds the classes that the selector matches.
func (ss *podSelectors) match(s *PodSelector) {
	for c := range ss.candidates(s) {
		s.addIfSelected(c, ss.namespaces[c.namespace])
	}
}

// candidates visits classes that include all classes that the selector matches.
func (ss *podSelectors) candidates(s *PodSelector) iter.Seq[*PodClass] {
	if s.requiredLabel == "" {
		return maps.Values(ss.classes)
	}
	return slices.Values(ss.classesByLabel[s.requiredLabel])
}

// release takes the selector from one of its users, and removes it with the last one.
func (ss *podSelectors) release(s *PodSelector) {
	if s.users--; s.users > 0 {
		return
	}
	s.removeAll()
	delete(ss.byKey, s.key)
	ss.byID[s.id] = nil
	ss.freeIDs = append(ss.freeIDs, s.id)
	ss.byRequiredLabel[s.requiredLabel] = removeFrom(ss.byRequiredLabel[s.requiredLabel], s)
	if len(ss.byRequiredLabel[s.requiredLabel]) == 0 {
		delete(ss.byRequiredLabel, s.requiredLabel)
	}
}

// addClass matches a new class with every selector.
func (ss *podSelectors) addClass(c *PodClass) {
	namespaceLabels := ss.namespaces[c.namespace]
	for label, value := range c.labels {
		at := labelWithValue(label, value)
		ss.classesByLabel[at] = append(ss.classesByLabel[at], c)
		for _, s := range ss.byRequiredLabel[at] {
			s.addIfSelected(c, namespaceLabels)
		}
	}
	for _, s := range ss.byRequiredLabel[""] {
		s.addIfSelected(c, namespaceLabels)
	}
}

// removeClass removes the class from the selectors that select it.
func (ss *podSelectors) removeClass(c *PodClass) {
	for id := range c.selectors.Clone().All() {
		ss.byID[id].remove(c)
	}
	for label, value := range c.labels {
		at := labelWithValue(label, value)
		if ss.classesByLabel[at] = removeFrom(ss.classesByLabel[at], c); len(ss.classesByLabel[at]) == 0 {
			delete(ss.classesByLabel, at)
		}
	}
}

func (ss *podSelectors) setNamespace(name string, labels map[string]string) {
	ss.namespaces[name] = labels
	ss.matchNamespaces()
}

func (ss *podSelectors) removeNamespace(name string) {
	delete(ss.namespaces, name)
	ss.matchNamespaces()
}

// matchNamespaces matches the selectors that select namespaces by label again.
func (ss *podSelectors) matchNamespaces() {
	for _, s := range ss.byKey {
		if s.byNamespaceLabels() {
			s.removeAll()
			ss.match(s)
		}
	}
}

// interned is for how many labels, values and selectors there is an ID, used or not.
func (ss *podSelectors) interned() int { return ss.labels.Len() + len(ss.byID) }
