package kube

import (
	"cmp"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// generationOfPod and generationOfSet are where the DaemonSet controller records the version of
// the template that a pod was created from.
const (
	generationOfPod = "pod-template-generation"
	generationOfSet = appsv1.DeprecatedTemplateGeneration
)

// daemonSet is a DaemonSet with its pods. Either may be known before the other.
type daemonSet struct {
	set    *appsv1.DaemonSet // nil until an event shows it
	pods   map[string]*corev1.Pod
	newest *corev1.Pod        // of the current template; nil when there is none
	told   *cluster.DaemonSet // what was last written to the Snapshot
}

// SetDaemon adds or replaces a DaemonSet.
func (m *Mirror) SetDaemon(d *appsv1.DaemonSet) {
	m.change(func() news { return m.setDaemon(d) })
}

func (m *Mirror) setDaemon(d *appsv1.DaemonSet) news {
	x := m.daemonSet(string(d.UID))
	x.set = d
	x.choose()
	m.tellDaemon(x)
	return news{}
}

// RemoveDaemon forgets a DaemonSet.
func (m *Mirror) RemoveDaemon(d *appsv1.DaemonSet) {
	m.change(func() news { return m.removeDaemon(d) })
}

func (m *Mirror) removeDaemon(d *appsv1.DaemonSet) news {
	uid := string(d.UID)
	if x := m.daemonSets[uid]; x != nil {
		x.set, x.told = nil, nil
		m.tidyDaemon(uid, x)
	}
	m.moved()
	m.builder.RemoveDaemon(uid)
	return news{}
}

func (m *Mirror) daemonSet(uid string) *daemonSet {
	x := m.daemonSets[uid]
	if x == nil {
		x = &daemonSet{pods: map[string]*corev1.Pod{}}
		m.daemonSets[uid] = x
	}
	return x
}

func (m *Mirror) tidyDaemon(uid string, x *daemonSet) {
	if x.set == nil && len(x.pods) == 0 {
		delete(m.daemonSets, uid)
	}
}

// noteDaemonPod records a pod that may belong to a DaemonSet.
func (m *Mirror) noteDaemonPod(p *corev1.Pod) {
	uid, owner := string(p.UID), ownerUID(p, "apps/v1", "DaemonSet")
	gone := owner == "" || Terminal(p) || p.DeletionTimestamp != nil
	if gone || m.daemonOf[uid] != owner {
		m.forgetDaemonPod(uid)
	}
	if gone {
		return
	}
	x := m.daemonSet(owner)
	x.pods[uid], m.daemonOf[uid] = p, owner
	if x.current(p) && (x.newest == nil || x.newest.UID == p.UID || newer(p, x.newest)) {
		x.newest = p
		m.tellDaemon(x)
	}
}

// forgetDaemonPod removes a pod from the DaemonSet that it was recorded with, if any. The pod may
// have lost that owner since.
func (m *Mirror) forgetDaemonPod(uid string) {
	owner, noted := m.daemonOf[uid]
	if !noted {
		return
	}
	delete(m.daemonOf, uid)
	x := m.daemonSets[owner]
	delete(x.pods, uid)
	if x.newest != nil && string(x.newest.UID) == uid {
		x.choose()
		m.tellDaemon(x)
	}
	m.tidyDaemon(owner, x)
}

// choose sets newest to the newest pod created from the current template.
func (x *daemonSet) choose() {
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

// tellDaemon updates the Snapshot about a DaemonSet. Most events change nothing there, and a
// change causes every node to be looked at again. Pods that need devices by dynamic resource
// allocation run where those devices are; no such devices are known on nodes that could be
// launched, so these DaemonSets are left out.
func (m *Mirror) tellDaemon(x *daemonSet) {
	if x.set == nil {
		return
	}
	if len(x.set.Spec.Template.Spec.ResourceClaims) > 0 {
		if x.told != nil {
			m.moved()
			m.builder.RemoveDaemon(string(x.set.UID))
			x.told = nil
		}
		return
	}
	w := daemonLike(x.set, x.newest)
	if x.told != nil && reflect.DeepEqual(*x.told, w) {
		return
	}
	x.told = &w
	m.moved()
	m.builder.SetDaemon(w)
}
