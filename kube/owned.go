package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnerOf is the UID of the controller that recreates the pod when it is evicted, or empty.
func OwnerOf(p *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		return ref.UID
	}
	return ""
}

// PromisedTo lists the pods that were promised capacity on a node, by its key, in no particular
// order. The objects are shared and must not be changed.
func (m *Mirror) PromisedTo(key string) []*corev1.Pod {
	m.lock()
	defer m.mu.Unlock()
	pods := make([]*corev1.Pod, 0, len(m.promised[key]))
	for uid := range m.promised[key] {
		pods = append(pods, m.pods[uid])
	}
	return pods
}

// Strength counts the pods of each owner. Terminating and finished pods, and pods whose
// replacements are on their way, do not count. Owners without pods are left out.
//
// It goes through all pods: call it rarely, and for all owners at once.
func (m *Mirror) Strength(owners map[types.UID]bool) map[types.UID]int {
	m.lock()
	defer m.mu.Unlock()
	count := map[types.UID]int{}
	for uid, p := range m.pods {
		if owner := OwnerOf(p); owners[owner] && p.DeletionTimestamp == nil && !Terminal(p) && !m.superseded[uid] {
			count[owner]++
		}
	}
	return count
}
