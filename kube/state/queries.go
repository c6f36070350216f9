// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
)

// PDBs returns the PodDisruptionBudgets of the cluster, kept current.
func (m *Mirror) PDBs() *PDBs { return m.pdbs }

// Lifetimes is how long pods stay on their nodes.
func (m *Mirror) Lifetimes() *Lifetimes { return m.lifetimes }

// EffectivePod returns the pod that counts in the place of the one with that UID: its replacement
// once it is evicted and that one exists, else itself, or nil.
func (m *Mirror) EffectivePod(uid string) *corev1.Pod {
	m.lock()
	effective := m.parts.podReplacements.effectivePod(uid)
	m.mu.Unlock()
	return m.Pod(effective)
}

// Pod returns the pod with that UID, or nil.
func (m *Mirror) Pod(uid string) *corev1.Pod {
	m.lock()
	defer m.mu.Unlock()
	p := m.parts.pods.get(uid)
	if p == nil {
		return nil
	}
	return p.Pod
}

// NominatedTo lists the pods that are nominated to a node, by its key, in no particular
// order. The objects are shared and must not be changed.
func (m *Mirror) NominatedTo(key string) []*corev1.Pod {
	m.lock()
	defer m.mu.Unlock()
	return m.parts.pods.list(m.parts.nominations.to(key))
}

// InvalidDoNotDisrupt lists pods whose do-not-disrupt annotation cannot be read, by namespace
// and name (see kube.InvalidDoNotDisrupt). The objects are shared and must not be changed.
func (m *Mirror) InvalidDoNotDisrupt() []*corev1.Pod {
	m.lock()
	defer m.mu.Unlock()
	return m.parts.protections.listInvalid()
}

// CountWaiting counts the pods that need capacity and are not nominated to a node.
func (m *Mirror) CountWaiting() int {
	m.lock()
	defer m.mu.Unlock()
	return m.parts.builder.waiting()
}

// AnyWaits reports whether any of the pods, which may be virtual, still needs capacity and is not
// nominated to a node.
func (m *Mirror) AnyWaits(pods []cluster.PodRef) bool {
	m.lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(pods, func(p cluster.PodRef) bool { return m.parts.nominator.waits(p.UID) })
}

// CountPods counts the pods of each owner. Terminating and finished pods, and pods whose
// replacements are on their way, do not count. Owners without pods are left out.
func (m *Mirror) CountPods(owners map[types.UID]bool) map[types.UID]int {
	m.lock()
	defer m.mu.Unlock()
	count := map[types.UID]int{}
	for owner := range owners {
		if n := m.parts.pods.staying[owner]; n > 0 {
			count[owner] = n
		}
	}
	for uid := range m.parts.podReplacements.superseded {
		if p := m.parts.pods.get(uid); p != nil && p.stays() && owners[p.facts.Owner] {
			if count[p.facts.Owner]--; count[p.facts.Owner] == 0 {
				delete(count, p.facts.Owner)
			}
		}
	}
	return count
}

// AnyInterrupted reports whether any of the pods runs on an interrupted node, or replaces a pod
// that does or did.
func (m *Mirror) AnyInterrupted(pods []cluster.PodRef) bool {
	m.lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(pods, func(p cluster.PodRef) bool {
		pod := m.parts.pods.get(p.UID)
		return pod != nil && m.parts.interruptions.urgent(pod)
	})
}

// CountNodes counts the nodes of the Snapshot, in-flight ones included.
func (m *Mirror) CountNodes() int {
	m.lock()
	defer m.mu.Unlock()
	return len(m.parts.builder.nodes)
}

// DescribeNode formats the key of a node for people: nodeclaim/x, node/y.
func (m *Mirror) DescribeNode(key string) string {
	m.lock()
	defer m.mu.Unlock()
	n, _ := m.parts.builder.node(key)
	switch {
	case !n.HasNodeClaim:
		return "node/" + key
	case n.Name == kube.InFlightName(key):
		return "nodeclaim/" + key
	}
	return "nodeclaim/" + key + ", node/" + n.Name
}

// managedAtOnce is how many claims ManagedNodes reads before it releases the lock: about a
// millisecond's, where all of a large cluster take a hundred.
const managedAtOnce = 64

// ManagedNodes lists every NodeClaim with its Node and pods, by name. Each is as it was at some time
// during the call; claims that come meanwhile may be missing. The objects are shared and must not
// be changed.
func (m *Mirror) ManagedNodes() []kube.ManagedNode {
	names := m.claimNames()
	slices.Sort(names)
	out := make([]kube.ManagedNode, 0, len(names))
	for some := range slices.Chunk(names, managedAtOnce) {
		out = m.appendManaged(out, some)
	}
	return out
}

func (m *Mirror) claimNames() []string {
	m.lock()
	defer m.mu.Unlock()
	return m.parts.nodes.claimNames()
}

// appendManaged appends the claims that still exist.
func (m *Mirror) appendManaged(out []kube.ManagedNode, claims []string) []kube.ManagedNode {
	m.lock()
	defer m.mu.Unlock()
	for _, name := range claims {
		if c := m.parts.nodes.claim(name); c != nil {
			out = append(out, m.parts.managedNode(c))
		}
	}
	return out
}

// HasNodes reports whether the NodePool has any nodes, those in flight included.
func (m *Mirror) HasNodes(pool string) bool {
	m.lock()
	defer m.mu.Unlock()
	return m.parts.builder.usage[pool].Nodes > 0
}

// ManagedNode returns a claim with its Node and pods; false when there is no such claim.
func (m *Mirror) ManagedNode(claim string) (kube.ManagedNode, bool) {
	m.lock()
	defer m.mu.Unlock()
	c := m.parts.nodes.claim(claim)
	if c == nil {
		return kube.ManagedNode{}, false
	}
	return m.parts.managedNode(c), true
}

func (p *parts) managedNode(c *karpv1.NodeClaim) kube.ManagedNode {
	inSnapshot, _ := p.builder.node(c.Name)
	x := kube.ManagedNode{Claim: c, InSnapshot: inSnapshot, Nominated: len(p.nominations.to(c.Name))}
	x.KnownType = p.catalogs.of(c).Find(inSnapshot.Labels[cluster.LabelInstanceType]) != nil
	if x.Node = p.nodes.nodeWithID(c.Status.ProviderID); x.Node == nil || p.nodes.superfluous(c) {
		x.Node = nil
		return x
	}
	x.Nodes = p.nodes.countNodesOf(c)
	x.Pods = p.pods.listOn(x.Node.Name)
	x.Activity = p.activity[x.Node.Name]
	return x
}

// Pool returns the NodePool of that name, or nil.
func (m *Mirror) Pool(name string) *karpv1.NodePool {
	m.lock()
	defer m.mu.Unlock()
	return m.parts.pools[name]
}

// Pools lists every NodePool, by name. The objects are shared and must not be changed.
func (m *Mirror) Pools() []*karpv1.NodePool {
	m.lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.parts.pools), func(a, b *karpv1.NodePool) int { return cmp.Compare(a.Name, b.Name) })
}

// Classes lists the node classes that pools and claims refer to, sorted.
func (m *Mirror) Classes() []string {
	m.lock()
	defer m.mu.Unlock()
	classes := map[string]bool{}
	for _, p := range m.parts.pools {
		classes[kube.ClassOf(p.Spec.Template.Spec.NodeClassRef)] = true
	}
	for _, c := range m.parts.nodes.claims {
		classes[kube.ClassOf(c.Spec.NodeClassRef)] = true
	}
	delete(classes, "")
	return slices.Sorted(maps.Keys(classes))
}

// Offerings lists the offerings that a claim accepts, cheapest first, from the last catalog that
// was set. The error names the requirement that cannot be read.
func (m *Mirror) Offerings(c *karpv1.NodeClaim) ([]offering.Ref, error) {
	m.lock()
	known, types, ok := m.parts.catalogs.cachedOfferings(c)
	m.mu.Unlock()
	if ok {
		return known, nil
	}
	return kube.Offerings(c, types.List) // outside the lock: it takes milliseconds
}
