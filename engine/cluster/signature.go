// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// signature is bytes that are equal exactly when two pods are alike. Lengths go before
// strings, so that no string in a manifest can imitate a boundary.
type signature struct {
	bytes []byte
	names []string // scratch for sorting; the labels that labels wrote
}

func (s *signature) reset() { s.bytes = s.bytes[:0] }

func (s *signature) number(n int64) { s.bytes = binary.AppendVarint(s.bytes, n) }

func (s *signature) string(v string) {
	s.bytes = binary.AppendUvarint(s.bytes, uint64(len(v)))
	s.bytes = append(s.bytes, v...)
}

func (s *signature) bool(v bool) {
	if v {
		s.bytes = append(s.bytes, 1)
		return
	}
	s.bytes = append(s.bytes, 0)
}

// usualNames are the resources that nearly all pods ask for, often for no others; sorted.
var usualNames = [...]string{quantity.NameCPU, quantity.NameStorage, quantity.NameMemory, quantity.NamePods}

// amounts writes amounts, sorted by name. Looking up a few names is faster than iterating over a map
// and sorting.
func (s *signature) amounts(a quantity.Amounts) {
	start, found := len(s.bytes), 0
	s.number(int64(len(a)))
	for _, name := range usualNames {
		if n, ok := a[name]; ok {
			s.amount(name, n)
			found++
		}
	}
	if found == len(a) {
		return
	}
	s.bytes, s.names = s.bytes[:start], s.names[:0]
	for name := range a {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	s.number(int64(len(s.names)))
	for _, name := range s.names {
		s.amount(name, a[name])
	}
}

func (s *signature) amount(name string, n int64) {
	s.string(name)
	s.number(n)
}

// labels writes the labels that distinguish pods, sorted by key.
func (s *signature) labels(labels map[string]string, used *selectorLabels, toBePlaced bool) {
	s.names = s.names[:0]
	if few, ok := used.few(toBePlaced); ok {
		for _, key := range few {
			if _, ok := labels[key]; ok {
				s.names = append(s.names, key)
			}
		}
	} else {
		for key := range labels {
			if used.distinguishes(key, toBePlaced) {
				s.names = append(s.names, key)
			}
		}
		slices.Sort(s.names)
	}
	for _, key := range s.names {
		s.string(key)
		s.string(labels[key])
	}
}

// labelPair is a label and its value.
type labelPair struct{ key, value string }

// distinguishing lists the labels that were written last, of a pod with these labels.
func (s *signature) distinguishing(labels map[string]string) []labelPair {
	if len(s.names) == 0 {
		return nil
	}
	out := make([]labelPair, len(s.names))
	for i, key := range s.names {
		out[i] = labelPair{key, labels[key]}
	}
	return out
}

func (s *signature) term(t Term) {
	s.number(int64(len(t)))
	if len(t) > 1 && !slices.IsSortedFunc(t, compareRequirements) {
		t = slices.Clone(t)
		slices.SortFunc(t, compareRequirements)
	}
	for _, r := range t {
		s.string(r.Key)
		s.string(string(r.Operator))
		s.number(int64(len(r.Values)))
		for _, v := range r.Values {
			s.string(v)
		}
	}
}

func compareRequirements(a, b constraint.Rule) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if c := strings.Compare(string(a.Operator), string(b.Operator)); c != 0 {
		return c
	}
	return slices.Compare(a.Values, b.Values)
}

func (s *signature) terms(ts []Term) {
	s.number(int64(len(ts)))
	for _, t := range ts {
		s.term(t)
	}
}

func (s *signature) tolerations(ts []Toleration) {
	ts = sortedTolerations(ts)
	s.number(int64(len(ts)))
	for _, t := range ts {
		s.string(t.Key)
		s.string(t.Operator)
		s.string(t.Value)
		s.string(string(t.Effect))
	}
}

func (s *signature) selector(sel Selector) {
	s.bool(sel.Nothing)
	s.number(int64(len(sel.Namespaces)))
	for _, ns := range sel.Namespaces {
		s.string(ns)
	}
	s.bool(sel.NamespaceLabels != nil)
	s.term(sel.NamespaceLabels)
	s.term(sel.Labels)
}

// shape writes what a pod asks of its node.
func (s *signature) shape(p *Pod) {
	s.amounts(p.Requests)
	s.term(p.Required)
	s.terms(p.AnyOf)
	s.tolerations(p.Tolerations)
	s.number(int64(len(p.Volumes)))
	for _, v := range p.Volumes {
		s.string(v.Driver)
		s.terms(v.AnyOf)
		s.bool(v.Shared)
		if v.Shared {
			s.string(v.ID)
		}
	}
	s.number(int64(len(p.Ports)))
	for _, port := range p.Ports {
		s.string(port.Protocol)
		s.string(port.IP)
		s.number(int64(port.Port))
	}
}

// body writes everything else that decisions look at, except labels: priority, preferences,
// spread constraints, pod (anti-)affinity and namespace.
func (s *signature) body(p *Pod) {
	s.number(int64(p.Priority))
	s.bool(p.Virtual)
	s.string(string(p.Refused))
	s.string(p.RefusedDetail)
	s.number(int64(len(p.RefusedFacts)))
	for _, f := range p.RefusedFacts {
		s.string(f.Name)
		s.string(f.Text())
	}
	s.number(int64(len(p.Preferred)))
	for _, t := range p.Preferred {
		s.number(int64(t.Weight))
		s.term(t.Term)
	}
	s.number(int64(len(p.Spreads)))
	for i := range p.Spreads {
		c := &p.Spreads[i]
		s.string(c.Key)
		s.number(int64(c.MaxSkew))
		s.number(int64(c.MinDomains))
		s.selector(c.Selector)
		s.bool(c.Soft)
		s.bool(c.IgnoreAffinity)
		s.bool(c.HonorTaints)
	}
	for _, terms := range [][]PodAffinityTerm{p.Affinity, p.AntiAffinity} {
		s.number(int64(len(terms)))
		for i := range terms {
			s.string(terms[i].Key)
			s.selector(terms[i].Selector)
			s.number(int64(terms[i].Weight))
		}
	}
	s.string(p.Namespace)
}
