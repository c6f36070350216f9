// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/kube"
)

// knownPod is a pod as it was shown last, with the facts that were read from it.
type knownPod struct {
	*corev1.Pod
	facts kube.PodFacts
}

// mayBeBound reports whether the scheduler may yet bind the unbound pod without any preemption.
func (p *knownPod) mayBeBound() bool {
	return !p.facts.Terminating && p.Status.NominatedNodeName == ""
}

// usesVolumes reports whether the pod, which may be nil, is bound and has not ended.
func (p *knownPod) usesVolumes() bool {
	return p != nil && p.Spec.NodeName != "" && !p.facts.Terminal
}

// stays reports whether the pod is neither terminating nor finished.
func (p *knownPod) stays() bool { return !p.facts.Terminating && !p.facts.Terminal }

// podStore holds the pods of the cluster by UID, and finds them by node.
type podStore struct {
	byUID       map[string]*knownPod
	onNode      map[string]map[string]*knownPod // node name → pods by UID
	inNamespace map[string]int                  // namespace → how many pods
	staying     map[types.UID]int               // owner → its pods that stay
}

func newPodStore() *podStore {
	return &podStore{
		byUID: map[string]*knownPod{}, onNode: map[string]map[string]*knownPod{},
		inNamespace: map[string]int{}, staying: map[types.UID]int{},
	}
}

// get is the pod with that UID, or nil.
func (s *podStore) get(uid string) *knownPod { return s.byUID[uid] }

// set adds or replaces a pod. It returns the pod as it was before, nil for a new one, and as it is
// now.
func (s *podStore) set(p *corev1.Pod) (old, now *knownPod) {
	uid := string(p.UID)
	old = s.byUID[uid]
	if old != nil && old.Spec.NodeName != p.Spec.NodeName {
		remove(s.onNode, old.Spec.NodeName, uid)
	}
	now = &knownPod{p, kube.PodFactsOf(p)}
	s.byUID[uid] = now
	s.count(old, -1)
	s.count(now, 1)
	if old == nil {
		s.inNamespace[p.Namespace]++
	}
	if p.Spec.NodeName != "" {
		put(s.onNode, p.Spec.NodeName, uid, now)
	}
	return old, now
}

// remove forgets a pod.
func (s *podStore) remove(p *corev1.Pod) {
	uid := string(p.UID)
	if old := s.byUID[uid]; old != nil {
		remove(s.onNode, old.Spec.NodeName, uid)
		s.count(old, -1)
		if s.inNamespace[p.Namespace]--; s.inNamespace[p.Namespace] == 0 {
			delete(s.inNamespace, p.Namespace)
		}
	}
	delete(s.byUID, uid)
}

// count adds a pod, which may be nil, to its owner's that stay, or subtracts it (by is 1 or -1).
func (s *podStore) count(p *knownPod, by int) {
	if p == nil || !p.stays() {
		return
	}
	if s.staying[p.facts.Owner] += by; s.staying[p.facts.Owner] == 0 {
		delete(s.staying, p.facts.Owner)
	}
}

// on is the pods bound to a node, which is given by its name, by UID.
func (s *podStore) on(node string) map[string]*knownPod { return s.onNode[node] }

// listOn is the pods bound to a node, in no particular order.
func (s *podStore) listOn(node string) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(s.onNode[node]))
	for _, p := range s.onNode[node] {
		out = append(out, p.Pod)
	}
	return out
}

// anyIn reports whether a namespace has pods.
func (s *podStore) anyIn(namespace string) bool { return s.inNamespace[namespace] > 0 }

// nodeNames lists the names of the nodes that pods are bound to.
func (s *podStore) nodeNames() []string {
	return slices.AppendSeq(make([]string, 0, len(s.onNode)), maps.Keys(s.onNode))
}

// list is the pods with those UIDs, in no particular order.
func (s *podStore) list(uids map[string]bool) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(uids))
	for uid := range uids {
		out = append(out, s.byUID[uid].Pod)
	}
	return out
}

// set and unset keep a map of sets: a set without members is deleted.
func set[K, M comparable](sets map[K]map[M]bool, key K, member M) { put(sets, key, member, true) }

func unset[K, M comparable](sets map[K]map[M]bool, key K, member M) { remove(sets, key, member) }

// put and remove keep a map of maps: a map without entries is deleted.
func put[K, M comparable, V any](outer map[K]map[M]V, key K, member M, value V) {
	if outer[key] == nil {
		outer[key] = map[M]V{}
	}
	outer[key][member] = value
}

func remove[K, M comparable, V any](outer map[K]map[M]V, key K, member M) {
	delete(outer[key], member)
	if len(outer[key]) == 0 {
		delete(outer, key)
	}
}
