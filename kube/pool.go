// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/reason"
)

// Pool converts a NodePool. A pool that is not ready is blocked, with the reason its conditions
// give; other pools are not affected.
func Pool(p *karpv1.NodePool) cluster.NodePool {
	spec := p.Spec.Template.Spec
	labels := withCurrentKeys(p.Spec.Template.Labels)
	if ref := spec.NodeClassRef; ref != nil {
		labels[karpv1.NodeClassLabelKey(ref.GroupKind())] = ref.Name
	}
	w := cluster.NodePool{
		Name:         p.Name,
		Weight:       ptr.Deref(p.Spec.Weight, 0),
		Requirements: Rules(spec.Requirements),
		Labels:       labels,
		Taints:       Taints(spec.Taints),
		Limits:       Amounts(corev1.ResourceList(p.Spec.Limits)),
		NodeClass:    ClassOf(spec.NodeClassRef),
		Static:       p.Spec.Replicas != nil,
		FullCPU:      p.Annotations[BurstableCPUAnnotation] == BurstableCPUFull,
	}
	w.Blocked, w.BlockedDetail, w.BlockedFacts = blocked(p)
	return w
}

// withCurrentKeys is a copy of labels in which deprecated keys are replaced by current ones. If a
// label is there under both keys, the value of the current key counts.
func withCurrentKeys(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+1)
	for key, value := range labels {
		if _, both := labels[normal(key)]; normal(key) == key || !both {
			out[normal(key)] = value
		}
	}
	return out
}

// blocked says why no node may be launched for a pool: the first of its conditions that does
// not hold. The conditions that Ready depends on are checked before Ready itself, which says
// only that one of them does not hold.
func blocked(p *karpv1.NodePool) (reason.Reason, string, reason.Facts) {
	if p.DeletionTimestamp != nil {
		return reason.NodePoolNotReady, "the NodePool is being deleted", nil
	}
	var why *status.Condition
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		switch {
		case c.Type == status.ConditionReady && c.Status == metav1.ConditionTrue:
			return "", "", nil
		case c.Type == karpv1.ConditionTypeNodeRegistrationHealthy || c.Status == metav1.ConditionTrue:
		case why == nil || why.Type == status.ConditionReady:
			why = c
		}
	}
	if why == nil {
		return reason.NodePoolNotReady, "its conditions have not been evaluated yet", nil
	}
	saying := why.Type + " is " + string(why.Status) + ": " + why.Reason
	if why.Message != "" {
		saying += ": " + why.Message
	}
	return reason.NodePoolNotReady, saying, reason.FactsOf(map[string]any{"condition": why.Type, "status": string(why.Status), "reason": why.Reason})
}

// Daemon converts a DaemonSet to the pod that it puts on every matching node, by its template.
func Daemon(d *appsv1.DaemonSet) cluster.DaemonSet {
	spec := &d.Spec.Template.Spec
	required, anyOf := affinity(spec)
	return cluster.DaemonSet{
		PodRef:      cluster.PodRef{Namespace: d.Namespace, Name: d.Name, UID: string(d.UID)},
		Requests:    Requests(&corev1.Pod{Spec: *spec}),
		Required:    required,
		AnyOf:       anyOf,
		Tolerations: append(tolerations(spec.Tolerations), daemonTolerations(spec.HostNetwork)...),
		Ports:       hostPorts(spec),
	}
}

// DaemonFromPod is Daemon with the requests, node selector, tolerations and ports of a pod that the
// DaemonSet has already, since admission may have changed them. The node affinity of that pod
// names its own node, so the template's is used. pod may be nil.
func DaemonFromPod(d *appsv1.DaemonSet, pod *corev1.Pod) cluster.DaemonSet {
	w := Daemon(d)
	if pod != nil {
		w.Requests = Requests(pod)
		w.Required = selector(pod.Spec.NodeSelector)
		w.Tolerations = tolerations(pod.Spec.Tolerations)
		w.Ports = hostPorts(&pod.Spec)
	}
	return w
}

// daemonTolerations are the tolerations that the DaemonSet controller adds to its pods.
func daemonTolerations(hostNetwork bool) []cluster.Toleration {
	all := []cluster.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: cluster.NoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: "Exists", Effect: cluster.NoExecute},
	}
	keys := []string{
		corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable,
	}
	if hostNetwork {
		keys = append(keys, corev1.TaintNodeNetworkUnavailable)
	}
	for _, key := range keys {
		all = append(all, cluster.Toleration{Key: key, Operator: "Exists", Effect: cluster.NoSchedule})
	}
	return all
}
