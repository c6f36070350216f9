// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// topologyConstraints fills in the pod's topology spread constraints and pod (anti-)affinity.
func (k *Converter) topologyConstraints(w *cluster.Pod, p *corev1.Pod) {
	c := selectorContext{converter: k, labels: p.Labels, namespace: p.Namespace}
	w.Spreads = c.spreads(p.Spec.TopologySpreadConstraints)
	a := p.Spec.Affinity
	if a == nil {
		return
	}
	if x := a.PodAffinity; x != nil {
		w.Affinity = c.podTerms(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if x := a.PodAntiAffinity; x != nil {
		w.AntiAffinity = c.podTerms(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// selectorContext converts the selectors of one pod; it has the defaults for what they leave out.
type selectorContext struct {
	converter *Converter
	labels    map[string]string
	namespace string
	own       []string // the namespace as a list, made once
}

func (c *selectorContext) spreads(in []corev1.TopologySpreadConstraint) []cluster.TopologySpreadConstraint {
	if len(in) == 0 {
		return nil
	}
	out := make([]cluster.TopologySpreadConstraint, len(in))
	for i := range in {
		s := &in[i]
		out[i] = cluster.TopologySpreadConstraint{
			Key:            normal(s.TopologyKey),
			MaxSkew:        s.MaxSkew,
			MinDomains:     ptr.Deref(s.MinDomains, 0),
			Selector:       c.labelled(s.LabelSelector, s.MatchLabelKeys, nil),
			Soft:           s.WhenUnsatisfiable == corev1.ScheduleAnyway,
			IgnoreAffinity: ptr.Deref(s.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyIgnore,
			HonorTaints:    ptr.Deref(s.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor,
		}
		if len(out[i].Selector.Labels) == 0 {
			// An empty selector matches every pod, but kube-scheduler counts none for a spread with it
			// (countPodsMatchSelector in its plugin podtopologyspread).
			out[i].Selector = cluster.Selector{Nothing: true}
		}
		out[i].Selector.Namespaces = c.ownNamespace()
	}
	return out
}

// podTerms puts required terms first. A preferred term without a weight is dropped; the API
// server accepts none.
func (c *selectorContext) podTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) []cluster.PodAffinityTerm {
	if len(required)+len(preferred) == 0 {
		return nil
	}
	out := make([]cluster.PodAffinityTerm, 0, len(required)+len(preferred))
	for i := range required {
		out = append(out, c.podTerm(&required[i], 0))
	}
	for i := range preferred {
		if preferred[i].Weight > 0 {
			out = append(out, c.podTerm(&preferred[i].PodAffinityTerm, preferred[i].Weight))
		}
	}
	return out
}

func (c *selectorContext) podTerm(t *corev1.PodAffinityTerm, weight int32) cluster.PodAffinityTerm {
	out := cluster.PodAffinityTerm{
		Key:      normal(t.TopologyKey),
		Selector: c.labelled(t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys),
		Weight:   weight,
	}
	out.Selector.Namespaces = t.Namespaces
	if t.NamespaceSelector == nil {
		if len(t.Namespaces) == 0 {
			out.Selector.Namespaces = c.ownNamespace()
		}
		return out
	}
	rules, ok := selectorRules(t.NamespaceSelector, 0)
	if !ok { // it selects no namespace; those in Namespaces remain
		return out
	}
	out.Selector.NamespaceLabels = rules
	return out
}

func (c *selectorContext) ownNamespace() []string {
	if c.own == nil {
		c.own = c.converter.namespace(c.namespace)
	}
	return c.own
}

// labelled converts a label selector. A missing selector, or one that cannot be read, selects
// nothing, as in the scheduler and Karpenter. Selected pods must have the pod's own values of the
// match keys and must not have those of the mismatch keys; keys that the pod lacks are ignored.
func (c *selectorContext) labelled(s *metav1.LabelSelector, match, mismatch []string) cluster.Selector {
	if s == nil {
		return cluster.Selector{Nothing: true}
	}
	if len(s.MatchLabels) == 1 && len(s.MatchExpressions)+len(match)+len(mismatch) == 0 {
		return cluster.Selector{Labels: c.converter.oneLabel(s.MatchLabels)}
	}
	rules, ok := selectorRules(s, len(match)+len(mismatch))
	if !ok {
		return cluster.Selector{Nothing: true}
	}
	rules = c.merge(rules, match, constraint.In)
	rules = c.merge(rules, mismatch, constraint.NotIn)
	return cluster.Selector{Labels: rules}
}

func (c *selectorContext) merge(rules cluster.Term, keys []string, op constraint.Operator) cluster.Term {
	for _, key := range keys {
		value, ok := c.labels[key]
		if !ok || says(rules, key, op, value) {
			continue // the API server may have merged it already
		}
		rules = append(rules, constraint.Rule{Key: key, Operator: op, Values: []string{value}})
	}
	return rules
}

func says(rules cluster.Term, key string, op constraint.Operator, value string) bool {
	return slices.ContainsFunc(rules, func(r constraint.Rule) bool {
		return r.Key == key && r.Operator == op && len(r.Values) == 1 && r.Values[0] == value
	})
}

// selectorRules converts a label selector to rules, with spare capacity in the slice for more;
// never nil. It reports false for a selector that the API server would reject.
func selectorRules(s *metav1.LabelSelector, more int) (cluster.Term, bool) {
	out := make(cluster.Term, 0, len(s.MatchLabels)+len(s.MatchExpressions)+more)
	out = appendLabels(out, s.MatchLabels)
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		listed := e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn
		bare := e.Operator == metav1.LabelSelectorOpExists || e.Operator == metav1.LabelSelectorOpDoesNotExist
		if !listed && !bare || listed != (len(e.Values) > 0) {
			return nil, false
		}
		out = append(out, constraint.Rule{Key: e.Key, Operator: constraint.Operator(e.Operator), Values: e.Values})
	}
	return out, true
}

// appendLabels adds labels as In rules, sorted by key, since maps have no order.
func appendLabels(out cluster.Term, labels map[string]string) cluster.Term {
	start, values := len(out), make([]string, 0, len(labels))
	for key, value := range labels {
		values = append(values, value)
		n := len(values)
		out = append(out, constraint.Rule{Key: key, Operator: constraint.In, Values: values[n-1 : n : n]})
	}
	sortTerm(out[start:])
	return out
}

func sortTerm(t cluster.Term) {
	if len(t) > 1 {
		slices.SortFunc(t, func(a, b constraint.Rule) int { return strings.Compare(a.Key, b.Key) })
	}
}
