// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// Pod converts a pod as it is at a given moment (do-not-disrupt durations run out). Node is left
// empty while the pod is unbound, whether or not a node should be launched for it (see
// Provisionable). Volumes are left empty too: only Storage can resolve the pod's
// PersistentVolumeClaims.
//
// Values that need no conversion are shared with p, which must not change afterwards.
func Pod(p *corev1.Pod, now time.Time) cluster.Pod { return (*Converter)(nil).Pod(p, now) }

// Pod is the function Pod; the result may share values with pods converted before.
func (k *Converter) Pod(p *corev1.Pod, now time.Time) cluster.Pod {
	required, anyOf := affinity(&p.Spec)
	w := cluster.Pod{
		PodRef:           Ref(p),
		Created:          p.CreationTimestamp.Time,
		Priority:         ptr.Deref(p.Spec.Priority, 0),
		Labels:           p.Labels,
		Requests:         k.requests(p),
		Required:         required,
		AnyOf:            anyOf,
		Tolerations:      tolerations(p.Spec.Tolerations),
		Preferred:        preferences(p.Spec.Affinity),
		Ports:            hostPorts(&p.Spec),
		Node:             p.Spec.NodeName,
		DaemonSet:        DaemonSetOf(p),
		ReschedulableNow: p.Spec.NodeName != "" && ReschedulableNow(p, now),
		Terminating:      p.DeletionTimestamp != nil,
		Owner:            string(OwnerOf(p)),
	}
	k.topologyConstraints(&w, p)
	refusalOf(&p.Spec).applyTo(&w)
	return w
}

// Ref returns the namespace, name and UID of a pod.
func Ref(p *corev1.Pod) cluster.PodRef {
	return cluster.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// Provisionable reports whether capacity should be sought for the pod: the scheduler found it
// unschedulable and no preemption frees capacity for it.
func Provisionable(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" &&
		unschedulable(p) &&
		p.Status.NominatedNodeName == "" && // a preemption is under way
		p.DeletionTimestamp == nil && !Terminal(p) &&
		!OwnedByDaemonSet(p) && !OwnedByNode(p)
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

// ReschedulableNow reports whether a bound pod needs a new node when its node is removed, and may
// be disrupted now. A terminating pod needs none, except that the replacement of a StatefulSet's
// pod takes over its identity and so its requests.
func ReschedulableNow(p *corev1.Pod, now time.Time) bool {
	return !DoNotDisrupt(p, now) && Reschedulable(p)
}

// Reschedulable reports whether a pod needs a new node when its node is removed, whatever its
// annotations ask for.
func Reschedulable(p *corev1.Pod) bool {
	if Terminal(p) || OwnedByDaemonSet(p) || OwnedByNode(p) {
		return false
	}
	return p.DeletionTimestamp == nil || ownedBy(p, "apps/v1", "StatefulSet")
}

// EvictableUnlessProtected reports whether draining the pod's node evicts the pod unless
// do-not-disrupt protects it: it runs, is not a mirror pod, and does not tolerate the disruption
// taint.
func EvictableUnlessProtected(p *corev1.Pod) bool {
	return !Terminal(p) && p.DeletionTimestamp == nil && !OwnedByNode(p) && !ToleratesDisruption(p)
}

// ToleratesDisruption reports whether the pod tolerates the taint of a node that is drained.
func ToleratesDisruption(p *corev1.Pod) bool {
	for i := range p.Spec.Tolerations {
		if Tolerates(p.Spec.Tolerations[i], karpv1.DisruptedNoScheduleTaint) {
			return true
		}
	}
	return false
}

// PodReady reports whether the kubelet reports the pod as ready.
func PodReady(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// OwnerOf is the UID of the controller that recreates the pod when it is evicted, or empty.
func OwnerOf(p *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		return ref.UID
	}
	return ""
}

// ReplacedAtOnce reports whether the pod's owner creates another pod as soon as this one is
// terminating. (The replacement of a StatefulSet's pod has the same name, and is created when
// the old pod is deleted.)
func ReplacedAtOnce(p *corev1.Pod) bool {
	return ownedBy(p, "apps/v1", "ReplicaSet") || ownedBy(p, "v1", "ReplicationController")
}

// DaemonSetOf is the UID of the DaemonSet that put the pod on its node, or empty.
func DaemonSetOf(p *corev1.Pod) string { return ownerUID(p, "apps/v1", "DaemonSet") }

// OwnedByDaemonSet reports whether a DaemonSet put the pod on its node.
func OwnedByDaemonSet(p *corev1.Pod) bool { return DaemonSetOf(p) != "" }

// OwnedByNode reports whether the kubelet runs the pod from a file (a mirror pod).
func OwnedByNode(p *corev1.Pod) bool { return ownedBy(p, "v1", "Node") }

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
