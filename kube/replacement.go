package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// replacements is who comes for whom: karve asks a pod to leave its node, and its owner makes
// another one in its place. Between the two nobody is pending, and yet room is needed:
// until its heir is there, and the scheduler has given up on it, the old pod stands for it.
type replacements struct {
	heirless map[types.UID]map[string]bool // owner → UIDs of displaced pods for which nobody has come
	// owners are the keys under which displaced pods are in heirless. A pod can lose its
	// owner while it leaves; the owner makes another all the same.
	owners map[string]types.UID
	heirs  map[string]string // UID of a displaced pod → its heir's, empty while there is none
	heirOf map[string]string // the reverse
}

func newReplacements() replacements {
	return replacements{heirless: map[types.UID]map[string]bool{}, owners: map[string]types.UID{}, heirs: map[string]string{}, heirOf: map[string]string{}}
}

// Displace says that the pod is about to be asked to leave its node, so that its owner will
// make another. Say it before asking. A pod of an owner that may not do so at once, or at
// all, is passed over. It holds until the pod is gone.
func (m *Mirror) BeginEviction(p *corev1.Pod) {
	m.change(func() news { m.displace(p); return news{} })
}

func (m *Mirror) displace(p *corev1.Pod) {
	uid := string(p.UID)
	if _, known := m.replacements.heirs[uid]; known || m.pods[uid] == nil || m.superseded[uid] || !replacedAtOnce(p) {
		return
	}
	m.replacements.heirs[uid] = ""
	m.replacements.owners[uid] = OwnerOf(p)
	set(m.replacements.heirless, OwnerOf(p), uid)
	m.tellPod(uid)
}

// replacedAtOnce reports whether the pod's owner makes another as soon as the pod is
// terminating. (That of a StatefulSet's pod has its name, and comes when it is gone.)
func replacedAtOnce(p *corev1.Pod) bool {
	return ownedBy(p, "apps/v1", "ReplicaSet") || ownedBy(p, "v1", "ReplicationController")
}

// standsIn reports whether a terminating pod stands for the one that will take its place.
func (m *Mirror) standsIn(p *corev1.Pod) bool {
	_, displaced := m.replacements.heirs[string(p.UID)]
	return displaced && p.DeletionTimestamp != nil && !m.superseded[string(p.UID)]
}

// welcome finds out for whom a new pod comes. Owners do not say, and it does not matter:
// their pods are alike.
func (m *Mirror) matchReplacement(p *corev1.Pod) {
	owner := OwnerOf(p)
	for _, uid := range slices.Sorted(maps.Keys(m.replacements.heirless[owner])) {
		if m.pods[uid].DeletionTimestamp == nil {
			continue // it was not asked yet, or a disruption budget keeps it
		}
		m.replacements.heirs[uid], m.replacements.heirOf[string(p.UID)] = string(p.UID), uid
		m.replacements.awaitsNone(uid)
		return
	}
}

// awaitsNone records that no pod is to come in the place of this one any more.
func (s *replacements) awaitsNone(uid string) {
	unset(s.heirless, s.owners[uid], uid)
	delete(s.owners, uid)
}

// enthrone lets an heir speak for itself as soon as the World can know of it: it has a node,
// room is promised to the pod it comes for, or the scheduler found none.
func (m *Mirror) replaced(heir *corev1.Pod) {
	uid := string(heir.UID)
	old, ok := m.replacements.heirOf[uid]
	if !ok {
		return
	}
	bound := heir.Spec.NodeName != ""
	key, promised := m.promises[old]
	if m.pods[old] != nil && !m.superseded[old] && (bound || promised || Provisionable(heir)) {
		m.superseded[old] = true
		m.breakPromise(old)
		m.tellPod(old)
		if promised && !bound {
			m.promises[uid] = key
			set(m.promised, key, uid)
			m.tellPod(uid)
		}
	}
	if bound {
		delete(m.replacements.heirOf, uid)
	}
}

// speaksFor is who needs the room that is promised to the pod.
func (m *Mirror) replacementOf(uid string) string {
	if heir := m.replacements.heirs[uid]; heir != "" && m.superseded[uid] {
		return heir
	}
	return uid
}

// comesFor is the pod whose place the pod takes, itself when it takes nobody's.
func (m *Mirror) replaces(uid string) string {
	if old, heir := m.replacements.heirOf[uid]; heir {
		return old
	}
	return uid
}

// expected reports whether room is promised to an heir that the scheduler has not tried yet.
func (m *Mirror) expected(p *corev1.Pod) bool {
	_, heir := m.replacements.heirOf[string(p.UID)]
	return heir && m.promises[string(p.UID)] != "" && p.DeletionTimestamp == nil && p.Status.NominatedNodeName == ""
}

// bury forgets a pod that is gone, whichever side it was on. Should an heir go, whoever
// comes next is a pod like any other.
func (m *Mirror) forgetReplacement(uid string) {
	m.replacements.awaitsNone(uid)
	delete(m.replacements.heirs, uid)
	if old := m.replacements.heirOf[uid]; m.replacements.heirs[old] == uid {
		m.replacements.heirs[old] = ""
	}
	delete(m.replacements.heirOf, uid)
}
