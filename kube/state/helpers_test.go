// SPDX-License-Identifier: Apache-2.0

package state

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Helpers that tests of both packages use.

func container(requests ...string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: resources(requests...)}}
}

func owned(kind, version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, UID: "owner"}}}
}

func ready(p *karpv1.NodePool) {
	p.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	p.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
}

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}
