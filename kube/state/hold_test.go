// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// holdCount counts what is written to the Snapshot while the lock is held once.
type holdCount struct {
	mirror       *Mirror
	before, most uint64
}

// countHolds begins to count.
func countHolds(m *Mirror) *holdCount {
	h := &holdCount{mirror: m, before: m.Revision()}
	m.OnLocked = func(time.Duration) { h.end() }
	return h
}

// end ends the count of one hold; the next one begins.
func (h *holdCount) end() {
	now := h.mirror.Revision()
	h.most, h.before = max(h.most, now-h.before), now
}

// However many nodes and pods a change concerns, events wait only for the writes of a few of them.
//
// Rule METRIC-5.
func TestNoHoldOfTheLockIsForAllNodes(t *testing.T) {
	const nodes, onNode, limit = 400, 4, checkedAtOnce + 16
	m := NewMirror(nil)
	m.SetCatalog("default", instanceTypes(), nil)
	for i := range nodes {
		claim, node := joined(claimNamed(fmt.Sprint("c", i)))
		m.SetClaim(claim)
		m.SetNode(node)
		for j := range onNode {
			m.SetPod(boundTo(runningPod(fmt.Sprint("p", i, "-", j)), node.Name), true)
		}
	}
	m.View(func(*cluster.Snapshot) {})
	blocked := func(by int32) {
		b := pdbOf("b", func(p *policyv1.PodDisruptionBudget) { p.Status.DisruptionsAllowed, p.Status.DesiredHealthy = 0, by })
		m.SetPDB(&b)
		m.View(func(*cluster.Snapshot) {})
	}
	for _, c := range []struct {
		name    string
		changes int // how many writes there are at least
		f       func()
	}{
		{"a PodDisruptionBudget", nodes * onNode, func() { blocked(2); blocked(3) }},
		{"a catalog", 1, func() { m.SetCatalog("default", instanceTypes(), nil) }},
		{"a view", 0, func() { m.View(func(*cluster.Snapshot) {}) }},
		{"lapses", 0, m.DropLapsed},
		{"queries", 0, func() { m.ManagedNodes(); m.CountWaiting(); m.Classes() }},
	} {
		before := m.Revision()
		h := countHolds(m)
		c.f()
		h.end()
		if written := m.Revision() - before; h.most > limit || written < uint64(c.changes) {
			t.Errorf("%s: %d writes in all, up to %d at once; want at least %d, and at most %d at once", c.name, written, h.most, c.changes, limit)
		}
	}
}

// A new catalog is written to all claims before SetCatalog returns.
func TestClaimsHaveTheNewCatalog(t *testing.T) {
	m := NewMirror(nil)
	class := kube.ClassOf(claimNamed("c").Spec.NodeClassRef)
	m.SetCatalog(class, instanceTypes(), nil)
	for i := range 3 * outdatedAtOnce {
		m.SetClaim(claimNamed(fmt.Sprint("c", i)))
	}
	m.SetCatalog(class, instanceTypes(), nil)
	if left := m.parts.nodeEvents.outdated; len(left) > 0 {
		t.Errorf("%d claims are not written", len(left))
	}
}

// What the Snapshot has is counted change by change.
func TestCountsOfNodesAndPods(t *testing.T) {
	m := NewMirror(nil)
	claim, node := joined(claimNamed("a"))
	m.SetClaim(claim)
	m.SetNode(node)
	m.SetPod(pendingPod("waits"), false)
	m.SetPod(pendingPod("goes"), false)
	m.SetPod(boundTo(runningPod("runs"), node.Name), false)
	leaves := claim.DeepCopy()
	now := node.CreationTimestamp
	leaves.DeletionTimestamp = &now
	m.SetClaim(leaves)
	launching := claimNamed("launching")
	m.SetClaim(launching)
	count := func(what string, waiting, marked, starting int) {
		t.Helper()
		b := m.parts.builder
		if b.waiting() != waiting || b.marked != marked || len(b.starting) != starting || b.anyMarkedForDeletion() != (marked > 0) {
			t.Errorf("%s: %d pods wait, %d nodes leave, %d start; want %d, %d, %d", what, b.waiting(), b.marked, len(b.starting), waiting, marked, starting)
		}
	}
	count("everything", 2, 1, 1)
	m.RemovePod(pendingPod("goes"))
	m.SetPod(boundTo(pendingPod("waits"), node.Name), false)
	count("one pod is gone, one bound", 0, 1, 1)
	m.RemoveClaim(launching)
	m.RemoveNode(node)
	m.RemoveClaim(leaves)
	count("nothing is left", 0, 0, 0)
}
