package kube

import (
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// SetPod adds or replaces a pod. listed says that the pod existed before the watch began, so its
// binding does not count as activity on the node.
func (m *Mirror) SetPod(p *corev1.Pod, listed bool) {
	m.change(func() news { return m.setPod(p, listed) })
}

func (m *Mirror) setPod(p *corev1.Pod, listed bool) news {
	uid := string(p.UID)
	old := m.pods[uid]
	if !listed {
		m.noteActivity(old, p)
	}
	if old != nil && old.Spec.NodeName != p.Spec.NodeName {
		unset(m.podsOn, old.Spec.NodeName, uid)
	}
	m.pods[uid] = p
	m.notePod(old, p)
	m.noteMisread(uid, p)
	set(m.podsIn, p.Namespace, uid)
	if old == nil { // a pod's volumes never change
		for _, claim := range claimsOf(p) {
			set(m.mounts, claim, uid)
		}
	}
	if node := p.Spec.NodeName; node != "" {
		set(m.podsOn, node, uid)
		if old == nil || old.Spec.NodeName == "" {
			m.breakPromise(uid) // it has a node now, whichever node it was promised
		}
	}
	m.noteDaemonPod(p)
	if old == nil && !listed {
		m.matchReplacement(p)
	}
	m.replaced(p)
	woke := m.tellPod(uid)
	woke = append(woke, m.relievePressure(p.Spec.NodeName)...)
	if m.OnUrgent != nil && slices.Contains(woke, uid) && m.urgent(p) {
		return news{woke: woke, hurry: []string{uid}}
	}
	return news{woke: woke}
}

// RemovePod forgets a pod.
func (m *Mirror) RemovePod(p *corev1.Pod) { m.change(func() news { return m.removePod(p) }) }

func (m *Mirror) removePod(p *corev1.Pod) news {
	uid := string(p.UID)
	if old := m.pods[uid]; old != nil {
		m.noteInterrupted(old)
		m.noteActivity(old, nil)
		unset(m.podsOn, old.Spec.NodeName, uid)
		m.forgetActivity(old.Spec.NodeName)
		for _, claim := range claimsOf(old) {
			unset(m.mounts, claim, uid)
		}
	}
	delete(m.pods, uid)
	delete(m.superseded, uid)
	m.forgetReplacement(uid)
	delete(m.lapses, uid)
	delete(m.misread, uid)
	unset(m.podsIn, p.Namespace, uid)
	m.breakPromise(uid)
	m.forgetDaemonPod(uid)
	m.tellPod(uid)
	return news{}
}

// noteActivity records the time for the node when a pod other than a DaemonSet's is bound to it,
// finishes, begins to terminate or goes.
func (m *Mirror) noteActivity(old, now *corev1.Pod) {
	either := now
	if either == nil {
		either = old
	}
	if either.Spec.NodeName == "" || OwnedByDaemonSet(either) || Static(either) {
		return
	}
	if phaseOfStay(old) != phaseOfStay(now) {
		m.activity[either.Spec.NodeName] = time.Now()
	}
}

// forgetActivity drops the record of a node that is gone, once the last of its pods is gone too:
// pods may outlive their Node for a while.
func (m *Mirror) forgetActivity(node string) {
	if m.nodes[node] == nil && len(m.podsOn[node]) == 0 {
		delete(m.activity, node)
	}
}

// phaseOfStay orders the phases of a pod on its node: not there, there, terminating, gone.
func phaseOfStay(p *corev1.Pod) int {
	switch {
	case p == nil:
		return 3
	case p.Spec.NodeName == "":
		return 0
	case Terminal(p):
		return 3
	case p.DeletionTimestamp != nil:
		return 2
	}
	return 1
}

// tellPod updates the Snapshot about one pod and returns its UID when it starts to need capacity.
func (m *Mirror) tellPod(uid string) []string {
	w, ok := m.podNow(uid)
	old, had := m.worldPods[uid]
	switch {
	case !ok && had:
		m.builder.RemovePod(uid)
		delete(m.worldPods, uid)
		delete(m.held, uid)
		m.moved()
		return nil
	case !ok || had && reflect.DeepEqual(old, w):
		return nil
	}
	m.builder.SetPod(w)
	m.worldPods[uid] = w
	m.moved()
	if w.Movable && had && !old.Movable && m.worldNodes[m.keyOf(w.Node)].Leaving {
		return []string{uid} // no budget or annotation holds it any more
	}
	if w.Node == "" && (!had || old.Node != "" || old.Refused != "" && w.Refused == "") {
		return []string{uid}
	}
	return nil
}

// podNow is the pod as the Snapshot should show it; false when it should not be there.
func (m *Mirror) podNow(uid string) (cluster.Pod, bool) {
	p := m.pods[uid]
	if p == nil || Terminal(p) {
		return cluster.Pod{}, false
	}
	if p.Spec.NodeName == "" && !Provisionable(p) && !m.expected(p) {
		return cluster.Pod{}, false
	}
	w := m.convert.Pod(p, time.Now())
	m.storage.Mount(&w, p)
	m.noteLapse(uid, p)
	m.noteHeld(uid, m.isHeld(p))
	w.Movable = (w.Movable && !m.held[uid] || m.losesMachine(p)) && !m.superseded[uid]
	if m.standsIn(p) {
		w.Movable, w.Terminating = true, false
	}
	if key, ok := m.promises[uid]; ok {
		w.Node, w.Movable = m.worldNodes[key].Name, true
	}
	return w, true
}
