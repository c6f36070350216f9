// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// Buffer is a CapacityBuffer as a controller resolved it: so many chunks, each a pod of the
// template.
type Buffer struct {
	metav1.ObjectMeta
	Chunks   int
	Template corev1.PodTemplateSpec
}

// virtualPods are the chunks as karve sees them.
func (b *Buffer) virtualPods() []cluster.Pod {
	return kube.VirtualPods(&autoscalingv1beta1.CapacityBuffer{ObjectMeta: b.ObjectMeta}, &b.Template, b.Chunks)
}

// pods are the chunks as the judge sees them: pods of the lowest priority.
func (b *Buffer) pods() []*corev1.Pod {
	lowest := int32(math.MinInt32)
	var out []*corev1.Pod
	for i, v := range b.virtualPods() {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: v.Name, UID: types.UID(fmt.Sprintf("%s-%d", b.UID, i)), Labels: b.Template.Labels}, Spec: *b.Template.Spec.DeepCopy()}
		p.Spec.Priority = &lowest
		out = append(out, p)
	}
	return out
}
