// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"time"

	"github.com/karve-dev/karve/engine/cluster"
)

// pod is one pod.
type pod struct {
	uid         string
	owner       *workload
	version     int
	node        *node // nil while pending
	created     time.Time
	bound       time.Time
	ready       bool
	terminating bool // terminating
	gone        bool
	evicted     bool // replaces one that was evicted for a move
	nominatedTo string
}

// snapshotPod returns the pod as the engine sees it on a node, empty for none.
func (p *pod) snapshotPod(node string) cluster.Pod {
	w := p.owner.podSpec
	w.PodRef = cluster.PodRef{Namespace: "default", Name: p.uid, UID: p.uid}
	w.Created, w.Node, w.Terminating, w.ReschedulableNow = p.created, node, p.terminating, !p.terminating && !p.neverEvictable()
	return w
}

// neverEvictable reports whether the pod's node is being deleted and the pod's eviction is never
// allowed: no node need be launched for it.
func (p *pod) neverEvictable() bool {
	return p.node != nil && p.node.isDeleting() && p.node.deadline.IsZero() &&
		(!p.owner.isJob() && p.owner.MaxUnavailable == 0 || p.owner.DoNotDisrupt && p.owner.ProtectFor == 0)
}

// protected reports whether do-not-disrupt holds for the pod now.
func (p *pod) protected(now time.Time) bool {
	switch {
	case p.terminating || !p.owner.DoNotDisrupt:
		return false
	case p.owner.ProtectFor == 0 || p.node == nil:
		return true
	}
	return now.Sub(p.bound) < p.owner.ProtectFor
}
