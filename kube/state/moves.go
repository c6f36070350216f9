// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// BeginMoveRequest lists nodes that will be deleted once their replacements are initialized.
type BeginMoveRequest struct {
	Nodes []string // keys
	// Nominations are to existing nodes where pods fit; NewClaims are the NodeClaims that are
	// created for the other pods.
	Nominations []schedule.Nomination
	NewClaims   []NewClaim
}

// NewClaim is a claim that is about to be created, or was created just now.
type NewClaim struct {
	Claim     *karpv1.NodeClaim
	Offerings []offering.Ref
	Pods      []cluster.PodRef
}

// moves marks nodes that will be deleted, and keeps capacity for their pods meanwhile.
type moves struct {
	nodes       *nodeStore
	pods        *podStore
	nominations *nominations
	builder     *builder
	podWriter   *podWriter
	nodeWriter  *nodeWriter
	nodeEvents  *nodeEvents
	nominator   *nominator
}

// begin marks nodes for deletion and nominates their pods to others; see Mirror.BeginMove. Like
// cancel it returns the pods that start to need capacity.
func (m *moves) begin(r BeginMoveRequest) (waiting []string, err error) {
	if err := m.nodeEvents.expectClaims(r.NewClaims, time.Now()); err != nil {
		return nil, err
	}
	for _, key := range r.Nodes {
		if m.nodes.beginMove(key) {
			waiting = append(waiting, m.nodeWriter.writeClaim(key)...)
		}
	}
	for _, n := range r.Nominations {
		waiting = append(waiting, m.nominator.nominate(n.Node, n.Pods)...)
	}
	for _, l := range r.NewClaims {
		waiting = append(waiting, m.nominator.nominate(l.Claim.Name, l.Pods)...)
	}
	return m.nominations.notNominated(waiting), nil
}

// cancel reverts begin for those nodes, and forgets those of the claims that no watch has shown.
func (m *moves) cancel(nodes, claims []string) (waiting []string) {
	for _, key := range nodes {
		if m.nodes.cancelMove(key) {
			waiting = append(waiting, m.keepNode(key)...)
		}
	}
	for _, name := range claims {
		if m.nodes.isUnseen(name) {
			waiting = append(waiting, m.nodeEvents.removeClaim(m.nodes.claim(name))...)
		}
	}
	return waiting
}

// keepNode makes the pods of a node that is not removed after all count as bound there. It returns
// the pods that need capacity all the same because the node was deleted meanwhile.
func (m *moves) keepNode(key string) (waiting []string) {
	waiting = m.nodeWriter.writeClaim(key)
	n, _ := m.builder.node(key)
	for uid := range m.pods.on(n.Name) {
		if !n.MarkedForDeletion {
			m.nominations.remove(uid)
		}
		waiting = append(waiting, m.podWriter.write(uid)...)
	}
	return waiting
}
