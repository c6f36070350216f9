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
type Mind interface {
	Provide(w *cluster.Snapshot) schedule.Plan
	Search(w *cluster.Snapshot, c disrupt.Cluster) disrupt.Plan
	// Recheck returns the move as it is still right, or why it is not.
	Recheck(w *cluster.Snapshot, c disrupt.Cluster, m disrupt.Move) (disrupt.Move, disrupt.Kept)
}

// view maintains the engine's Snapshot as karve's mirror would: nominated pods
// count as bound to their nodes.
type view struct {
	c        *Cluster
	builder  *cluster.Builder
	told     map[*machine]likeness
	dirty    map[*pod]bool
	order    []*pod // dirty ones in order
	promised map[string]time.Time
	onSale   []offering.InstanceType
}

// likeness is the part of a machine on which the node in the Snapshot depends.
type likeness struct {
	deal                                                     deal
	price                                                    offering.Price
	initialized, notReady, deleting, departing, taint, stuck bool
}

func newView(c *Cluster) *view {
	v := &view{c: c, builder: cluster.NewBuilder(), told: map[*machine]likeness{}, dirty: map[*pod]bool{}, promised: map[string]time.Time{}}
	v.builder.SetDaemon(daemon())
	for _, p := range c.Pools {
		v.builder.SetPool(p.asWorld())
	}
	return v
}

func (v *view) touch(p *pod) {
	if !v.dirty[p] {
		v.dirty[p] = true
		v.order = append(v.order, p)
	}
}

func (v *view) forget(m *machine) {
	delete(v.told, m)
	v.builder.RemoveNode(m.key)
}

// world updates and returns the Snapshot.
func (v *view) world() *cluster.Snapshot {
	if types := v.c.market.offered(); len(v.onSale) == 0 || &types[0] != &v.onSale[0] {
		v.onSale = types
		v.builder.SetCatalog(class, types, nil)
	}
	for _, m := range v.c.machines {
		v.tell(m)
	}
	v.lapse()
	for _, p := range v.order {
		if p.gone {
			v.builder.RemovePod(p.uid)
		} else {
			v.builder.SetPod(p.world(v.at(p)))
		}
		delete(v.dirty, p)
	}
	v.order = v.order[:0]
	return v.builder.Snapshot()
}

func (v *view) tell(m *machine) {
	d := m.deal
	if d.typ == "" {
		d = deal{m.choices[0].Type, m.choices[0].Zone, m.choices[0].CapacityType}
	}
	now := likeness{m.deal, v.c.market.price(d), !m.initialized.IsZero(), m.notReady, m.deleting || m.terminating, m.departing(), m.tainted,
		m.initialized.IsZero() && v.c.now.Sub(m.created) > v.c.Pace.GiveUp}
	if old, ok := v.told[m]; ok && old == now {
		return
	}
	v.told[m] = now
	v.builder.SetNode(v.c.node(m))
}

// at returns the node on which the engine sees the pod: the one it is nominated to, while it
// waits or its node is being deleted, else the one where it runs.
func (v *view) at(p *pod) string {
	switch {
	case p.promise != "" && (p.node == nil || p.node.departing() || p.node.deleting):
		return p.promise
	case p.node != nil:
		return p.node.key
	}
	return ""
}

// promise nominates pods to a node.
func (v *view) promise(key string, refs []cluster.PodRef) {
	v.promised[key] = v.c.now.Add(20 * time.Second)
	for _, ref := range refs {
		if p := v.c.find(ref.UID); p != nil && !p.dying && (p.node == nil || p.node.departing() || p.node.deleting) {
			p.promise = key
			v.touch(p)
		}
	}
}

// lapse ends nominations to nodes that are deleted, that other pods filled, or that are ready and
// that the pods were not bound to.
func (v *view) lapse() {
	for _, p := range v.c.pods {
		if p.promise == "" {
			continue
		}
		m := v.c.machine(p.promise)
		if m == nil || m.gone || m.deleting || m.departing() || m.full(v) ||
			!m.initialized.IsZero() && p.node == nil && v.c.now.After(v.promised[m.key]) {
			p.promise = ""
			v.touch(p)
		}
	}
}

// full reports whether bound and nominated pods together do not fit.
func (m *machine) full(v *view) bool {
	if m.initialized.IsZero() {
		return false
	}
	milli, mib, pods := m.free()
	for _, p := range v.c.pods {
		if p.promise == m.key {
			milli, mib, pods = milli-p.owner.Milli, mib-p.owner.MiB, pods-1
		}
	}
	return milli < 0 || mib < 0 || pods < 0
}

func (c *Cluster) find(uid string) *pod {
	for _, p := range c.pods {
		if p.uid == uid {
			return p
		}
	}
	return nil
}

func (c *Cluster) machine(key string) *machine {
	for _, m := range c.machines {
		if m.key == key {
			return m
		}
	}
	return nil
}

// facts are the inputs of a decision about nodes besides the Snapshot. The move itself, when
// it is checked again, is not under way.
func (c *Cluster) facts(but *move) disrupt.Cluster {
	d := disrupt.Cluster{Now: c.now, Resting: c.resting, Settings: c.Settings}
	for _, m := range c.machines {
		d.Nodes = append(d.Nodes, c.nodeFacts(m, but))
	}
	for _, p := range c.Pools {
		pool := p.asDisrupt(c.now)
		pool.Unsettled = c.lulls[p].until
		d.Pools = append(d.Pools, pool)
	}
	for _, m := range c.moves {
		if m != but && m.stage < launched {
			d.Underway = append(d.Underway, m.Move)
		}
	}
	return d
}

func (c *Cluster) nodeFacts(m *machine, but *move) disrupt.Node {
	n := disrupt.Node{
		Key: m.key, Name: m.key, Pool: m.pool.Name, Created: m.created, Initialized: m.initialized, Ready: m.ready(),
		Leaving: m.deleting || m.departing(), Terminating: m.terminating, QuietSince: m.quiet(), ExpireAfter: m.pool.ExpireAfter,
		Grace: m.pool.Grace > 0,
	}
	if m.stays {
		n.Blocks = append(n.Blocks, disrupt.Block{Because: disrupt.DoNotDisrupt, Detail: `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`})
	}
	for _, p := range m.pods {
		if p.dying {
			continue
		}
		n.Pods++
		n.Cost++
		n.Blocks = append(n.Blocks, c.blocks(p)...)
		n.PDBs = guarded(n.PDBs, p)
	}
	n.Nominated = slices.ContainsFunc(c.pods, func(p *pod) bool { return p.promise == m.key }) || c.now.Before(c.view.promised[m.key])
	if m.version != m.pool.Version {
		n.Due = append(n.Due, disrupt.Due{Cause: disrupt.Drifted, Detail: "NodePoolDrifted", Since: m.created})
	}
	if end := m.created.Add(m.pool.ExpireAfter); m.pool.ExpireAfter > 0 && !end.After(c.now) {
		n.Due = append(n.Due, disrupt.Due{Cause: disrupt.Expired, Detail: "Expired", Since: end})
	}
	return n
}

// guarded records that the pod has a disruption budget that allows some evictions.
func guarded(guards []disrupt.PDB, p *pod) []disrupt.PDB {
	w := p.owner
	if w.Every != 0 || w.MaxDown < 0 || w.allowed() == 0 {
		return guards
	}
	at := slices.IndexFunc(guards, func(g disrupt.PDB) bool { return g.Name == w.Name })
	if at < 0 {
		at = len(guards)
		guards = append(guards, disrupt.PDB{Name: w.Name, Allowed: w.allowed()})
	}
	guards[at].Pods = append(guards[at].Pods, p.uid)
	return guards
}

func (c *Cluster) blocks(p *pod) []disrupt.Block {
	var out []disrupt.Block
	if p.protected(c.now) {
		b := disrupt.Block{Because: disrupt.DoNotDisrupt, Detail: `Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/` + p.uid + `)`, Pod: true}
		if p.owner.ProtectFor > 0 {
			b.Until = p.bound.Add(p.owner.ProtectFor)
		}
		out = append(out, b)
	}
	if p.owner.allowed() == 0 {
		out = append(out, disrupt.Block{Because: disrupt.PodDisruptionBudget, Detail: "Pdb prevents pod evictions (PodDisruptionBudget=default/" + p.owner.Name + ")", Pod: true})
	}
	return out
}
