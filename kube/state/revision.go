// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// revision counts the changes of the Snapshot, and of anything else that decisions about nodes
// read. The functions below say which changes count that the Snapshot does not show.
type revision struct{ n atomic.Uint64 }

func (r *revision) increment() { r.n.Add(1) }

// incrementIf increments the revision if changed is set.
func (r *revision) incrementIf(changed bool) {
	if changed {
		r.increment()
	}
}

// podChanged reports whether something about a bound pod changed that is not part of the
// Snapshot.
func podChanged(old, now *knownPod) bool {
	if old == nil || now.Spec.NodeName == "" || old.Spec.NodeName != now.Spec.NodeName {
		return false // the Snapshot changes, and with it the revision
	}
	return old.facts != now.facts
}

// nodeChanged does the same for a node.
func nodeChanged(old, now *corev1.Node) bool {
	return old == nil || kube.Ready(old) != kube.Ready(now) ||
		old.Annotations[karpv1.DoNotDisruptAnnotationKey] != now.Annotations[karpv1.DoNotDisruptAnnotationKey]
}

// claimChanged does the same for a claim: every change counts, since claims are written only when
// something changed.
func claimChanged(old, now *karpv1.NodeClaim) bool {
	return old == nil || now.ResourceVersion == "" || old.ResourceVersion != now.ResourceVersion
}

// poolChanged reports whether the pool's settings for disruption changed. Its status has its node
// count, and changes with each node.
func poolChanged(old, now *karpv1.NodePool) bool {
	return old == nil || !maps.Equal(old.Annotations, now.Annotations) ||
		!reflect.DeepEqual(old.Spec.Disruption, now.Spec.Disruption) || !reflect.DeepEqual(old.Spec.Replicas, now.Spec.Replicas)
}
