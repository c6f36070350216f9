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
	names []string // scratch for sorting
}

func (s *signature) reset() { s.bytes = s.bytes[:0] }

func (s *signature) num(n int64) { s.bytes = binary.AppendVarint(s.bytes, n) }

func (s *signature) str(v string) {
	s.bytes = binary.AppendUvarint(s.bytes, uint64(len(v)))
	s.bytes = append(s.bytes, v...)
}

func (s *signature) flag(v bool) {
	if v {
		s.bytes = append(s.bytes, 1)
		return
	}
	s.bytes = append(s.bytes, 0)
}

func (s *signature) amounts(a quantity.Amounts) {
	s.names = s.names[:0]
	for name := range a {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	s.num(int64(len(s.names)))
	for _, name := range s.names {
		s.str(name)
		s.num(a[name])
	}
}

// labels writes the labels that distinguish pods, sorted by key.
func (s *signature) labels(labels map[string]string, used *selectorLabels, toBePlaced bool) {
	s.names = s.names[:0]
	for key := range labels {
		if used.distinguishes(key, toBePlaced) {
			s.names = append(s.names, key)
		}
	}
	slices.Sort(s.names)
	for _, key := range s.names {
		s.str(key)
		s.str(labels[key])
	}
}

func (s *signature) term(t Term) {
	s.num(int64(len(t)))
	if len(t) > 1 && !slices.IsSortedFunc(t, compareRules) {
		t = slices.Clone(t)
		slices.SortFunc(t, compareRules)
	}
	for _, r := range t {
		s.str(r.Key)
		s.str(string(r.Operator))
		s.num(int64(len(r.Values)))
		for _, v := range r.Values {
			s.str(v)
		}
	}
}

func compareRules(a, b constraint.Rule) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if c := strings.Compare(string(a.Operator), string(b.Operator)); c != 0 {
		return c
	}
	return slices.Compare(a.Values, b.Values)
}

func (s *signature) terms(ts []Term) {
	s.num(int64(len(ts)))
	for _, t := range ts {
		s.term(t)
	}
}

func (s *signature) tolerations(ts []Toleration) {
	ts = sortedTolerations(ts)
	s.num(int64(len(ts)))
	for _, t := range ts {
		s.str(t.Key)
		s.str(t.Operator)
		s.str(t.Value)
		s.str(string(t.Effect))
	}
}

func (s *signature) selector(sel Selector) {
	s.flag(sel.Nothing)
	s.num(int64(len(sel.Namespaces)))
	for _, ns := range sel.Namespaces {
		s.str(ns)
	}
	s.flag(sel.NamespaceLabels != nil)
	s.term(sel.NamespaceLabels)
	s.term(sel.Labels)
}

// shape writes what a pod asks of its node.
func (s *signature) shape(p *Pod) {
	s.amounts(p.Requests)
	s.term(p.Required)
	s.terms(p.AnyOf)
	s.tolerations(p.Tolerations)
	s.num(int64(len(p.Volumes)))
	for _, v := range p.Volumes {
		s.str(v.Driver)
		s.terms(v.AnyOf)
		s.flag(v.Shared)
		if v.Shared {
			s.str(v.ID)
		}
	}
	s.num(int64(len(p.Ports)))
	for _, port := range p.Ports {
		s.str(port.Protocol)
		s.str(port.IP)
		s.num(int64(port.Port))
	}
}

// body writes everything else that decisions look at, except labels: priority, preferences,
// spread constraints, pod (anti-)affinity and namespace.
func (s *signature) body(p *Pod) {
	s.num(int64(p.Priority))
	s.flag(p.Virtual)
	s.str(string(p.Refused))
	s.str(p.RefusedDetail)
	s.num(int64(len(p.RefusedFacts)))
	for _, f := range p.RefusedFacts {
		s.str(f.Name)
		s.str(f.Text())
	}
	s.num(int64(len(p.Preferred)))
	for _, t := range p.Preferred {
		s.num(int64(t.Weight))
		s.term(t.Term)
	}
	s.num(int64(len(p.Spreads)))
	for i := range p.Spreads {
		c := &p.Spreads[i]
		s.str(c.Key)
		s.num(int64(c.MaxSkew))
		s.num(int64(c.MinDomains))
		s.selector(c.Select)
		s.flag(c.Soft)
		s.flag(c.IgnoreAffinity)
		s.flag(c.HonorTaints)
	}
	for _, terms := range [][]PodAffinityTerm{p.Affinity, p.AntiAffinity} {
		s.num(int64(len(terms)))
		for i := range terms {
			s.str(terms[i].Key)
			s.selector(terms[i].Select)
			s.num(int64(terms[i].Weight))
		}
	}
	s.str(p.Namespace)
}
