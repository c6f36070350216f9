// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// mirror maintains the engine's Snapshot as karve's mirror would: nominated pods
// count as bound to their nodes.
type mirror struct {
	c              *Cluster
	builder        *cluster.Builder
	written        map[*node]nodeState
	changed        map[*pod]bool
	changedInOrder []*pod // dirty ones in order
	nominatedUntil map[string]time.Time
	instanceTypes  []offering.InstanceType
}

// nodeState is the part of a node on which the node in the Snapshot depends.
type nodeState struct {
	offering                                                 offeringKey
	price                                                    offering.Price
	initialized, notReady, deleting, departing, taint, stuck bool
}

func newMirror(c *Cluster) *mirror {
	v := &mirror{c: c, builder: cluster.NewBuilder(), written: map[*node]nodeState{}, changed: map[*pod]bool{}, nominatedUntil: map[string]time.Time{}}
	v.builder.SetDaemon(daemon())
	for _, p := range c.Pools {
		v.builder.SetPool(p.snapshotPool())
	}
	return v
}

func (v *mirror) podChanged(p *pod) {
	if !v.changed[p] {
		v.changed[p] = true
		v.changedInOrder = append(v.changedInOrder, p)
	}
}

func (v *mirror) removeNode(m *node) {
	delete(v.written, m)
	v.builder.RemoveNode(m.key)
}

// snapshot updates and returns the Snapshot.
func (v *mirror) snapshot() *cluster.Snapshot {
	if types := v.c.catalog.instanceTypes(); len(v.instanceTypes) == 0 || &types[0] != &v.instanceTypes[0] {
		v.instanceTypes = types
		v.builder.SetCatalog(class, types, nil)
	}
	for _, m := range v.c.nodes.list {
		v.updateNode(m)
	}
	v.expireNominations()
	for _, p := range v.changedInOrder {
		if p.gone {
			v.builder.RemovePod(p.uid)
		} else {
			v.builder.SetPod(p.snapshotPod(v.nodeOf(p)))
		}
		delete(v.changed, p)
	}
	v.changedInOrder = v.changedInOrder[:0]
	return v.builder.Snapshot()
}

func (v *mirror) updateNode(m *node) {
	d := m.offering
	if d.instanceType == "" {
		d = offeringKey{m.acceptable[0].Type, m.acceptable[0].Zone, m.acceptable[0].CapacityType}
	}
	now := nodeState{m.offering, v.c.catalog.price(d), !m.initialized.IsZero(), m.notReady, m.isDeleting() || m.phase >= terminating, m.podsNominatedElsewhere(), m.tainted,
		m.initialized.IsZero() && v.c.now.Sub(m.created) > v.c.Durations.RegistrationTimeout}
	if old, ok := v.written[m]; ok && old == now {
		return
	}
	v.written[m] = now
	v.builder.SetNode(v.c.nodes.snapshotNode(m))
}

// nodeOf returns the node on which the engine sees the pod: the one it is nominated to, while it
// waits or its node is being deleted, else the one where it runs.
func (v *mirror) nodeOf(p *pod) string {
	switch {
	case p.nominatedTo != "" && (p.node == nil || p.node.podsNominatedElsewhere() || p.node.isDeleting()):
		return p.nominatedTo
	case p.node != nil:
		return p.node.key
	}
	return ""
}

// nominate nominates pods to a node.
func (v *mirror) nominate(key string, refs []cluster.PodRef) {
	v.nominatedUntil[key] = v.c.now.Add(20 * time.Second)
	for _, ref := range refs {
		if p := v.c.workloads.find(ref.UID); p != nil && !p.terminating && (p.node == nil || p.node.podsNominatedElsewhere() || p.node.isDeleting()) {
			p.nominatedTo = key
			v.podChanged(p)
		}
	}
}

// expireNominations ends nominations to nodes that are deleted, that other pods filled, or that
// are ready and that the pods were not bound to.
func (v *mirror) expireNominations() {
	for _, p := range v.c.workloads.pods {
		if p.nominatedTo == "" {
			continue
		}
		m := v.c.nodes.find(p.nominatedTo)
		if m == nil || m.isDeleting() || m.podsNominatedElsewhere() || m.overcommitted(v) ||
			!m.initialized.IsZero() && p.node == nil && v.c.now.After(v.nominatedUntil[m.key]) {
			p.nominatedTo = ""
			v.podChanged(p)
		}
	}
}

// overcommitted reports whether bound and nominated pods together do not fit.
func (m *node) overcommitted(v *mirror) bool {
	if m.initialized.IsZero() {
		return false
	}
	milli, mib, pods := m.free()
	for _, p := range v.c.workloads.pods {
		if p.nominatedTo == m.key {
			milli, mib, pods = milli-p.owner.Milli, mib-p.owner.MiB, pods-1
		}
	}
	return milli < 0 || mib < 0 || pods < 0
}
