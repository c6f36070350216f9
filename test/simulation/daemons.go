// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationFails has a pod fail as soon as it has started.
const annotationFails = "simulation/fails"

// runDaemons has each DaemonSet have a pod on each Node. They tolerate everything.
func (k *kubernetesControllers) runDaemons(ctx context.Context) {
	sets := all[*appsv1.DaemonSet](k.objects, "DaemonSet")
	if len(sets) == 0 {
		return
	}
	has := map[string]bool{}
	for _, p := range k.objects.pods() {
		if owner := metav1.GetControllerOf(p); owner != nil {
			has[owner.Name+"/"+p.Spec.NodeName] = true
		}
	}
	for _, d := range sets {
		for _, n := range k.objects.nodes() {
			if n.DeletionTimestamp == nil && !has[d.Name+"/"+n.Name] && fitsDaemon(d, n, k.objects.pods()) {
				k.try("creating a pod of "+d.Name, k.client.Create(ctx, daemonPod(d, n)))
			}
		}
	}
}

// fitsDaemon reports whether a Node has room: the scheduler leaves a daemon's pod out otherwise.
func fitsDaemon(d *appsv1.DaemonSet, n *corev1.Node, pods []*corev1.Pod) bool {
	r := newRoom(n)
	for _, p := range pods {
		if p.Spec.NodeName == n.Name && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			r.take(p)
		}
	}
	cpu, memory := requestsOf(&corev1.Pod{Spec: d.Spec.Template.Spec})
	return r.pods > 0 && r.cpu.Cmp(cpu) >= 0 && r.memory.Cmp(memory) >= 0
}

func daemonPod(d *appsv1.DaemonSet, n *corev1.Node) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.Namespace, p.GenerateName = d.Namespace, d.Name+"-"
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	p.Spec.NodeName = n.Name
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return p
}

// takeStartupTaint is the agent that takes its taint off a Node once it is ready there.
func (k *kubernetesControllers) takeStartupTaint(ctx context.Context, n *corev1.Node) {
	i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == startupTaint })
	ready := conditionOf(n.Status.Conditions, corev1.NodeReady)
	if i < 0 || k.startupTaintStays.Load() || ready == nil || ready.Status != corev1.ConditionTrue || time.Since(ready.LastTransitionTime.Time) < agentTakes {
		return
	}
	changed := n.DeepCopy()
	changed.Spec.Taints = slices.Delete(changed.Spec.Taints, i, i+1)
	k.patch(ctx, n, changed, false)
}
