// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

func tolerations(in []cluster.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range in {
		out = append(out, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}

// nodeSelector writes that all of required and one of anyOf must hold; nil when
// that is always so. Kubernetes reads an empty term as never true, the engine as
// always, so one empty alternative makes them all superfluous.
func nodeSelector(required cluster.Term, anyOf []cluster.Term) *corev1.NodeSelector {
	if len(anyOf) == 0 {
		anyOf = []cluster.Term{nil}
	}
	out := &corev1.NodeSelector{}
	for _, alternative := range anyOf {
		all := expressions(append(slices.Clone(required), alternative...))
		if len(all) == 0 {
			return nil
		}
		out.NodeSelectorTerms = append(out.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: all})
	}
	return out
}

func expressions(t cluster.Term) []corev1.NodeSelectorRequirement {
	var out []corev1.NodeSelectorRequirement
	for _, r := range t {
		switch r.Operator {
		case constraint.Gt, constraint.Gte, constraint.Lt, constraint.Lte:
			out = append(out, bound(r)...)
		case constraint.In:
			if len(r.Values) == 0 {
				out = append(out, never(r.Key)...)
				continue
			}
			out = append(out, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOpIn, Values: r.Values})
		case constraint.NotIn:
			if len(r.Values) > 0 { // excluding nothing is nothing Kubernetes can write
				out = append(out, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOpNotIn, Values: r.Values})
			}
		default:
			out = append(out, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: r.Values})
		}
	}
	return out
}

// never is what no node meets: two rules at odds.
func never(key string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}, {Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}}
}

// bound writes a comparison. Kubernetes knows exclusive bounds only, and none below
// zero, for a label cannot begin with a minus sign: above such a bound is every
// number, below it none.
func bound(r constraint.Rule) []corev1.NodeSelectorRequirement {
	as := func(op corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: r.Key, Operator: op, Values: values}}
	}
	below := r.Operator == constraint.Lt || r.Operator == constraint.Lte
	op := corev1.NodeSelectorOpGt
	if below {
		op = corev1.NodeSelectorOpLt
	}
	if len(r.Values) != 1 {
		return as(op, r.Values...) // the scheduler refuses it in its own words
	}
	n, err := strconv.ParseInt(r.Values[0], 10, 64)
	switch {
	case err != nil:
		return as(op, r.Values...)
	case below && n < 0:
		return never(r.Key)
	case r.Operator == constraint.Gt && n < 0, r.Operator == constraint.Gte && n <= 0:
		return as(corev1.NodeSelectorOpLt, strconv.FormatInt(math.MaxInt64, 10))
	case r.Operator == constraint.Gte:
		n--
	case r.Operator == constraint.Lte && n < math.MaxInt64:
		n++
	}
	return as(op, strconv.FormatInt(n, 10))
}

// affinity writes nodeSelector, node affinity and the required terms of pod
// (anti-)affinity.
func affinity(p cluster.Pod) *corev1.Affinity {
	a := &corev1.Affinity{}
	if where := nodeSelector(p.Required, p.AnyOf); where != nil {
		a.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: where}
	}
	if near := podTerms(p.Affinity); near != nil {
		a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near}
	}
	if apart := podTerms(p.AntiAffinity); apart != nil {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart}
	}
	return a
}

func podTerms(in []cluster.PodAffinityTerm) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	for _, t := range in {
		if t.Weight != 0 {
			continue
		}
		term := corev1.PodAffinityTerm{TopologyKey: t.Key, Namespaces: t.Selector.Namespaces, LabelSelector: labelSelector(t.Selector)}
		if t.Selector.NamespaceLabels != nil {
			term.NamespaceSelector = matching(t.Selector.NamespaceLabels)
		}
		if len(t.Selector.Namespaces) == 0 && t.Selector.NamespaceLabels == nil {
			term.LabelSelector = nil // no namespace, no pod; Kubernetes would take the pod's own
		}
		out = append(out, term)
	}
	return out
}

// spread writes one constraint. Kubernetes always counts in the pod's own namespace.
func spread(s cluster.TopologySpreadConstraint) corev1.TopologySpreadConstraint {
	out := corev1.TopologySpreadConstraint{
		TopologyKey: s.Key, MaxSkew: s.MaxSkew, LabelSelector: labelSelector(s.Selector), WhenUnsatisfiable: corev1.DoNotSchedule,
		NodeAffinityPolicy: policy(corev1.NodeInclusionPolicyHonor), NodeTaintsPolicy: policy(corev1.NodeInclusionPolicyIgnore),
	}
	if s.Soft {
		out.WhenUnsatisfiable = corev1.ScheduleAnyway
	}
	if s.MinDomains > 0 {
		out.MinDomains = &s.MinDomains
	}
	if s.IgnoreAffinity {
		out.NodeAffinityPolicy = policy(corev1.NodeInclusionPolicyIgnore)
	}
	if s.HonorTaints {
		out.NodeTaintsPolicy = policy(corev1.NodeInclusionPolicyHonor)
	}
	return out
}

func policy(p corev1.NodeInclusionPolicy) *corev1.NodeInclusionPolicy { return &p }

// labelSelector writes which pods are meant, namespaces aside; nil means none.
func labelSelector(s cluster.Selector) *metav1.LabelSelector {
	if s.Nothing {
		return nil
	}
	return matching(s.Labels)
}

func matching(t cluster.Term) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, r := range t {
		if r.Operator == constraint.NotIn && len(r.Values) == 0 {
			continue
		}
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values})
	}
	return out
}
