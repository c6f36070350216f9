package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// replacements pairs evicted pods with the pods that replace them: karve evicts a pod, and its
// owner creates another one. Until the scheduler has found the new pod unschedulable no pod is
// pending, and yet capacity is needed. Until then the evicted pod counts in its place.
type replacements struct {
	heirless map[types.UID]map[string]bool // owner → UIDs of evicted pods without replacement
	// owners has, for each evicted pod in heirless, the owner it is listed under. A pod can lose
	// its owner while it terminates; the owner creates another pod all the same.
	owners map[string]types.UID
	heirs  map[string]string // UID of an evicted pod → its replacement's, empty while none
	heirOf map[string]string // the reverse
}

func newReplacements() replacements {
	return replacements{heirless: map[types.UID]map[string]bool{}, owners: map[string]types.UID{}, heirs: map[string]string{}, heirOf: map[string]string{}}
}

// BeginEviction records that the pod is about to be evicted, so that its owner will create a
// replacement. Call it before the eviction. It ignores a pod whose owner does not create a
// replacement at once, or does not create one at all. The record holds until the pod is gone.
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

// replacedAtOnce reports whether the pod's owner creates another pod as soon as this one is
// terminating. (The replacement of a StatefulSet's pod has the same name, and is created when the
// old pod is gone.)
func replacedAtOnce(p *corev1.Pod) bool {
	return ownedBy(p, "apps/v1", "ReplicaSet") || ownedBy(p, "v1", "ReplicationController")
}

// standsIn reports whether a terminating pod counts in place of its replacement.
func (m *Mirror) standsIn(p *corev1.Pod) bool {
	_, displaced := m.replacements.heirs[string(p.UID)]
	return displaced && p.DeletionTimestamp != nil && !m.superseded[string(p.UID)]
}

// matchReplacement finds the evicted pod that a new pod replaces. Owners do not say which, and it
// does not matter: the pods of one owner are alike.
func (m *Mirror) matchReplacement(p *corev1.Pod) {
	owner := OwnerOf(p)
	for _, uid := range slices.Sorted(maps.Keys(m.replacements.heirless[owner])) {
		if m.pods[uid].DeletionTimestamp == nil {
			continue // it is not evicted yet, or a disruption budget holds it
		}
		m.replacements.heirs[uid], m.replacements.heirOf[string(p.UID)] = string(p.UID), uid
		m.replacements.awaitsNone(uid)
		return
	}
}

// awaitsNone records that no replacement is expected for this pod any more.
func (s *replacements) awaitsNone(uid string) {
	unset(s.heirless, s.owners[uid], uid)
	delete(s.owners, uid)
}

// replaced makes a replacement pod count instead of the evicted one, as soon as the Snapshot can
// show it: it is bound, capacity is promised to the pod it replaces, or the scheduler found it
// unschedulable.
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

// replacementOf is the pod that takes over capacity promised to this one: its replacement once
// that counts, else the pod itself.
func (m *Mirror) replacementOf(uid string) string {
	if heir := m.replacements.heirs[uid]; heir != "" && m.superseded[uid] {
		return heir
	}
	return uid
}

// replaces is the pod that this pod replaces, or the pod itself when it replaces none.
func (m *Mirror) replaces(uid string) string {
	if old, heir := m.replacements.heirOf[uid]; heir {
		return old
	}
	return uid
}

// expected reports whether capacity is promised to a replacement pod that the scheduler has not
// tried yet.
func (m *Mirror) expected(p *corev1.Pod) bool {
	_, heir := m.replacements.heirOf[string(p.UID)]
	return heir && m.promises[string(p.UID)] != "" && p.DeletionTimestamp == nil && p.Status.NominatedNodeName == ""
}

// forgetReplacement forgets a pod that is gone, whether it was evicted or a replacement. If a
// replacement goes, the next pod of its owner is treated like any other.
func (m *Mirror) forgetReplacement(uid string) {
	m.replacements.awaitsNone(uid)
	delete(m.replacements.heirs, uid)
	if old := m.replacements.heirOf[uid]; m.replacements.heirs[old] == uid {
		m.replacements.heirs[old] = ""
	}
	delete(m.replacements.heirOf, uid)
}
