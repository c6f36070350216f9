// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"

	"github.com/karve-dev/karve/engine/disrupt"
)

// input are the inputs of a decision about nodes besides the Snapshot. The move itself, when
// it is checked again, is not under way.
func (d *disruption) input(but *move) disrupt.Input {
	in := disrupt.Input{Now: d.c.now, BackOffUntil: d.backoff, Settings: d.c.Settings}
	for _, M0 := range d.c.nodes.list {
		in.Nodes = append(in.Nodes, d.nodeInput(M0, but))
	}
	for _, p := range d.c.Pools {
		pool := p.disruptionPool(d.c.now)
		pool.ConsolidationPausedUntil = d.c.undone.pauses[p].until
		in.Pools = append(in.Pools, pool)
	}
	for _, M0 := range d.moves {
		if M0 != but && M0.stage < launched {
			in.Underway = append(in.Underway, M0.Move)
		}
	}
	return in
}

func (d *disruption) nodeInput(n *node, but *move) disrupt.Node {
	in := disrupt.Node{
		Key: n.key, Name: n.key, Pool: n.pool.Name, Created: n.created, Initialized: n.initialized, Ready: n.ready(),
		MarkedForDeletion: n.isDeleting() || n.podsNominatedElsewhere(), Terminating: n.phase >= terminating, LastPodEvent: n.quietSince(), ExpireAfter: n.pool.ExpireAfter,
		HasTerminationGracePeriod: n.pool.TerminationGracePeriod > 0,
	}
	if n.doNotDisrupt {
		in.Blocks = append(in.Blocks, disrupt.Block{Because: disrupt.DoNotDisrupt, Detail: `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`})
	}
	for _, p := range n.pods {
		if p.terminating {
			continue
		}
		in.Pods++
		in.EvictionCost++
		in.Blocks = append(in.Blocks, d.blocks(p)...)
		in.PDBs = addPDB(in.PDBs, p)
	}
	in.Nominated = slices.ContainsFunc(d.c.workloads.pods, func(p *pod) bool { return p.nominatedTo == n.key }) || d.c.now.Before(d.c.mirror.nominatedUntil[n.key])
	if n.version != n.pool.Version {
		in.Due = append(in.Due, disrupt.DueCause{Cause: disrupt.Drifted, Detail: "NodePoolDrifted", Since: n.created})
	}
	if end := n.created.Add(n.pool.ExpireAfter); n.pool.ExpireAfter > 0 && !end.After(d.c.now) {
		in.Due = append(in.Due, disrupt.DueCause{Cause: disrupt.Expired, Detail: "Expired", Since: end})
	}
	return in
}

// addPDB records that the pod has a disruption budget that allows some evictions.
func addPDB(guards []disrupt.PDB, p *pod) []disrupt.PDB {
	w := p.owner
	if w.isJob() || w.MaxUnavailable < 0 || w.allowedEvictions() == 0 {
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

func (d *disruption) blocks(p *pod) []disrupt.Block {
	var out []disrupt.Block
	if p.protected(d.c.now) {
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
