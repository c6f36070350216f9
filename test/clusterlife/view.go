// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Mind decides. Engine is the real one; tests put broken ones in its place to see that
// the Watch notices.
type Decider interface {
	Solve(w *cluster.Snapshot) schedule.Plan
	Search(w *cluster.Snapshot, c disrupt.Cluster) disrupt.Plan
	// Recheck returns the move as it is still right, or why it is not.
	Recheck(w *cluster.Snapshot, c disrupt.Cluster, m disrupt.Move) (disrupt.Move, disrupt.Kept)
}

// view maintains the engine's Snapshot as karve's mirror would: nominated pods
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

// likeness is the part of a machine on which the node in the Snapshot depends.
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

// world updates and returns the Snapshot.
func (v *mirror) snapshot() *cluster.Snapshot {
	if types := v.c.catalog.instanceTypes(); len(v.instanceTypes) == 0 || &types[0] != &v.instanceTypes[0] {
		v.instanceTypes = types
		v.builder.SetCatalog(class, types, nil)
	}
	for _, m := range v.c.machines {
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
	now := nodeState{m.offering, v.c.catalog.price(d), !m.initialized.IsZero(), m.notReady, m.deleting || m.terminating, m.podsNominatedElsewhere(), m.tainted,
		m.initialized.IsZero() && v.c.now.Sub(m.created) > v.c.Durations.RegistrationTimeout}
	if old, ok := v.written[m]; ok && old == now {
		return
	}
	v.written[m] = now
	v.builder.SetNode(v.c.snapshotNode(m))
}

// at returns the node on which the engine sees the pod: the one it is nominated to, while it
// waits or its node is being deleted, else the one where it runs.
func (v *mirror) nodeOf(p *pod) string {
	switch {
	case p.nominatedTo != "" && (p.node == nil || p.node.podsNominatedElsewhere() || p.node.deleting):
		return p.nominatedTo
	case p.node != nil:
		return p.node.key
	}
	return ""
}

// promise nominates pods to a node.
func (v *mirror) nominate(key string, refs []cluster.PodRef) {
	v.nominatedUntil[key] = v.c.now.Add(20 * time.Second)
	for _, ref := range refs {
		if p := v.c.findPod(ref.UID); p != nil && !p.terminating && (p.node == nil || p.node.podsNominatedElsewhere() || p.node.deleting) {
			p.nominatedTo = key
			v.podChanged(p)
		}
	}
}

// lapse ends nominations to nodes that are deleted, that other pods filled, or that are ready and
// that the pods were not bound to.
func (v *mirror) expireNominations() {
	for _, p := range v.c.pods {
		if p.nominatedTo == "" {
			continue
		}
		m := v.c.findNode(p.nominatedTo)
		if m == nil || m.gone || m.deleting || m.podsNominatedElsewhere() || m.overcommitted(v) ||
			!m.initialized.IsZero() && p.node == nil && v.c.now.After(v.nominatedUntil[m.key]) {
			p.nominatedTo = ""
			v.podChanged(p)
		}
	}
}

// full reports whether bound and nominated pods together do not fit.
func (m *node) overcommitted(v *mirror) bool {
	if m.initialized.IsZero() {
		return false
	}
	milli, mib, pods := m.free()
	for _, p := range v.c.pods {
		if p.nominatedTo == m.key {
			milli, mib, pods = milli-p.owner.Milli, mib-p.owner.MiB, pods-1
		}
	}
	return milli < 0 || mib < 0 || pods < 0
}

func (c *Cluster) findPod(uid string) *pod {
	for _, p := range c.pods {
		if p.uid == uid {
			return p
		}
	}
	return nil
}

func (c *Cluster) findNode(key string) *node {
	for _, m := range c.machines {
		if m.key == key {
			return m
		}
	}
	return nil
}

// facts are the inputs of a decision about nodes besides the Snapshot. The move itself, when
// it is checked again, is not under way.
func (c *Cluster) disruptionInput(but *move) disrupt.Cluster {
	d := disrupt.Cluster{Now: c.now, BackOffUntil: c.backoff, Settings: c.Settings}
	for _, m := range c.machines {
		d.Nodes = append(d.Nodes, c.nodeInput(m, but))
	}
	for _, p := range c.Pools {
		pool := p.disruptionPool(c.now)
		pool.ConsolidationPausedUntil = c.pauses[p].until
		d.Pools = append(d.Pools, pool)
	}
	for _, m := range c.moves {
		if m != but && m.stage < launched {
			d.Underway = append(d.Underway, m.Move)
		}
	}
	return d
}

func (c *Cluster) nodeInput(m *node, but *move) disrupt.Node {
	n := disrupt.Node{
		Key: m.key, Name: m.key, Pool: m.pool.Name, Created: m.created, Initialized: m.initialized, Ready: m.ready(),
		MarkedForDeletion: m.deleting || m.podsNominatedElsewhere(), Terminating: m.terminating, LastPodEvent: m.quietSince(), ExpireAfter: m.pool.ExpireAfter,
		HasTerminationGracePeriod: m.pool.TerminationGracePeriod > 0,
	}
	if m.doNotDisrupt {
		n.Blocks = append(n.Blocks, disrupt.Block{Because: disrupt.DoNotDisrupt, Detail: `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`})
	}
	for _, p := range m.pods {
		if p.terminating {
			continue
		}
		n.Pods++
		n.EvictionCost++
		n.Blocks = append(n.Blocks, c.blocks(p)...)
		n.PDBs = addPDB(n.PDBs, p)
	}
	n.Nominated = slices.ContainsFunc(c.pods, func(p *pod) bool { return p.nominatedTo == m.key }) || c.now.Before(c.mirror.nominatedUntil[m.key])
	if m.version != m.pool.Version {
		n.Due = append(n.Due, disrupt.Due{Cause: disrupt.Drifted, Detail: "NodePoolDrifted", Since: m.created})
	}
	if end := m.created.Add(m.pool.ExpireAfter); m.pool.ExpireAfter > 0 && !end.After(c.now) {
		n.Due = append(n.Due, disrupt.Due{Cause: disrupt.Expired, Detail: "Expired", Since: end})
	}
	return n
}

// guarded records that the pod has a disruption budget that allows some evictions.
func addPDB(guards []disrupt.PDB, p *pod) []disrupt.PDB {
	w := p.owner
	if w.Every != 0 || w.MaxUnavailable < 0 || w.allowedEvictions() == 0 {
		return guards
	}
	at := slices.IndexFunc(guards, func(g disrupt.PDB) bool { return g.Name == w.Name })
	if at < 0 {
		at = len(guards)
		guards = append(guards, disrupt.PDB{Name: w.Name, Allowed: w.allowedEvictions()})
	}
	guards[at].Pods = append(guards[at].Pods, p.uid)
	return guards
}

func (c *Cluster) blocks(p *pod) []disrupt.Block {
	var out []disrupt.Block
	if p.protected(c.now) {
		b := disrupt.Block{Because: disrupt.DoNotDisrupt, Detail: `Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/` + p.uid + `)`, ByPod: true}
		if p.owner.ProtectFor > 0 {
			b.Until = p.bound.Add(p.owner.ProtectFor)
		}
		out = append(out, b)
	}
	if p.owner.allowedEvictions() == 0 {
		out = append(out, disrupt.Block{Because: disrupt.PodDisruptionBudget, Detail: "Pdb prevents pod evictions (PodDisruptionBudget=default/" + p.owner.Name + ")", ByPod: true})
	}
	return out
}
