// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// unseenFor is how long a NodeClaim that karve created counts without a question although no watch has
// shown it: longer than any watch lags, and than an API server works on a request whose client has
// given up. See Mirror.OverdueClaims.
const unseenFor = time.Minute

// nodeStore holds the Nodes and NodeClaims of the cluster, and pairs them by provider ID and name (see
// kube.IsNodeOf). The key of a node with a NodeClaim is the claim's name, that of another node its own
// name.
type nodeStore struct {
	byName map[string]*corev1.Node
	claims map[string]*karpv1.NodeClaim

	nodeOf  map[string]string          // provider ID → node name; see chooseNode
	namesOf map[string]map[string]bool // provider ID → names of all Nodes that have it
	claimOf map[string]string          // provider ID → claim name

	// claimsOf has, by provider ID, the names of all claims that have it; see chooseClaim.
	claimsOf map[string]map[string]bool

	// unseen has the claims that no watch has shown yet, and since when nothing more is known of them.
	unseen map[string]time.Time
	// moving has the claims whose nodes will be deleted; see Mirror.BeginMove.
	moving map[string]bool
}

func newNodeStore() *nodeStore {
	return &nodeStore{
		byName: map[string]*corev1.Node{}, claims: map[string]*karpv1.NodeClaim{},
		nodeOf: map[string]string{}, namesOf: map[string]map[string]bool{}, claimOf: map[string]string{},
		claimsOf: map[string]map[string]bool{},
		unseen:   map[string]time.Time{}, moving: map[string]bool{},
	}
}

// node is the Node of that name, or nil.
func (s *nodeStore) node(name string) *corev1.Node { return s.byName[name] }

// claim is the NodeClaim of that name, or nil.
func (s *nodeStore) claim(name string) *karpv1.NodeClaim { return s.claims[name] }

// claimNames lists the names of all NodeClaims.
func (s *nodeStore) claimNames() []string {
	return slices.AppendSeq(make([]string, 0, len(s.claims)), maps.Keys(s.claims))
}

// nodeWithID is the Node with that provider ID, or nil.
func (s *nodeStore) nodeWithID(id string) *corev1.Node { return s.byName[s.nodeOf[id]] }

// claimNameWithID is the name of the NodeClaim with that provider ID; false when there is none.
func (s *nodeStore) claimNameWithID(id string) (name string, ok bool) {
	name, ok = s.claimOf[id]
	return name, ok && id != ""
}

// key is the key of the node of that name.
func (s *nodeStore) key(node string) string {
	if n := s.byName[node]; n != nil {
		if c := s.claimWithID(n.Spec.ProviderID); c != nil && kube.IsNodeOf(n, c) {
			return c.Name
		}
	}
	return node
}

// claimWithID is the NodeClaim with that provider ID, or nil.
func (s *nodeStore) claimWithID(id string) *karpv1.NodeClaim {
	name, _ := s.claimNameWithID(id)
	return s.claims[name]
}

// countNodesOf counts the Nodes with the provider ID of the claim that may be the claim's.
func (s *nodeStore) countNodesOf(c *karpv1.NodeClaim) (count int) {
	for name := range s.namesOf[c.Status.ProviderID] {
		if kube.IsNodeOf(s.byName[name], c) {
			count++
		}
	}
	return count
}

// instanceType is the instance type of the Node of that name, "" if it is not known: that of its claim,
// which no kubelet can change, or else what its label says.
func (s *nodeStore) instanceType(node string) string {
	n := s.byName[node]
	if n == nil {
		return ""
	}
	if c := s.claims[s.key(node)]; c != nil {
		if launched := c.Labels[cluster.LabelInstanceType]; launched != "" {
			return launched
		}
	}
	return n.Labels[cluster.LabelInstanceType]
}

// interrupted reports whether the cloud interrupts the node of that name; false for no name.
func (s *nodeStore) interrupted(node string) bool {
	return node != "" && kube.Interrupted(s.claims[s.key(node)])
}

// leaving reports whether the node of that name is being deleted, interrupted or gone.
func (s *nodeStore) leaving(node string) bool {
	n, c := s.byName[node], s.claims[s.key(node)]
	return n == nil || n.DeletionTimestamp != nil || c != nil && c.DeletionTimestamp != nil || s.interrupted(node)
}

// setNode adds or replaces a Node. If its provider ID changed, call forgetID first.
func (s *nodeStore) setNode(n *corev1.Node) {
	s.byName[n.Name] = n
	if id := n.Spec.ProviderID; id != "" {
		set(s.namesOf, id, n.Name)
		s.pair(id)
	}
}

// removeNode forgets a Node. It returns its provider ID: the last known one, whatever n says.
func (s *nodeStore) removeNode(n *corev1.Node) (id string) {
	id = n.Spec.ProviderID
	if known := s.byName[n.Name]; known != nil {
		id = known.Spec.ProviderID
	}
	delete(s.byName, n.Name)
	s.forgetID(n.Name, id)
	return id
}

// forgetID records that the Node does not have that provider ID any more.
func (s *nodeStore) forgetID(name, id string) {
	if id != "" {
		unset(s.namesOf, id, name)
		s.pair(id)
	}
}

// pair records which claim and which Node stand for the instance with that provider ID.
func (s *nodeStore) pair(id string) {
	s.chooseClaim(id)
	s.chooseNode(id)
}

// chooseNode records the Node for a provider ID: that of the claim or, if the name of that is not
// known, the youngest, since a Node of another name may be left over. Among Nodes of the same age it is
// the first by name.
func (s *nodeStore) chooseNode(id string) {
	var best *corev1.Node
	c := s.claimWithID(id)
	for name := range s.namesOf[id] {
		n := s.byName[name]
		if c != nil && !kube.IsNodeOf(n, c) {
			continue
		}
		if best == nil || younger(n, best) {
			best = n
		}
	}
	if best == nil {
		delete(s.nodeOf, id)
		return
	}
	s.nodeOf[id] = best.Name
}

func younger(a, b *corev1.Node) bool {
	return cmp.Or(b.CreationTimestamp.Time.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// setClaim adds or replaces a NodeClaim. If its provider ID changed, call unlink first.
func (s *nodeStore) setClaim(c *karpv1.NodeClaim) {
	s.claims[c.Name] = c
	if id := c.Status.ProviderID; id != "" {
		set(s.claimsOf, id, c.Name)
		s.pair(id)
	}
}

// chooseClaim records the claim for a provider ID. Of several, as of a copy, it is one that is not being
// deleted, then the oldest, then the first by name; the others stand for no node.
func (s *nodeStore) chooseClaim(id string) {
	var best *karpv1.NodeClaim
	for name := range s.claimsOf[id] {
		if c := s.claims[name]; c != nil && (best == nil || ownsRather(c, best)) {
			best = c
		}
	}
	if best == nil {
		delete(s.claimOf, id)
		return
	}
	s.claimOf[id] = best.Name
}

func ownsRather(a, b *karpv1.NodeClaim) bool {
	if leaves := a.DeletionTimestamp != nil; leaves != (b.DeletionTimestamp != nil) {
		return !leaves
	}
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// superfluous reports whether another claim has the claim's provider ID and stands for its node.
func (s *nodeStore) superfluous(c *karpv1.NodeClaim) bool {
	claim, ok := s.claimNameWithID(c.Status.ProviderID)
	return ok && claim != c.Name
}

// removeClaim forgets a NodeClaim, except for its provider ID (see unlink). It returns the last
// known version, whatever the delete event carries.
func (s *nodeStore) removeClaim(c *karpv1.NodeClaim) *karpv1.NodeClaim {
	if known := s.claims[c.Name]; known != nil {
		c = known
	}
	delete(s.claims, c.Name)
	delete(s.unseen, c.Name)
	delete(s.moving, c.Name)
	return c
}

// unlink ends the link between the claim and its Node. It returns the claim that stands for the node
// from then on, or else the Nodes of the instance, which then count as nodes without a claim; neither
// when nothing changes.
func (s *nodeStore) unlink(c *karpv1.NodeClaim) (claim string, nodes []*corev1.Node) {
	id := c.Status.ProviderID
	before := s.claimOf[id]
	unset(s.claimsOf, id, c.Name)
	s.pair(id)
	if id == "" || before != c.Name {
		return "", nil
	}
	if claim, ok := s.claimNameWithID(id); ok {
		return claim, nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.namesOf[id])) {
		nodes = append(nodes, s.byName[name])
	}
	return "", nodes
}

// expect reports whether the claim, which karve creates, is to be recorded, and records since
// when it is expected. It reports false when a watch has shown a newer version.
func (s *nodeStore) expect(claim string, now time.Time) bool {
	_, unseen := s.unseen[claim]
	if s.claims[claim] != nil && !unseen {
		return false
	}
	s.unseen[claim] = now
	return true
}

// markSeen records that a watch has shown the claim.
func (s *nodeStore) markSeen(claim string) { delete(s.unseen, claim) }

// isUnseen reports whether the claim counts although no watch has shown it.
func (s *nodeStore) isUnseen(claim string) bool {
	_, unseen := s.unseen[claim]
	return unseen
}

// keep records that the claim is still expected, if no watch has shown it.
func (s *nodeStore) keep(claim string, now time.Time) {
	if s.isUnseen(claim) {
		s.unseen[claim] = now
	}
}

// overdue lists the claims that no watch has shown for too long.
func (s *nodeStore) overdue(now time.Time) (claims []string) {
	for name, since := range s.unseen {
		if now.Sub(since) > unseenFor {
			claims = append(claims, name)
		}
	}
	return claims
}

// beginMove marks a claim whose node will be deleted; it reports false when there is none.
func (s *nodeStore) beginMove(claim string) bool {
	if s.claims[claim] == nil {
		return false
	}
	s.moving[claim] = true
	return true
}

// cancelMove reverts beginMove; it reports false when the claim has no mark.
func (s *nodeStore) cancelMove(claim string) bool {
	if !s.moving[claim] {
		return false
	}
	delete(s.moving, claim)
	return true
}

// isMoving reports whether the node of that key will be deleted.
func (s *nodeStore) isMoving(key string) bool { return s.moving[key] }

func (s *nodeStore) anyMoving() bool { return len(s.moving) > 0 }

// copyMoving takes the marks of beginMove from an old store.
func (s *nodeStore) copyMoving(old *nodeStore) { maps.Copy(s.moving, old.moving) }

// dropDeletedMoving drops the marks of claims that do not exist.
func (s *nodeStore) dropDeletedMoving() {
	maps.DeleteFunc(s.moving, func(claim string, _ bool) bool { return s.claims[claim] == nil })
}
