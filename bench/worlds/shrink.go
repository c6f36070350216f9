// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Smallest describes the smallest world that fails like this one, with its plan.
func Smallest(w *World, seed uint64) string {
	kind := Judge(w, seed).Kind()
	small := Shrink(w, 20000, func(w *World) bool { return Judge(w, seed).Kind() == kind })
	return fmt.Sprintf("# The smallest world made of seed %d that fails in this way (%s).\n%s---\n%s\n%s", seed, kind, small.Text(), Judge(small, seed), Render(small.Plan()))
}

// Shrink returns a small world for which fails still holds, made of w by leaving out objects, then what
// they say. It assumes that fails(w) holds, does not change w, and asks fails at most budget
// times.
func Shrink(w *World, budget int, fails func(*World) bool) *World {
	k := &shrinker{root: w.tree(), best: w, left: budget, fails: fails}
	k.emptyTerms, k.emptySpreads = emptySelectors(w)
	for changed := true; changed && k.left > 0; {
		changed = false
		for _, kind := range slices.Sorted(maps.Keys(k.root)) {
			changed = kind != "Namespaces" && k.elements(k.root, kind) || changed
		}
		for _, kind := range slices.Sorted(maps.Keys(k.root)) {
			changed = kind != "Namespaces" && k.within(k.root[kind]) || changed
		}
	}
	return k.best
}

// emptySelectors counts the affinity terms, and the spread constraints, that select every pod. Shrinking
// makes no more of them: that may be another failure.
func emptySelectors(w *World) (terms, spreads int) {
	empty := func(s *metav1.LabelSelector) int {
		if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			return 1
		}
		return 0
	}
	for _, p := range w.Pods {
		for _, s := range p.Spec.TopologySpreadConstraints {
			spreads += empty(s.LabelSelector)
		}
		for _, t := range podTerms(p) {
			terms += empty(t.LabelSelector)
		}
	}
	return terms, spreads
}

// podTerms lists the required terms of pod affinity and anti-affinity.
func podTerms(p *corev1.Pod) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		out = append(out, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		out = append(out, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return out
}

type shrinker struct {
	root  map[string]any
	best  *World
	left  int
	fails func(*World) bool

	emptyTerms, emptySpreads int // of the world at first, see emptySelectors
}

// kept are fields that no object can do without. They go with what they belong to.
var kept = []string{
	"name", "namespace", "uid", "key", "operator", "values", "topologyKey", "whenUnsatisfiable", "maxSkew", "labelSelector", "namespaceSelector", "effect", "kubernetes.io/metadata.name",
	"metadata", "template", "containers", "nodeClassRef", "claimName", "kind", "group", "apiVersion", "type", "reason", "Name", "Zone", "CapacityType", "Price",
	"Capacity", "kubernetes.io/hostname", "karpenter.sh/nodepool", "volumeName", "accessModes", "hostPort", "containerPort", "protocol", "resourceVersion",
	"provisioner", "volumeBindingMode", "persistentVolumeClaim", "ephemeral", "volumeClaimTemplate", "spec", "ownerReferences", "storageClassName", "csi", "driver", "volumeHandle", "weight", "preference",
	"requiredDuringSchedulingIgnoredDuringExecution", "matchExpressions", "nodeSelectorTerms", "pv.kubernetes.io/bind-completed",
}

// try keeps the change that the caller made to root when the world still fails.
func (k *shrinker) try() bool {
	if k.left <= 0 {
		return false
	}
	k.left--
	w, err := fromTree(k.root)
	if err != nil || !valid(w) {
		return false
	}
	if terms, spreads := emptySelectors(w); terms > k.emptyTerms || spreads > k.emptySpreads || !k.fails(w) {
		return false
	}
	k.best = w
	return true
}

// elements leaves out elements of a list: halves, then quarters, at last single ones.
func (k *shrinker) elements(in map[string]any, key string) bool {
	list, ok := in[key].([]any)
	if !ok {
		return false
	}
	changed := false
	for size := max(1, len(list)/2); ; size /= 2 {
		for at := 0; at < len(list); {
			in[key] = slices.Concat(list[:at], list[min(len(list), at+size):])
			if k.try() {
				list, changed = in[key].([]any), true
				continue
			}
			in[key] = list
			at += size
		}
		if size <= 1 {
			return changed
		}
	}
}

// within simplifies what a value holds.
func (k *shrinker) within(value any) bool {
	changed := false
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			changed = k.within(v) || changed
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			had := value[key]
			if !slices.Contains(kept, key) {
				delete(value, key)
				if k.try() {
					changed = true
					continue
				}
				value[key] = had
			}
			changed = k.elements(value, key) || changed
			changed = k.within(value[key]) || changed
		}
	}
	return changed
}

// valid reports whether the world is one that an API server could hold, as far as leaving things out
// can spoil that.
func valid(w *World) bool {
	for _, p := range w.Pods {
		if !validSpec(p.Spec) || !validSelectors(p) {
			return false
		}
		for _, v := range p.Spec.Volumes {
			if w.volumeClaim(p.Namespace, claimName(p, v)) == nil {
				return false
			}
		}
	}
	for _, d := range w.DaemonSets {
		if !validSpec(d.Spec.Template.Spec) {
			return false
		}
	}
	for _, c := range w.VolumeClaims {
		if len(c.Spec.AccessModes) == 0 {
			return false
		}
	}
	for _, p := range w.NodePools {
		for _, r := range p.Spec.Template.Spec.Requirements {
			needs := r.Operator != "Exists" && r.Operator != "DoesNotExist"
			if needs != (len(r.Values) > 0) {
				return false
			}
		}
	}
	for _, c := range w.NodeClaims {
		if (c.Status.ProviderID == "" || len(c.Status.Capacity) == 0 || len(c.Status.Allocatable) == 0) && len(c.Spec.Requirements) < 3 {
			return false // it would not name one offering
		}
	}
	return true
}

func validSpec(spec corev1.PodSpec) bool {
	if len(spec.Containers) == 0 {
		return false
	}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil && len(r.NodeSelectorTerms) == 0 {
			return false
		}
	}
	p := &corev1.Pod{Spec: spec}
	for _, t := range requiredTerms(p) {
		if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
			return false
		}
	}
	for _, r := range required(p) {
		needs := r.Operator != corev1.NodeSelectorOpExists && r.Operator != corev1.NodeSelectorOpDoesNotExist
		if needs != (len(r.Values) > 0) {
			return false
		}
	}
	return true
}

// validSelectors reports whether the pod's selectors of other pods have values where their operators
// need some.
func validSelectors(p *corev1.Pod) bool {
	invalid := func(s *metav1.LabelSelector) bool {
		_, err := metav1.LabelSelectorAsSelector(s)
		return err != nil
	}
	return !slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(s corev1.TopologySpreadConstraint) bool { return invalid(s.LabelSelector) }) &&
		!slices.ContainsFunc(podTerms(p), func(t corev1.PodAffinityTerm) bool { return invalid(t.LabelSelector) || invalid(t.NamespaceSelector) })
}
