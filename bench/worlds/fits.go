// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// admits reports whether the node's labels and taints admit the pod.
func admits(p *corev1.Pod, n *corev1.Node) bool {
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); !ok || err != nil {
		return false
	}
	taints := n.Spec.Taints
	if n.Spec.Unschedulable {
		taints = append(taints[:len(taints):len(taints)], corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	_, repelled := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), taints, p.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule
	}, false)
	return !repelled
}

// requestsOf is what kube-scheduler counts for the pod, with one slot of pods.
func requestsOf(p *corev1.Pod) corev1.ResourceList {
	out := podresource.PodRequests(p, podresource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true})
	for name, n := range list("pods", "1") {
		out[name] = n
	}
	return out
}

// fits reports whether the node has room for the pod besides those that the generator put there.
func (g *generator) fits(p *corev1.Pod, n *corev1.Node) bool {
	for name, request := range requestsOf(p) {
		total := g.used[n.Name][name].DeepCopy()
		total.Add(request)
		room := n.Status.Allocatable[name]
		if total.Cmp(room) > 0 {
			return false
		}
	}
	return true
}

// use records that the pod runs on the node.
func (g *generator) use(p *corev1.Pod, n *corev1.Node) {
	used := g.used[n.Name]
	for name, request := range requestsOf(p) {
		total := used[name].DeepCopy()
		total.Add(request)
		used[name] = total
	}
}

// daemonPod is the pod that the DaemonSet controller makes for a node, but for the affinity to that
// node.
func daemonPod(d *appsv1.DaemonSet, node string) *corev1.Pod {
	name := d.Name + "-" + node
	controller := true
	p := &corev1.Pod{ObjectMeta: meta(d.Namespace, name), Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.UID = types.UID(name)
	p.Labels = d.Spec.Template.Labels
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: d.Name, UID: d.UID, Controller: &controller}}
	tolerate := func(key string, effect corev1.TaintEffect) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
	tolerate(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	tolerate(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	for _, key := range []string{corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable} {
		tolerate(key, corev1.TaintEffectNoSchedule)
	}
	return p
}
