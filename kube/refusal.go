// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/reason"
)

// podRefusal is why no node can be launched for a pod: in words, and its parameters as data. The
// zero podRefusal means none.
type podRefusal struct {
	because reason.Reason
	words   string
	facts   map[string]any
}

// applyTo records a refusal on the pod, unless there is one already.
func (d podRefusal) applyTo(w *cluster.Pod) {
	if d.because != "" && w.Refused == "" {
		w.Refused, w.RefusedDetail, w.RefusedFacts = d.because, d.words, reason.FactsOf(d.facts)
	}
}

// refusalOf says why no node can be launched for a pod with this spec, whatever the catalog has.
func refusalOf(spec *corev1.PodSpec) podRefusal {
	if len(spec.ResourceClaims) > 0 {
		return podRefusal{reason.Unsupported, "resource claims (dynamic resource allocation) are not yet supported", map[string]any{"field": "resourceClaims"}}
	}
	for key := range spec.NodeSelector {
		if restricted(key) {
			return refusalOfLabel("nodeSelector", smallestRestricted(spec.NodeSelector))
		}
	}
	if terms := requiredTerms(spec.Affinity); terms != nil {
		return refusalOfTerms(terms.NodeSelectorTerms)
	}
	return podRefusal{}
}

func requiredTerms(a *corev1.Affinity) *corev1.NodeSelector {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func refusalOfTerms(terms []corev1.NodeSelectorTerm) podRefusal {
	empty := true
	var bad error
	readable := 0
	for i := range terms {
		if len(terms[i].MatchFields) > 0 {
			return podRefusal{reason.Unsupported, "required node affinity by field (matchFields) is not supported: it names a node, and a new one has another name",
				map[string]any{"field": "matchFields"}}
		}
		for _, e := range terms[i].MatchExpressions {
			empty = false
			if restricted(e.Key) {
				return refusalOfLabel("required node affinity", e.Key)
			}
		}
		if len(terms[i].MatchExpressions) == 0 {
			continue
		}
		if err := unreadable(&terms[i]); err == nil {
			readable++
		} else if bad == nil {
			bad = err
		}
	}
	if bad != nil && readable == 0 {
		return podRefusal{reason.Invalid, fmt.Sprintf("required node affinity: no term can be read: %v", bad), map[string]any{"field": "required node affinity"}}
	}
	if empty {
		return podRefusal{reason.Invalid, "all terms of the required node affinity are empty, and an empty term matches no node",
			map[string]any{"field": "required node affinity"}}
	}
	return podRefusal{}
}

// restricted reports whether a label is one that pods may not ask for. Nearly all labels are
// decided without calling the API's own, slower check.
func restricted(key string) bool {
	if key != corev1.LabelHostname && !strings.Contains(key, "karpenter.sh/") {
		return false
	}
	return karpv1.IsRestrictedLabel(normal(key)) != nil
}

// smallestRestricted returns the first restricted label by name, so that the answer is stable.
func smallestRestricted(labels map[string]string) string {
	smallest := ""
	for key := range labels {
		if restricted(key) && (smallest == "" || key < smallest) {
			smallest = key
		}
	}
	return smallest
}

func refusalOfLabel(where, key string) podRefusal {
	words := fmt.Sprintf("%s: using label %s is not allowed as it might interfere with the internal provisioning logic: remove it", where, key)
	return podRefusal{reason.Invalid, words, map[string]any{"field": where, "key": key}}
}
