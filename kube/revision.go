package kube

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Revision changes whenever the Snapshot, or anything else that decisions about nodes read, may
// have changed: nodes, what blocks their disruption, pools, budgets, prices. Routine kubelet
// reports every few seconds do not change it. It does not reflect changes that time alone causes.
func (m *Mirror) Revision() uint64 { return m.revision.Load() }

func (m *Mirror) moved() { m.revision.Add(1) }

// notePod increments the revision when something about a bound pod changed that is not part of
// the Snapshot.
func (m *Mirror) notePod(old, now *corev1.Pod) {
	if old == nil || now.Spec.NodeName == "" || old.Spec.NodeName != now.Spec.NodeName {
		return // the Snapshot changes, and with it the revision
	}
	if standingOf(old) != standingOf(now) {
		m.moved()
	}
}

// standing is what decisions about nodes read of a pod besides its requirements.
type standing struct {
	phase           corev1.PodPhase
	ready, going    bool
	asks, cost      string
	started, asksIt bool
}

func standingOf(p *corev1.Pod) standing {
	asks, has := annotated(p)
	return standing{
		phase: p.Status.Phase, ready: podReady(p), going: p.DeletionTimestamp != nil,
		asks: asks, asksIt: has, cost: p.Annotations[corev1.PodDeletionCost], started: p.Status.StartTime != nil,
	}
}

func annotated(p *corev1.Pod) (value string, ok bool) {
	value, ok = p.Annotations[karpv1.DoNotDisruptAnnotationKey]
	return value, ok
}

// noteNode does the same for a node.
func (m *Mirror) noteNode(old, now *corev1.Node) {
	if old == nil || Ready(old) != Ready(now) ||
		old.Annotations[karpv1.DoNotDisruptAnnotationKey] != now.Annotations[karpv1.DoNotDisruptAnnotationKey] {
		m.moved()
	}
}

// noteClaim does the same for a claim: every change counts, since claims are written only when
// something changed.
func (m *Mirror) noteClaim(old, now *karpv1.NodeClaim) {
	if old == nil || now.ResourceVersion == "" || old.ResourceVersion != now.ResourceVersion {
		m.moved()
	}
}

// newsOfPool reports whether the pool's settings for disruption changed. Its status has its node
// count, and changes with each node.
func newsOfPool(old, now *karpv1.NodePool) bool {
	return old == nil || !maps.Equal(old.Annotations, now.Annotations) ||
		!reflect.DeepEqual(old.Spec.Disruption, now.Spec.Disruption) || !reflect.DeepEqual(old.Spec.Replicas, now.Spec.Replicas)
}
