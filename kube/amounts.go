// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/karve-dev/karve/engine/quantity"
)

// Amounts turns a resource list into base units: cpu in milli-cores, rounded
// up, everything else in whole units, rounded up. An empty list is nil.
func Amounts(list corev1.ResourceList) quantity.Amounts {
	if len(list) == 0 {
		return nil
	}
	a := make(quantity.Amounts, len(list))
	for name, q := range list {
		a[string(name)] = baseUnits(name, q)
	}
	return a
}

// ResourceList is the inverse of Amounts. It leaves out zeros and attached volumes: no kubelet
// reports attachments as resources, so waiting for all resources that a claim requests would
// never end, and users who read a total do not know the names.
func ResourceList(a quantity.Amounts) corev1.ResourceList {
	list := make(corev1.ResourceList, len(a))
	for name, n := range a {
		if n != 0 && !strings.HasPrefix(name, quantity.Attachable) {
			list[corev1.ResourceName(name)] = asQuantity(name, n)
		}
	}
	return list
}

// baseUnits converts a quantity to base units, limited to quantity.Most in both directions: a
// quantity that does not fit into 64 bits would wrap around, and a typo of 1e20 bytes would
// request nothing.
func baseUnits(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		if q.CmpInt64(quantity.Most/1000) > 0 {
			return quantity.Most
		}
		if q.CmpInt64(-quantity.Most/1000) < 0 {
			return -quantity.Most
		}
		return q.MilliValue()
	}
	if q.CmpInt64(quantity.Most) > 0 {
		return quantity.Most
	}
	if q.CmpInt64(-quantity.Most) < 0 {
		return -quantity.Most
	}
	return q.Value()
}

func asQuantity(name string, n int64) resource.Quantity {
	switch name {
	case quantity.NameCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case quantity.NameMemory, quantity.NameStorage:
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}
