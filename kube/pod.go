package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// Pod converts a pod as it is at a given moment (do-not-disrupt durations run out). Node is left
// empty while the pod is unbound, whether or not a node should be launched for it (see
// Provisionable). Volumes are left empty too: only Storage can resolve the pod's claims.
//
// Values that need no conversion are shared with p, which must not change afterwards.
func Pod(p *corev1.Pod, now time.Time) cluster.Pod { return (*Converter)(nil).Pod(p, now) }

// Pod is the function Pod; the result may share values with pods converted before.
func (k *Converter) Pod(p *corev1.Pod, now time.Time) cluster.Pod {
	required, anyOf := affinity(&p.Spec)
	daemon := ownerUID(p, "apps/v1", "DaemonSet")
	w := cluster.Pod{
		PodRef:      Ref(p),
		Created:     p.CreationTimestamp.Time,
		Priority:    valueOr(p.Spec.Priority, 0),
		Labels:      p.Labels,
		Requests:    k.requests(p),
		Required:    required,
		AnyOf:       anyOf,
		Tolerations: tolerations(p.Spec.Tolerations),
		Preferred:   preferences(p.Spec.Affinity),
		Ports:       hostPorts(&p.Spec),
		Node:        p.Spec.NodeName,
		DaemonSet:   daemon,
		Movable:     p.Spec.NodeName != "" && Movable(p, now),
		Terminating: p.DeletionTimestamp != nil,
	}
	k.neighbours(&w, p)
	refusal(&p.Spec).deny(&w)
	return w
}

// Ref returns the namespace, name and UID of a pod.
func Ref(p *corev1.Pod) cluster.PodRef {
	return cluster.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// Provisionable reports whether capacity should be sought for the pod: the scheduler found it
// unschedulable and no preemption makes room for it.
func Provisionable(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" &&
		unschedulable(p) &&
		p.Status.NominatedNodeName == "" && // a preemption is under way
		p.DeletionTimestamp == nil && !Terminal(p) &&
		!OwnedByDaemonSet(p) && !Static(p)
}

func unschedulable(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// Terminal reports whether the pod has finished and holds no resources any more.
func Terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Movable reports whether a bound pod needs a new node when its node goes and may be disturbed
// now. A terminating pod needs none, except that the replacement of a StatefulSet's pod takes
// over its identity and so its requests.
func Movable(p *corev1.Pod, now time.Time) bool {
	return !DoNotDisrupt(p, now) && homeless(p)
}

// homeless reports whether a pod needs a new node when its node goes, whatever its annotations
// ask for.
func homeless(p *corev1.Pod) bool {
	if Terminal(p) || OwnedByDaemonSet(p) || Static(p) {
		return false
	}
	return p.DeletionTimestamp == nil || ownedBy(p, "apps/v1", "StatefulSet")
}

// DoNotDisrupt reports whether the pod's annotation forbids disruption: "true" always does, a
// duration does until that long after the pod started. A value that cannot be read forbids
// nothing.
func DoNotDisrupt(p *corev1.Pod, now time.Time) bool {
	value, ok := p.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if !ok {
		return false
	}
	if value == "true" {
		return true
	}
	d, err := protectedFor(value)
	if err != nil {
		return false
	}
	return p.Status.StartTime == nil || now.Before(p.Status.StartTime.Add(d))
}

// OwnedByDaemonSet reports whether a DaemonSet put the pod on its node.
func OwnedByDaemonSet(p *corev1.Pod) bool { return ownedBy(p, "apps/v1", "DaemonSet") }

// Static reports whether the pod belongs to the kubelet (mirror pods).
func Static(p *corev1.Pod) bool { return ownedBy(p, "v1", "Node") }

func ownedBy(p *corev1.Pod, apiVersion, kind string) bool {
	return ownerUID(p, apiVersion, kind) != ""
}

func ownerUID(p *corev1.Pod, apiVersion, kind string) string {
	for i := range p.OwnerReferences {
		if o := &p.OwnerReferences[i]; o.Kind == kind && o.APIVersion == apiVersion {
			return string(o.UID)
		}
	}
	return ""
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
