// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
)

// nodeEvents passes events of Nodes, NodeClaims, CSINodes and catalogs to every part that they
// concern. Its methods return the pods that start to need capacity.
type nodeEvents struct {
	revision    *revision
	nodes       *nodeStore
	catalogs    *catalogs
	nominations *nominations
	activity    activity
	builder     *builder
	podWriter   *podWriter
	nodeWriter  *nodeWriter
	// outdated are the claims that writeOutdated has yet to write: their catalog has changed.
	outdated []string
}

// setNode adds or replaces a Node.
func (e *nodeEvents) setNode(n *corev1.Node) (waiting []string) {
	old := e.nodes.node(n.Name)
	e.revision.incrementIf(nodeChanged(old, n))
	if old != nil && old.Spec.ProviderID != n.Spec.ProviderID {
		e.nodes.forgetID(old.Name, old.Spec.ProviderID)
		claim, _ := e.nodes.claimNameWithID(old.Spec.ProviderID)
		waiting = e.nodeWriter.writeClaim(claim)
	}
	e.nodes.setNode(n)
	e.catalogs.setInstanceType(n.Name, e.nodes.instanceType(n.Name))
	return append(waiting, e.nodeWriter.writeNode(n)...)
}

// removeNode forgets a Node.
func (e *nodeEvents) removeNode(n *corev1.Node) (waiting []string) {
	e.revision.increment()
	id := e.nodes.removeNode(n)
	e.nominations.forgetNode(n.Name)
	delete(e.activity, n.Name)
	e.catalogs.setInstanceType(n.Name, "")
	e.builder.removeNode(n.Name)
	claim, _ := e.nodes.claimNameWithID(id)
	return e.nodeWriter.writeClaim(claim)
}

// setClaim adds or replaces a NodeClaim.
func (e *nodeEvents) setClaim(c *karpv1.NodeClaim) (waiting []string) {
	old := e.nodes.claim(c.Name)
	e.revision.incrementIf(claimChanged(old, c))
	before, _ := e.nodes.claimNameWithID(c.Status.ProviderID)
	e.nodes.setClaim(c)
	if old != nil && old.Status.ProviderID != c.Status.ProviderID {
		e.unlink(old) // another claim of the same name
	}
	for name := range e.nodes.namesOf[c.Status.ProviderID] {
		e.builder.removeNode(name) // it counted as one without a claim
	}
	e.learnTypes(c.Status.ProviderID)
	waiting = e.nodeWriter.writeClaim(c.Name)
	if before != c.Name {
		waiting = append(waiting, e.nodeWriter.writeClaim(before)...) // which may be superfluous now
	} else if now, _ := e.nodes.claimNameWithID(c.Status.ProviderID); now != c.Name {
		waiting = append(waiting, e.nodeWriter.writeClaim(now)...)
	}
	return waiting
}

// setWatchedClaim is setClaim for a claim that a watch shows.
func (e *nodeEvents) setWatchedClaim(c *karpv1.NodeClaim) (waiting []string) {
	e.nodes.markSeen(c.Name)
	return e.setClaim(c)
}

// expectClaim is setClaim for a claim that karve creates and that no watch has shown yet, with
// the offerings that it accepts.
func (e *nodeEvents) expectClaim(c *karpv1.NodeClaim, offerings []offering.Ref, now time.Time) {
	if e.nodes.expect(c.Name, now) {
		e.catalogs.accept(c, offerings)
		e.setClaim(c)
	}
}

// expectClaims is expectClaim for all of the claims or, with an error, none: those that are new
// would exceed limits of their NodePools.
func (e *nodeEvents) expectClaims(claims []NewClaim, now time.Time) error {
	var added []*karpv1.NodeClaim
	for _, c := range claims {
		if e.nodes.claim(c.Claim.Name) == nil {
			added = append(added, c.Claim)
		}
		e.expectClaim(c.Claim, c.Offerings, now)
	}
	for _, c := range added {
		pool := c.Labels[karpv1.NodePoolLabelKey]
		if limit := e.builder.exceededLimit(pool); limit != "" {
			for _, c := range added {
				e.removeClaim(c)
			}
			return &LimitError{Pool: pool, Limit: limit}
		}
	}
	return nil
}

// removeClaim forgets a NodeClaim; pods that are nominated to it need other capacity.
func (e *nodeEvents) removeClaim(c *karpv1.NodeClaim) (waiting []string) {
	e.revision.increment()
	c = e.nodes.removeClaim(c)
	e.catalogs.forgetClaim(c.Name)
	waiting = e.podWriter.removeNominations(c.Name)
	e.builder.removeNode(c.Name)
	return append(waiting, e.unlink(c)...)
}

// unlink ends the link between the claim and its Node: the Nodes with its provider ID, if there are any,
// count as unmanaged, unless another claim has the provider ID.
func (e *nodeEvents) unlink(c *karpv1.NodeClaim) (waiting []string) {
	claim, nodes := e.nodes.unlink(c)
	e.learnTypes(c.Status.ProviderID)
	for _, n := range nodes {
		waiting = append(waiting, e.nodeWriter.writeNode(n)...)
	}
	return append(waiting, e.nodeWriter.writeClaim(claim)...)
}

// learnTypes records the instance types of the Nodes with the provider ID, which their claim decides.
func (e *nodeEvents) learnTypes(id string) {
	for name := range e.nodes.namesOf[id] {
		e.catalogs.setInstanceType(name, e.nodes.instanceType(name))
	}
}

// setCatalog sets the instance types of a node class and the quota that is left, by name.
// writeOutdated must follow.
func (e *nodeEvents) setCatalog(class string, types []offering.InstanceType, quota map[string]int64) {
	c, newQuota, newTypes := e.catalogs.set(class, types, quota)
	e.revision.incrementIf(newQuota || newTypes)
	e.builder.setCatalog(class, c)
	if newTypes {
		e.outdateClaims()
	}
}

// applyLimits adjusts the catalogs to the attach limits that nodes reported. writeOutdated must
// follow.
func (e *nodeEvents) applyLimits() {
	for class, c := range e.catalogs.applyLimits() {
		e.revision.increment()
		e.builder.setCatalog(class, c)
		e.outdateClaims()
	}
}

// outdateClaims has all claims written again. Those of other node classes will not have changed.
func (e *nodeEvents) outdateClaims() { e.outdated = e.nodes.claimNames() }

// outdatedAtOnce is how many claims writeOutdated writes in one call: about a millisecond's.
const outdatedAtOnce = 32

// writeOutdated writes the next claims whose catalog has changed. It returns the pods that start to
// need capacity, and reports whether there are more claims.
func (e *nodeEvents) writeOutdated() (waiting []string, more bool) {
	n := min(outdatedAtOnce, len(e.outdated))
	for _, name := range e.outdated[:n] {
		waiting = append(waiting, e.nodeWriter.writeClaim(name)...)
	}
	e.outdated = e.outdated[n:]
	return waiting, len(e.outdated) > 0
}

// removeCatalog forgets the instance types of a node class.
func (e *nodeEvents) removeCatalog(class string) {
	e.catalogs.remove(class)
	e.builder.removeCatalog(class)
}

// setCSINode records the CSINode in which a node's storage drivers report their limits; nil when it
// was deleted.
func (e *nodeEvents) setCSINode(node string, n *storagev1.CSINode) (waiting []string) {
	e.catalogs.setCSINode(node, n)
	if n := e.nodes.node(node); n != nil {
		return e.nodeWriter.writeNode(n)
	}
	return nil
}
