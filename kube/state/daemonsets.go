// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/kube"
)

// generationOfPod and generationOfSet are where the DaemonSet controller records the version of
// the template that a pod was created from.
const (
	generationOfPod = "pod-template-generation"
	generationOfSet = appsv1.DeprecatedTemplateGeneration
)

// daemonSets writes each DaemonSet to the snapshot as its newest pod shows it.
type daemonSets struct {
	byUID   map[string]*daemonSet
	ownerOf map[string]string // pod UID → UID of the DaemonSet that it is recorded with
	builder *builder
}

// daemonSet is a DaemonSet with its pods. Either may be known before the other.
type daemonSet struct {
	set    *appsv1.DaemonSet // nil until an event shows it
	pods   map[string]*corev1.Pod
	newest *corev1.Pod // of the current template; nil when there is none
}

func newDaemonSets(s *builder) *daemonSets {
	return &daemonSets{byUID: map[string]*daemonSet{}, ownerOf: map[string]string{}, builder: s}
}

// set adds or replaces a DaemonSet.
func (s *daemonSets) set(d *appsv1.DaemonSet) {
	x := s.get(string(d.UID))
	x.set = d
	x.chooseNewest()
	s.write(x)
}

// remove forgets a DaemonSet.
func (s *daemonSets) remove(d *appsv1.DaemonSet) {
	uid := string(d.UID)
	if x := s.byUID[uid]; x != nil {
		x.set = nil
		s.tidy(uid, x)
	}
	s.builder.removeDaemon(uid)
}

func (s *daemonSets) get(uid string) *daemonSet {
	x := s.byUID[uid]
	if x == nil {
		x = &daemonSet{pods: map[string]*corev1.Pod{}}
		s.byUID[uid] = x
	}
	return x
}

func (s *daemonSets) tidy(uid string, x *daemonSet) {
	if x.set == nil && len(x.pods) == 0 {
		delete(s.byUID, uid)
	}
}

// setPod records a pod that may belong to a DaemonSet.
func (s *daemonSets) setPod(p *knownPod) {
	uid, owner := string(p.UID), p.facts.DaemonSet
	gone := owner == "" || p.facts.Terminal || p.facts.Terminating
	if gone || s.ownerOf[uid] != owner {
		s.removePod(uid)
	}
	if gone {
		return
	}
	x := s.get(owner)
	x.pods[uid], s.ownerOf[uid] = p.Pod, owner
	if x.current(p.Pod) && (x.newest == nil || x.newest.UID == p.UID || newer(p.Pod, x.newest)) {
		x.newest = p.Pod
		s.write(x)
	}
}

// removePod removes a pod from the DaemonSet that it was recorded with, if any. The pod may have
// lost that owner since.
func (s *daemonSets) removePod(uid string) {
	owner, recorded := s.ownerOf[uid]
	if !recorded {
		return
	}
	delete(s.ownerOf, uid)
	x := s.byUID[owner]
	delete(x.pods, uid)
	if x.newest != nil && string(x.newest.UID) == uid {
		x.chooseNewest()
		s.write(x)
	}
	s.tidy(owner, x)
}

// write updates a DaemonSet in the snapshot. Pods that need devices by dynamic resource
// allocation run where those devices are; no such devices are known on nodes that could be
// launched, so these DaemonSets are left out.
func (s *daemonSets) write(x *daemonSet) {
	switch {
	case x.set == nil:
	case len(x.set.Spec.Template.Spec.ResourceClaims) > 0:
		s.builder.removeDaemon(string(x.set.UID))
	default:
		s.builder.setDaemon(kube.DaemonFromPod(x.set, x.newest))
	}
}

// chooseNewest sets newest to the newest pod created from the current template.
func (x *daemonSet) chooseNewest() {
	x.newest = nil
	for _, p := range x.pods {
		if x.current(p) && (x.newest == nil || newer(p, x.newest)) {
			x.newest = p
		}
	}
}

// current reports whether the pod was created from the current template, as far as the annotation
// and label say. After an update, pods of the old template say nothing about new nodes.
func (x *daemonSet) current(p *corev1.Pod) bool {
	if x.set == nil {
		return true
	}
	want, made := x.set.Annotations[generationOfSet], p.Labels[generationOfPod]
	return want == "" || made == "" || want == made
}

func newer(a, b *corev1.Pod) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID)) > 0
}
