package judge

import (
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/world"
)

func tolerations(in []world.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range in {
		out = append(out, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}

// nodeSelector writes that all of required and one of anyOf must hold; nil when
// that is always so. Kubernetes reads an empty term as never true, the engine as
// always, so one empty alternative makes them all superfluous.
func nodeSelector(required world.Term, anyOf []world.Term) *corev1.NodeSelector {
	if len(anyOf) == 0 {
		anyOf = []world.Term{nil}
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

func expressions(t world.Term) []corev1.NodeSelectorRequirement {
	var out []corev1.NodeSelectorRequirement
	for _, r := range t {
		op, values := corev1.NodeSelectorOperator(r.Operator), r.Values
		switch {
		case r.Operator == constraint.NotIn && len(values) == 0:
			continue // excludes nothing, which Kubernetes has no way to write
		case r.Operator == constraint.In && len(values) == 0:
			// Nothing will do. Kubernetes writes that as two rules at odds.
			out = append(out, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOpExists})
			op = corev1.NodeSelectorOpDoesNotExist
		case r.Operator == constraint.Gte:
			op, values = corev1.NodeSelectorOpGt, moved(values, -1)
		case r.Operator == constraint.Lte:
			op, values = corev1.NodeSelectorOpLt, moved(values, 1)
		}
		out = append(out, corev1.NodeSelectorRequirement{Key: r.Key, Operator: op, Values: values})
	}
	return out
}

// moved makes an exclusive bound of an inclusive one.
func moved(bound []string, by int64) []string {
	if len(bound) != 1 {
		return bound // the scheduler refuses it in its own words
	}
	n, err := strconv.ParseInt(bound[0], 10, 64)
	if err != nil || by < 0 && n == math.MinInt64 || by > 0 && n == math.MaxInt64 {
		return bound
	}
	return []string{strconv.FormatInt(n+by, 10)}
}

// affinity writes nodeSelector, node affinity and the required terms of pod
// (anti-)affinity.
func affinity(p world.Pod) *corev1.Affinity {
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

func podTerms(in []world.PodTerm) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	for _, t := range in {
		if t.Weight != 0 {
			continue
		}
		term := corev1.PodAffinityTerm{TopologyKey: t.Key, Namespaces: t.Select.Namespaces, LabelSelector: labelSelector(t.Select)}
		if t.Select.NamespaceLabels != nil {
			term.NamespaceSelector = matching(t.Select.NamespaceLabels)
		}
		if len(t.Select.Namespaces) == 0 && t.Select.NamespaceLabels == nil {
			term.LabelSelector = nil // no namespace, no pod; Kubernetes would take the pod's own
		}
		out = append(out, term)
	}
	return out
}

// spread writes one constraint. Kubernetes always counts in the pod's own namespace.
func spread(s world.Spread) corev1.TopologySpreadConstraint {
	out := corev1.TopologySpreadConstraint{
		TopologyKey: s.Key, MaxSkew: s.MaxSkew, LabelSelector: labelSelector(s.Select), WhenUnsatisfiable: corev1.DoNotSchedule,
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
func labelSelector(s world.Selector) *metav1.LabelSelector {
	if s.Nothing {
		return nil
	}
	return matching(s.Labels)
}

func matching(t world.Term) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, r := range t {
		if r.Operator == constraint.NotIn && len(r.Values) == 0 {
			continue
		}
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values})
	}
	return out
}
