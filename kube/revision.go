package kube

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Revision is another number whenever the World, or anything else that decisions about
// nodes look at, may have changed: machines, who blocks them, pools, budgets, prices.
// What kubelets report every few seconds does not move it. It says nothing of what time
// alone changes.
func (m *Mirror) Revision() uint64 { return m.revision.Load() }

func (m *Mirror) moved() { m.revision.Add(1) }

// notePod moves the revision when something about a bound pod changed that is not part
// of the World.
func (m *Mirror) notePod(old, now *corev1.Pod) {
	if old == nil || now.Spec.NodeName == "" || old.Spec.NodeName != now.Spec.NodeName {
		return // that is news to the World
	}
	if standingOf(old) != standingOf(now) {
		m.moved()
	}
}

// standing is what decisions about nodes ask of a pod besides what it needs.
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

// noteClaim does the same for a claim: everything that is written there matters to
// somebody, and nobody writes without need.
func (m *Mirror) noteClaim(old, now *karpv1.NodeClaim) {
	if old == nil || now.ResourceVersion == "" || old.ResourceVersion != now.ResourceVersion {
		m.moved()
	}
}

// newsOfPool reports whether the pool says something else about losing nodes. Its status
// counts its nodes, and changes with each.
func newsOfPool(old, now *karpv1.NodePool) bool {
	return old == nil || !maps.Equal(old.Annotations, now.Annotations) ||
		!reflect.DeepEqual(old.Spec.Disruption, now.Spec.Disruption) || !reflect.DeepEqual(old.Spec.Replicas, now.Spec.Replicas)
}
