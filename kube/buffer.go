// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// VirtualPods are the first n chunks of capacity that a CapacityBuffer asks for, as pods that
// exist only in the Snapshot. Volumes that would have to be provisioned are left out: no
// controller provisions them for a pod that never runs.
func VirtualPods(b *autoscalingv1beta1.CapacityBuffer, t *corev1.PodTemplateSpec, n int) []cluster.Pod {
	p := chunk(b, t)
	out := make([]cluster.Pod, 0, n)
	for i := range n {
		p.Name = fmt.Sprintf("capacity-buffer-%s-%d", b.Name, i)
		p.UID = types.UID(fmt.Sprintf("%s-%d", b.UID, i))
		w := Pod(p, time.Time{})
		w.Virtual = true
		out = append(out, w)
	}
	return out
}

// ChunkRequests is what one chunk of a buffer requests.
func ChunkRequests(t *corev1.PodTemplateSpec) quantity.Amounts {
	return Requests(&corev1.Pod{Spec: t.Spec})
}

func chunk(b *autoscalingv1beta1.CapacityBuffer, t *corev1.PodTemplateSpec) *corev1.Pod {
	lowest := int32(math.MinInt32)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Labels: t.Labels, Annotations: maps.Clone(t.Annotations), CreationTimestamp: b.CreationTimestamp,
		},
		Spec: *t.Spec.DeepCopy(),
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[autoscalingv1beta1.FakePodAnnotationKey] = autoscalingv1beta1.FakePodAnnotationValue
	p.Annotations[autoscalingv1beta1.BufferNameAnnotation] = b.Name
	p.Annotations[autoscalingv1beta1.BufferNamespaceAnnotation] = b.Namespace
	p.Spec.NodeName, p.Spec.Priority = "", &lowest
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
	return p
}
