// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// meets reports whether labels meet a requirement of a NodePool, as Karpenter's documentation has it.
func meets(key string, op corev1.NodeSelectorOperator, values []string, labels map[string]string) bool {
	value, ok := labels[key]
	switch op {
	case corev1.NodeSelectorOpIn:
		return ok && slices.Contains(values, value)
	case corev1.NodeSelectorOpNotIn:
		return !ok || !slices.Contains(values, value)
	case corev1.NodeSelectorOpExists:
		return ok
	case corev1.NodeSelectorOpDoesNotExist:
		return !ok
	}
	bound, err := strconv.ParseInt(values[0], 10, 64)
	n, bad := strconv.ParseInt(value, 10, 64)
	if !ok || err != nil || bad != nil {
		return false
	}
	switch op {
	case corev1.NodeSelectorOpGt:
		return n > bound
	case corev1.NodeSelectorOpLt:
		return n < bound
	case karpv1.NodeSelectorOpGte:
		return n >= bound
	case karpv1.NodeSelectorOpLte:
		return n <= bound
	}
	return false
}
