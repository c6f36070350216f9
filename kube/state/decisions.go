// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// The methods of this file record karve's decisions before any watch shows their result.

// LimitError reports that a NodeClaim would exceed a limit of its NodePool.
type LimitError struct {
	Pool  string
	Limit string // name of the resource, or "nodes"
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("nodepool %q has no room left for it within limits.%s", e.Pool, e.Limit)
}

// ReserveClaim records a claim that is about to be created, and nominates its pods to it. From then
// on it counts against the limits of its NodePool: decisions are made and carried out concurrently,
// and no two of them may use the same rest of a limit. A LimitError says that others have used the
// rest since the decision; then nothing is recorded.
//
// RecordCreatedClaim must follow once the claim is created, ReleaseClaim if it certainly is not, and
// KeepClaim after each request whose outcome is unknown.
func (m *Mirror) ReserveClaim(c NewClaim) (err error) {
	m.change(func() wakeups {
		if err = m.parts.nodeEvents.expectClaims([]NewClaim{c}, time.Now()); err != nil {
			return wakeups{}
		}
		return wakeups{pods: m.parts.nominator.nominate(c.Claim.Name, c.Pods)}
	})
	return err
}

// ReleaseClaim reverts ReserveClaim for a claim that does not exist: its pods need other capacity. It
// ignores a claim that a watch has shown.
func (m *Mirror) ReleaseClaim(name string) { m.CancelMove(nil, []string{name}) }

// KeepClaim records that a claim which no watch has shown may exist: it is not overdue for a minute.
func (m *Mirror) KeepClaim(name string) {
	m.change(func() wakeups {
		m.parts.nodes.keep(name, time.Now())
		return wakeups{}
	})
}

// OverdueClaims lists the claims that no watch has shown for more than a minute: their creation has
// failed, they were deleted before a watch showed them, or the watch is interrupted. They count until
// ReleaseClaim is called. Ask the API server, past any cache, whether they exist.
func (m *Mirror) OverdueClaims() (names []string) {
	m.change(func() wakeups {
		names = m.parts.nodes.overdue(time.Now())
		return wakeups{}
	})
	slices.Sort(names)
	return names
}

// RecordCreatedClaim records a claim that was just created, before any watch shows it, with the
// offerings it accepts and the pods it was launched for, which are nominated to it (see Nominate).
func (m *Mirror) RecordCreatedClaim(c *karpv1.NodeClaim, choices []offering.Ref, pods []cluster.PodRef) {
	m.change(func() wakeups {
		m.parts.nodeEvents.expectClaim(c, choices, time.Now())
		return wakeups{pods: m.parts.nominator.nominate(c.Name, pods)}
	})
}

// Nominate nominates pods to a node that exists or is in flight: they count as bound to it.
//
// The decision may be older than some events. Pods that need no capacity any more, or are nominated
// already, are ignored. If the node was removed, or other pods have taken its capacity, the Mirror
// wakes for the pods: the next decision is about them again.
func (m *Mirror) Nominate(key string, pods []cluster.PodRef) {
	m.change(func() wakeups { return wakeups{pods: m.parts.nominator.nominate(key, pods)} })
}

// BeginMove marks nodes for deletion although they are not deleted yet, and nominates their pods to
// other nodes. Both happen in one step, so that no decision sees the pods without a node and
// launches nodes for them. The record holds until the nodes are deleted or CancelMove is
// called; a node that is already marked stays marked.
//
// The claims may not exist yet (see RecordCreatedClaim): if they were recorded afterwards, a
// decision in between could give their capacity to other pods. As by ReserveClaim they count against
// limits: with a LimitError nothing is recorded.
func (m *Mirror) BeginMove(r BeginMoveRequest) (err error) {
	m.change(func() (w wakeups) {
		w.pods, err = m.parts.moves.begin(r)
		return w
	})
	return err
}

// CancelMove reverts BeginMove: the nodes accept pods again, their pods count as bound where they
// are, and claims that no watch has shown are forgotten.
func (m *Mirror) CancelMove(nodes, claims []string) {
	m.change(func() wakeups { return wakeups{pods: m.parts.moves.cancel(nodes, claims)} })
}

// BeginEviction records that the pod is about to be evicted, so that its owner will create a
// replacement. Call it before the eviction. It ignores a pod whose owner does not create a
// replacement at once, or does not create one at all. The record holds until the pod is
// deleted.
func (m *Mirror) BeginEviction(p *corev1.Pod) {
	m.change(func() wakeups { m.parts.evictions.begin(p); return wakeups{} })
}

// Supersede records that another pod takes the place of one that still runs: a rolling restart
// is under way. The old pod then needs no new node, and a nomination of it ends. Capacity for the
// other pod is sought when the scheduler finds that one unschedulable. It holds until the old pod is
// deleted.
func (m *Mirror) Supersede(p *corev1.Pod) {
	m.change(func() wakeups { m.parts.evictions.supersede(string(p.UID)); return wakeups{} })
}

// SetSurging sets which pods leave their drained node by a rolling restart and not by an eviction;
// pods is the complete set. No PodDisruptionBudget keeps these pods on their nodes, and
// capacity for them is sought in time. It reports whether the set changed.
func (m *Mirror) SetSurging(pods map[types.UID]bool) bool {
	others := m.pdbs.setSurging(pods)
	if len(others) == 0 {
		return false
	}
	m.change(func() wakeups {
		m.revision.increment()
		return m.parts.writePods(others)
	})
	return true
}
