package kube

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// interruptedOwners are owners that lost a pod together with its node before capacity for a
// replacement was found, and when. Pods with little or no grace period are gone before any plan
// is made. Owners do not say which pod a new one replaces, so all pods that an owner creates
// within bereftFor count as replacements.
type interruptedOwners map[types.UID]time.Time

// bereftFor is longer than owners and the scheduler take until a pod is known to need capacity.
const bereftFor = time.Minute

// noteInterrupted records the owner of a pod that went with its interrupted node, unless there is
// capacity for the replacement. Call it while the Mirror still has the pod.
func (m *Mirror) noteInterrupted(p *corev1.Pod) {
	owner := OwnerOf(p)
	if owner == "" || OwnedByDaemonSet(p) || Terminal(p) && p.DeletionTimestamp == nil || !m.interrupted(p) || m.roomFor(string(p.UID)) {
		return
	}
	now := time.Now()
	m.interruptedOwners.comfort(now)
	m.interruptedOwners[owner] = now
}

// comfort forgets the owners that lost their pod bereftFor ago or earlier.
func (b interruptedOwners) comfort(now time.Time) {
	maps.DeleteFunc(b, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= bereftFor })
}

// roomFor reports whether there is capacity for the pod or its replacement: promised, or because
// the replacement is bound.
func (m *Mirror) roomFor(uid string) bool {
	needy := m.replacementOf(uid)
	if _, promised := m.promises[needy]; promised {
		return true
	}
	heir := m.pods[needy]
	return needy != uid && heir != nil && heir.Spec.NodeName != ""
}

// interrupted reports whether the cloud interrupts the pod's node.
func (m *Mirror) interrupted(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && Interrupted(m.claims[m.keyOf(p.Spec.NodeName)])
}

// urgent reports whether the pod runs on an interrupted node, or replaces a pod that does or did.
func (m *Mirror) urgent(p *corev1.Pod) bool {
	if old := m.pods[m.replaces(string(p.UID))]; old != nil && m.interrupted(old) {
		return true
	}
	since, lost := m.interruptedOwners[OwnerOf(p)]
	return lost && p.Spec.NodeName == "" && time.Since(since) < bereftFor
}
