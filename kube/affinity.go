// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// affinity returns the node selector as one conjunction and the required node
// affinity as alternatives.
func affinity(spec *corev1.PodSpec) (required cluster.Term, anyOf []cluster.Term) {
	required = selector(spec.NodeSelector)
	terms := requiredTerms(spec.Affinity)
	if terms == nil {
		return required, nil
	}
	for i := range terms.NodeSelectorTerms {
		// Empty terms and terms that cannot be read match no node; refusalOf refuses pods with matchFields.
		if t := &terms.NodeSelectorTerms[i]; len(t.MatchExpressions) > 0 && unreadable(t) == nil {
			anyOf = append(anyOf, expressions(t.MatchExpressions))
		}
	}
	if anyOf == nil {
		anyOf = []cluster.Term{nowhere}
	}
	return required, anyOf
}

// nowhere is a term that holds on no node: of a DaemonSet none of whose terms can hold. Such pods are
// refused.
var nowhere = cluster.Term{
	{Key: corev1.LabelHostname, Operator: constraint.Exists},
	{Key: corev1.LabelHostname, Operator: constraint.DoesNotExist},
}

// preferences converts preferred node affinity. A term that is empty or without weight prefers
// nothing, and one that names a node by field cannot match a new node.
func preferences(a *corev1.Affinity) []cluster.PreferredSchedulingTerm {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	var out []cluster.PreferredSchedulingTerm
	for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		p := &a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
		if p.Weight > 0 && len(p.Preference.MatchExpressions) > 0 && len(p.Preference.MatchFields) == 0 {
			out = append(out, cluster.PreferredSchedulingTerm{Weight: p.Weight, Term: expressions(p.Preference.MatchExpressions)})
		}
	}
	return out
}

// selector converts a node selector.
func selector(labels map[string]string) cluster.Term {
	if len(labels) == 0 {
		return nil
	}
	term := appendLabels(make(cluster.Term, 0, len(labels)), labels)
	for i := range term {
		term[i].Key = normal(term[i].Key)
	}
	sortTerm(term)
	return term
}

// unreadable returns why kube-scheduler cannot read the expressions of the term; nil when it can.
// It reads them as label requirements, of which the values must be values of labels. The API server
// takes no such term of new pods, but has not always been as strict.
func unreadable(t *corev1.NodeSelectorTerm) error {
	for _, e := range t.MatchExpressions {
		op, known := labelOperators[e.Operator]
		if !known {
			return fmt.Errorf("operator %q of label %s is unknown", e.Operator, e.Key)
		}
		if _, err := labels.NewRequirement(e.Key, op, e.Values); err != nil {
			return err
		}
	}
	return nil
}

var labelOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func expressions(in []corev1.NodeSelectorRequirement) cluster.Term {
	term := make(cluster.Term, 0, len(in))
	for _, e := range in {
		term = append(term, constraint.Rule{Key: normal(e.Key), Operator: constraint.Operator(e.Operator), Values: e.Values})
	}
	return term
}

// Rules converts the requirements of a NodePool or NodeClaim.
func Rules(in []karpv1.NodeSelectorRequirementWithMinValues) cluster.Term {
	term := make(cluster.Term, 0, len(in))
	for _, r := range in {
		term = append(term, constraint.Rule{
			Key:       normal(r.Key),
			Operator:  constraint.Operator(r.Operator),
			Values:    r.Values,
			MinValues: ptr.Deref(r.MinValues, 0),
		})
	}
	return term
}

// Requirements is the inverse of Rules.
func Requirements(rules []constraint.Rule) []karpv1.NodeSelectorRequirementWithMinValues {
	out := make([]karpv1.NodeSelectorRequirementWithMinValues, 0, len(rules))
	for _, r := range rules {
		q := karpv1.NodeSelectorRequirementWithMinValues{
			Key:      r.Key,
			Operator: corev1.NodeSelectorOperator(r.Operator),
			Values:   r.Values,
		}
		if r.MinValues > 0 {
			q.MinValues = &r.MinValues
		}
		out = append(out, q)
	}
	return out
}

// normal replaces deprecated label names by the current ones.
func normal(key string) string {
	if today, ok := karpv1.NormalizedLabels[key]; ok {
		return today
	}
	return key
}

func tolerations(in []corev1.Toleration) []cluster.Toleration {
	if len(in) == 0 {
		return nil
	}
	out := make([]cluster.Toleration, 0, len(in))
	for _, t := range in {
		out = append(out, cluster.Toleration{
			Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: cluster.Effect(t.Effect),
		})
	}
	return out
}

// Taints converts taints.
func Taints(in []corev1.Taint) []cluster.Taint {
	if len(in) == 0 {
		return nil
	}
	out := make([]cluster.Taint, 0, len(in))
	for _, t := range in {
		out = append(out, cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.Effect(t.Effect)})
	}
	return out
}

// Tolerates reports whether a toleration lets a pod ignore a taint.
func Tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case "", corev1.TolerationOpEqual:
		return t.Key != "" && t.Value == taint.Value
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		return compares(t, taint)
	}
	return false
}

// compares reports whether both values are integers and the taint's value is less (Lt) or greater
// (Gt) than the toleration's.
func compares(t corev1.Toleration, taint corev1.Taint) bool {
	bound, err := strconv.ParseInt(t.Value, 10, 64)
	if err != nil || t.Key == "" {
		return false
	}
	value, err := strconv.ParseInt(taint.Value, 10, 64)
	if err != nil {
		return false
	}
	if t.Operator == corev1.TolerationOpLt {
		return value < bound
	}
	return value > bound
}
