// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// unseenFor is how long a NodeClaim that karve created counts without a question although no watch has
// shown it: longer than any watch lags, and than an API server works on a request whose client has
// given up. See Mirror.OverdueClaims.
const unseenFor = time.Minute

// nodeStore holds the Nodes and NodeClaims of the cluster, and pairs them by provider ID. The
// key of a node with a NodeClaim is the claim's name, that of another node its own name.
type nodeStore struct {
	byName map[string]*corev1.Node
	claims map[string]*karpv1.NodeClaim

	nodeOf  map[string]string          // provider ID → node name
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
		if claim, ok := s.claimNameWithID(n.Spec.ProviderID); ok {
			return claim
		}
	}
	return node
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
		s.chooseNode(id)
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
		s.chooseNode(id)
	}
}

// chooseNode records the Node for a provider ID: the youngest of those that have it, since a Node
// of another name may be left over. Among Nodes of the same age it is the first by name.
func (s *nodeStore) chooseNode(id string) {
	var best *corev1.Node
	for name := range s.namesOf[id] {
		if n := s.byName[name]; best == nil || younger(n, best) {
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
		s.chooseClaim(id)
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
// from then on, or else the Node, which then counts as one without a claim; neither when nothing changes.
func (s *nodeStore) unlink(c *karpv1.NodeClaim) (claim string, node *corev1.Node) {
	id := c.Status.ProviderID
	before := s.claimOf[id]
	unset(s.claimsOf, id, c.Name)
	s.chooseClaim(id)
	if id == "" || before != c.Name {
		return "", nil
	}
	if claim, ok := s.claimNameWithID(id); ok {
		return claim, nil
	}
	return "", s.nodeWithID(id)
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
