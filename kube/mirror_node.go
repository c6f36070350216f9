package kube

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// SetNode adds or replaces a Node.
func (m *Mirror) SetNode(n *corev1.Node) { m.change(func() news { return m.setNode(n) }) }

func (m *Mirror) setNode(n *corev1.Node) news {
	var woke []string
	old := m.nodes[n.Name]
	m.noteNode(old, n)
	if old != nil && old.Spec.ProviderID != n.Spec.ProviderID {
		m.untie(old.Name, old.Spec.ProviderID)
		woke = m.tellClaim(m.claimOf[old.Spec.ProviderID])
	}
	m.nodes[n.Name] = n
	m.tie(n)
	m.placeNode(n.Name, n)
	woke = append(woke, m.tellNode(n.Name)...)
	return m.losing(m.claims[m.claimOf[n.Spec.ProviderID]], woke)
}

// RemoveNode forgets a Node.
func (m *Mirror) RemoveNode(n *corev1.Node) { m.change(func() news { return m.removeNode(n) }) }

func (m *Mirror) removeNode(n *corev1.Node) news {
	m.moved()
	id := n.Spec.ProviderID
	if known := m.nodes[n.Name]; known != nil {
		id = known.Spec.ProviderID // the last known one, whatever the delete event carries
	}
	delete(m.nodes, n.Name)
	delete(m.until, n.Name)
	delete(m.activity, n.Name)
	m.placeNode(n.Name, nil)
	m.untie(n.Name, id)
	m.drop(n.Name)
	if claim, ok := m.claimOf[id]; ok {
		return news{woke: m.tellClaim(claim)}
	}
	return news{}
}

// SetClaim adds or replaces a NodeClaim.
func (m *Mirror) SetClaim(c *karpv1.NodeClaim) {
	m.change(func() news { return m.seeClaim(c) })
}

// seeClaim records a NodeClaim that a watch shows.
func (m *Mirror) seeClaim(c *karpv1.NodeClaim) news {
	delete(m.unseen, c.Name)
	return m.losing(c, m.setClaim(c))
}

func (m *Mirror) setClaim(c *karpv1.NodeClaim) []string {
	old := m.claims[c.Name]
	m.noteClaim(old, c)
	m.claims[c.Name] = c
	if old != nil && old.Status.ProviderID != c.Status.ProviderID {
		m.disown(old) // another claim of the same name
	}
	if c.Status.ProviderID != "" {
		m.claimOf[c.Status.ProviderID] = c.Name
		m.drop(m.nodeOf[c.Status.ProviderID]) // its node counted as one without a claim
	}
	return m.tellClaim(c.Name)
}

// RemoveClaim forgets a NodeClaim; pods that were promised capacity on it need it elsewhere.
func (m *Mirror) RemoveClaim(c *karpv1.NodeClaim) {
	m.change(func() news { return news{woke: m.removeClaim(c)} })
}

func (m *Mirror) removeClaim(c *karpv1.NodeClaim) []string {
	m.moved()
	if known := m.claims[c.Name]; known != nil {
		c = known // the last known version, whatever the delete event carries
	}
	delete(m.claims, c.Name)
	delete(m.unseen, c.Name)
	delete(m.offerings, c.Name)
	delete(m.moving, c.Name)
	woke := m.release(c.Name)
	m.drop(c.Name)
	return append(woke, m.disown(c)...)
}

// disown ends the link between the claim and its node: the node, if there is one, counts as
// unmanaged.
func (m *Mirror) disown(c *karpv1.NodeClaim) []string {
	if m.claimOf[c.Status.ProviderID] != c.Name {
		return nil
	}
	delete(m.claimOf, c.Status.ProviderID)
	if name, ok := m.nodeOf[c.Status.ProviderID]; ok {
		return m.tellNode(name)
	}
	return nil
}

func (m *Mirror) tellNode(name string) []string {
	n := m.nodes[name]
	if claim, ok := m.claimOf[n.Spec.ProviderID]; ok && n.Spec.ProviderID != "" {
		m.drop(name) // it counted as unmanaged while it had no provider ID
		return m.tellClaim(claim)
	}
	w := Node(n, nil, nil, nil)
	m.limits.apply(&w, nil)
	return m.tell(w)
}

func (m *Mirror) tellClaim(name string) []string {
	c := m.claims[name]
	if c == nil {
		return nil
	}
	cat := m.catalogs[ClassOf(c.Spec.NodeClassRef)]
	w := Node(m.nodes[m.nodeOf[c.Status.ProviderID]], c, cat, m.choicesOf(c))
	m.limits.apply(&w, cat.find(w.Labels[cluster.LabelInstanceType]))
	if !m.limits.reports(w.Name) {
		// Storage drivers label a node, with keys of their own, when they start there. Until then
		// a pod whose disk is in the node's zone would not match the node.
		w.Labels = cat.complete(w.Labels)
	}
	return m.tell(w)
}

// tell updates the Snapshot about one node, and about the pods promised to it when the node name
// they are recorded under changes.
func (m *Mirror) tell(w cluster.Node) []string {
	old, had := m.worldNodes[w.Key]
	if w.Initialized && had && !old.Initialized && len(m.promised[w.Key]) > 0 {
		m.until[w.Key] = time.Now().Add(NominatedFor) // the scheduler can bind only from now on
	}
	w.NominatedUntil = m.until[w.Key]
	w.Leaving = w.Leaving || m.moving[w.Key]
	w.Unschedulable = stuck(w, time.Now())
	if had && reflect.DeepEqual(old, w) {
		return nil
	}
	m.builder.SetNode(w)
	m.worldNodes[w.Key] = w
	m.moved()
	if old.Name != w.Name {
		for uid := range m.promised[w.Key] {
			m.tellPod(uid)
		}
	}
	if w.Leaving && !old.Leaving {
		if Interrupted(m.claims[w.Key]) {
			m.retell(w.Name)
		}
		return append(m.release(w.Key), m.movable(w.Name)...)
	}
	return nil
}

// losesMachine reports whether a bound pod needs a new node because the cloud interrupts its
// node: no annotation or budget prevents that.
func (m *Mirror) losesMachine(p *corev1.Pod) bool {
	if p.Spec.NodeName == "" || !homeless(p) {
		return false
	}
	key := m.keyOf(p.Spec.NodeName)
	return m.worldNodes[key].Leaving && Interrupted(m.claims[key])
}

// retell updates the Snapshot about the pods on a node.
func (m *Mirror) retell(node string) {
	for uid := range m.podsOn[node] {
		m.tellPod(uid)
	}
}

// movable lists the pods that need a new node when this one goes.
func (m *Mirror) movable(node string) []string {
	var uids []string
	for uid := range m.podsOn[node] {
		if m.worldPods[uid].Movable {
			uids = append(uids, uid)
		}
	}
	return uids
}

// drop removes a node from the Snapshot.
func (m *Mirror) drop(key string) {
	if _, ok := m.worldNodes[key]; ok && key != "" {
		m.builder.RemoveNode(key)
		delete(m.worldNodes, key)
		m.moved()
	}
}
