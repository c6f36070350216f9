package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// NominatedFor is how long a promise of capacity holds on a node that is ready: twice the longest
// batch, since the scheduler may need a moment.
const NominatedFor = 20 * time.Second

// Launched records a claim that was just created, before any watch shows it, with the offerings
// it accepts and the pods it was launched for.
func (m *Mirror) Launched(c *karpv1.NodeClaim, choices []offering.Ref, pods []cluster.PodRef) {
	m.change(func() news {
		m.expect(c, choices, time.Now())
		m.promise(c.Name, pods)
		return news{}
	})
}

// Nominate promises pods capacity on a node that exists or is in flight.
func (m *Mirror) Nominate(key string, pods []cluster.PodRef) {
	m.change(func() news { m.promise(key, pods); return news{} })
}

func (m *Mirror) promise(key string, pods []cluster.PodRef) {
	w, ok := m.worldNodes[key]
	if !ok || w.Leaving {
		return
	}
	m.moved()
	m.until[key] = time.Now().Add(NominatedFor)
	for _, p := range pods {
		uid := m.replacementOf(p.UID)
		if pod := m.pods[uid]; pod != nil && m.needsRoom(pod) {
			m.breakPromise(uid)
			m.promises[uid] = key
			set(m.promised, key, uid)
			m.tellPod(uid)
		}
		if heir := m.pods[m.replacements.heirs[p.UID]]; heir != nil {
			m.replaced(heir)
		}
	}
	w.NominatedUntil = m.until[key]
	m.tell(w)
}

// needsRoom reports whether the pod needs a promise: it is unbound, or its node is leaving, and
// no replacement counts in its place.
func (m *Mirror) needsRoom(p *corev1.Pod) bool {
	return !m.superseded[string(p.UID)] && (p.Spec.NodeName == "" || m.worldNodes[m.keyOf(p.Spec.NodeName)].Leaving)
}

// Interrupts reports whether any of the pods runs on an interrupted node, or replaces a pod that
// does or did.
func (m *Mirror) Interrupts(pods []cluster.PodRef) bool {
	m.lock()
	defer m.mu.Unlock()
	for _, p := range pods {
		if pod := m.pods[p.UID]; pod != nil && m.urgent(pod) {
			return true
		}
	}
	return false
}

func (m *Mirror) breakPromise(uid string) {
	key, ok := m.promises[uid]
	if !ok {
		return
	}
	m.moved()
	delete(m.promises, uid)
	delete(m.promised[key], uid)
	if len(m.promised[key]) == 0 {
		delete(m.promised, key)
	}
}

// release ends every promise on a node and returns the pods that need capacity again.
func (m *Mirror) release(key string) []string {
	m.moved()
	var woke []string
	for uid := range m.promised[key] {
		delete(m.promises, uid)
		woke = append(woke, m.tellPod(uid)...)
	}
	delete(m.promised, key)
	delete(m.until, key)
	return woke
}

// relievePressure ends the promises on an initialized node once other pods have taken so much of
// it that not all promises can be kept. Promises that still fit are made again by the next
// decision.
func (m *Mirror) relievePressure(node string) []string {
	key := m.keyOf(node)
	w := m.worldNodes[key]
	if len(m.promised[key]) == 0 || !w.Initialized {
		return nil
	}
	free := w.Allocatable
	for uid := range m.podsOn[node] {
		free = free.Sub(m.worldPods[uid].Requests)
	}
	for uid := range m.promised[key] {
		free = free.Sub(m.worldPods[uid].Requests)
	}
	for _, left := range free {
		if left < 0 {
			return m.release(key)
		}
	}
	return nil
}

func (m *Mirror) keyOf(node string) string {
	if n := m.nodes[node]; n != nil && n.Spec.ProviderID != "" {
		if claim, ok := m.claimOf[n.Spec.ProviderID]; ok {
			return claim
		}
	}
	return node
}

// Settle ends what has lapsed. Nodes that do not initialize stop counting as capacity. Promises
// on them, and promises on ready nodes where the scheduler did not bind the pod, end. Claims that
// no watch has shown are forgotten. Objects that were left out and have changed are tried again.
func (m *Mirror) Settle() {
	now := time.Now()
	m.retryLeftOut(now)
	m.change(func() news { return m.settle(now) })
}

func (m *Mirror) settle(now time.Time) news {
	woke := append(m.judge(), m.lapse(now)...)
	for _, w := range m.worldNodes {
		if !w.Unschedulable && stuck(w, now) {
			woke = append(woke, m.tell(w)...)
		}
	}
	for key := range m.promised {
		if m.lapsed(key, now) {
			woke = append(woke, m.release(key)...)
		}
	}
	for name, since := range m.unseen {
		if now.Sub(since) > unseenFor {
			woke = append(woke, m.removeClaim(m.claims[name])...)
		}
	}
	m.tidy()
	return news{woke: woke}
}

func (m *Mirror) lapsed(key string, now time.Time) bool {
	w, ok := m.worldNodes[key]
	switch {
	case !ok || w.Leaving || w.Unschedulable:
		return true
	case w.Initialized:
		return now.After(m.until[key]) && !m.awaitedThere(key)
	}
	return false
}

func stuck(w cluster.Node, now time.Time) bool {
	return !w.Initialized && !w.Created.IsZero() && now.Sub(w.Created) > StuckAfter
}
