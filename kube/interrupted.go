package kube

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// interruptedOwners are owners that lost a pod with its machine before there was room for another, and
// when: pods with little or no grace are gone before any plan is made. Owners do not say
// for whom a pod comes, so all that an owner makes within bereftFor come in that place.
type interruptedOwners map[types.UID]time.Time

// bereftFor is longer than owners and the scheduler take until a pod is known to need room.
const bereftFor = time.Minute

// mourn remembers the owner of a pod that is gone, if it is bereft by that. The Mirror still
// knows the pod.
func (m *Mirror) noteInterrupted(p *corev1.Pod) {
	owner := OwnerOf(p)
	if owner == "" || OwnedByDaemonSet(p) || Terminal(p) && p.DeletionTimestamp == nil || !m.interrupted(p) || m.roomFor(string(p.UID)) {
		return
	}
	now := time.Now()
	m.interruptedOwners.comfort(now)
	m.interruptedOwners[owner] = now
}

// comfort forgets the owners that have had the time to make other pods.
func (b interruptedOwners) comfort(now time.Time) {
	maps.DeleteFunc(b, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= bereftFor })
}

// roomFor reports whether there is room for who needs it in the pod's place.
func (m *Mirror) roomFor(uid string) bool {
	needy := m.replacementOf(uid)
	if _, promised := m.promises[needy]; promised {
		return true
	}
	heir := m.pods[needy]
	return needy != uid && heir != nil && heir.Spec.NodeName != ""
}

// interrupted reports whether the pod's machine goes without being asked.
func (m *Mirror) interrupted(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && Interrupted(m.claims[m.keyOf(p.Spec.NodeName)])
}

// urgent reports whether the pod runs on a machine that goes without being asked, or comes in
// the place of one that does or did.
func (m *Mirror) urgent(p *corev1.Pod) bool {
	if old := m.pods[m.replaces(string(p.UID))]; old != nil && m.interrupted(old) {
		return true
	}
	since, lost := m.interruptedOwners[OwnerOf(p)]
	return lost && p.Spec.NodeName == "" && time.Since(since) < bereftFor
}
