package kube

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/reason"
)

// refusal says why no machine can be bought for a pod with this spec, whatever is
// on sale; empty when one can.
func refusal(spec *corev1.PodSpec) (reason.Reason, string) {
	if len(spec.ResourceClaims) > 0 {
		return reason.Unsupported, "resource claims (dynamic resource allocation) are not yet supported"
	}
	for key := range spec.NodeSelector {
		if restricted(key) {
			return reason.Invalid, restrictedWords("nodeSelector", smallestRestricted(spec.NodeSelector))
		}
	}
	if terms := requiredTerms(spec.Affinity); terms != nil {
		return refusedTerms(terms.NodeSelectorTerms)
	}
	return "", ""
}

func requiredTerms(a *corev1.Affinity) *corev1.NodeSelector {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func refusedTerms(terms []corev1.NodeSelectorTerm) (reason.Reason, string) {
	empty := true
	for i := range terms {
		if len(terms[i].MatchFields) > 0 {
			return reason.Unsupported, "required node affinity by field (matchFields) is not supported: it names a node, and a new one has another name"
		}
		for _, e := range terms[i].MatchExpressions {
			empty = false
			if restricted(e.Key) {
				return reason.Invalid, restrictedWords("required node affinity", e.Key)
			}
		}
	}
	if empty {
		return reason.Invalid, "all terms of the required node affinity are empty, and an empty term matches no node"
	}
	return "", ""
}

// restricted reports whether a label is one that pods may not ask for. Nearly all
// are told apart without asking the API's own, slower rule.
func restricted(key string) bool {
	if key != corev1.LabelHostname && !strings.Contains(key, "karpenter.sh/") {
		return false
	}
	return karpv1.IsRestrictedLabel(normal(key)) != nil
}

// smallestRestricted names always the same one of several.
func smallestRestricted(labels map[string]string) string {
	smallest := ""
	for key := range labels {
		if restricted(key) && (smallest == "" || key < smallest) {
			smallest = key
		}
	}
	return smallest
}

func restrictedWords(where, key string) string {
	return fmt.Sprintf("%s: using label %s is not allowed as it might interfere with the internal provisioning logic: remove it", where, key)
}
