// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// drafts supposes changes to a snapshot and asks package schedule where pods would go.
type drafts struct {
	before *cluster.Snapshot // without any of the changes
	whatIf *cluster.WhatIf
	steps  int             // how many sets of nodes were tried, also without a draft; see Settings.MaxSteps
	labels map[string]bool // by which pods distinguish nodes: the only ones that nodes of launches need
}

func newDrafts(snapshot *cluster.Snapshot) *drafts {
	s := &drafts{before: snapshot, whatIf: snapshot.WhatIf(), labels: map[string]bool{}}
	for _, k := range snapshot.LabelsUsedOrPreferred() {
		s.labels[k.Name] = true
	}
	return s
}

// snapshot is the snapshot with the changes supposed so far.
func (s *drafts) snapshot() *cluster.Snapshot { return s.whatIf.Snapshot() }

func (s *drafts) rollback(to cluster.Savepoint) { s.whatIf.RollbackTo(to) }

// without removes the nodes and drafts where their pods go, for at most the maximum price. The
// caller rolls back to the returned mark.
func (s *drafts) without(set []*node, maxPrice offering.Price) (*schedule.Draft, cluster.Savepoint) {
	mark := s.remove(set)
	return schedule.NewDraft(s.snapshot(), maxPrice), mark
}

// remove removes the nodes for a draft, and counts one step.
func (s *drafts) remove(set []*node) cluster.Savepoint {
	s.steps++
	mark := s.whatIf.Savepoint()
	infos := make([]*cluster.NodeInfo, len(set))
	for i, n := range set {
		infos[i] = n.info
	}
	s.whatIf.RemoveNodes(infos...)
	return mark
}

// apply supposes that the move was carried out: its nodes are removed, its launches are nodes,
// and its pods run on the nodes planned for them. A move that is draining is in the snapshot
// already. If pods were bound to its nodes since the move was decided, its nodes keep all pods
// and only take no more pods. apply returns the pods that moved, by node.
func (s *drafts) apply(m *Move) arrivals {
	infos := s.existing(m)
	if len(infos) == 0 {
		return nil
	}
	before := s.whatIf.Savepoint()
	s.whatIf.RemoveNodes(infos...)
	var placements []cluster.Placement
	for _, r := range m.Nominations {
		if receiver := s.before.NodeByKey(r.Node); receiver != nil && !receiver.MarkedForDeletion {
			placements = append(placements, cluster.Placement{Pods: r.Pods, Node: receiver})
		}
	}
	kinds := map[*offering.Ref]cluster.Node{} // equal launches share their offerings
	for i := range m.Launches {
		l := &m.Launches[i]
		kind, known := kinds[&l.Offerings[0]]
		if !known {
			kind = s.nodeOfLaunch(l)
			kinds[&l.Offerings[0]] = kind
		}
		launched := s.whatIf.AddNode(launchedNode(l, kind, fmt.Sprintf("%s/%d", m.Nodes[0], i)))
		placements = append(placements, cluster.Placement{Pods: l.Pods, Node: launched})
	}
	arrived := arrivals{}
	for i, classes := range s.whatIf.Place(placements...) {
		arrived.addPods(classes, placements[i].Node)
	}
	if len(s.whatIf.Snapshot().Classes) == 0 {
		return arrived
	}
	s.whatIf.RollbackTo(before)
	for _, info := range infos {
		s.whatIf.StopTakingPods(info)
	}
	return nil
}

// existing are the nodes of the move that still exist; none once one of them is leaving.
func (s *drafts) existing(m *Move) []*cluster.NodeInfo {
	var out []*cluster.NodeInfo
	for _, key := range m.Nodes {
		switch info := s.before.NodeByKey(key); {
		case info == nil:
		case info.MarkedForDeletion:
			return nil
		default:
			out = append(out, info)
		}
	}
	return out
}

// nodeOfLaunch is the node that a launch becomes, as far as that is certain. Its capacity is that
// of the largest offering, its allocatable that of the smallest, its quota use that of the first,
// and it has the labels that pods use and all offerings share.
func (s *drafts) nodeOfLaunch(l *schedule.Launch) cluster.Node {
	n := cluster.Node{Pool: l.Pool, HasNodeClaim: true, Price: l.Offerings[0].Price}
	if m := s.before.PoolCatalogOf(l.Pool); m != nil {
		size := m.Catalog.NodeSize(l.Offerings)
		n.Capacity, n.Allocatable = size.Capacity, size.Allocatable
		n.Labels = s.sharedLabels(l.Offerings, m.Catalog)
		if t := m.Catalog.InstanceType(l.Offerings[0].Type); t != nil {
			n.QuotaUses = t.QuotaUses(l.Offerings[0])
		}
	}
	return n
}

// launchedNode is a node of that kind, with what else is settled about the launch.
func launchedNode(l *schedule.Launch, kind cluster.Node, key string) cluster.Node {
	n := kind
	n.Key, n.Taints = key, l.Taints
	n.Labels = make(map[string]string, len(kind.Labels)+len(l.Labels)+1)
	maps.Copy(n.Labels, kind.Labels)
	maps.Copy(n.Labels, l.Labels)
	n.Labels[cluster.LabelNodePool] = l.Pool
	return n
}

// sharedLabels are the labels that a node has whichever offering is launched, of those that pods use.
func (s *drafts) sharedLabels(offerings []offering.Ref, on *offering.Catalog) map[string]string {
	var common []label
	alike := map[string]bool{} // types none of whose offerings has labels of its own: one stands for all
	for at, c := range offerings {
		if alike[c.Type] {
			continue
		}
		t := on.InstanceType(c.Type)
		if t == nil {
			continue
		}
		alike[c.Type] = !slices.ContainsFunc(t.Offerings, func(o offering.Offering) bool { return len(o.Labels) > 0 })
		o := t.Offering(c)
		if at == 0 {
			common = s.collect(nil, t.Labels)
			if o != nil {
				common = s.collect(common, o.Labels)
			}
		}
		if len(common) == 0 {
			break
		}
		common = slices.DeleteFunc(common, func(l label) bool { return !settled(t, o, l.key, l.value) })
	}
	out := make(map[string]string, len(common))
	for _, l := range common {
		out[l.key] = l.value
	}
	return out
}

type label struct{ key, value string }

// collect adds those of the labels that pods use and that have exactly one value.
func (s *drafts) collect(out []label, labels map[string][]string) []label {
	for key, values := range labels {
		if len(values) == 1 && s.labels[key] {
			out = append(out, label{key, values[0]})
		}
	}
	return out
}

// settled reports whether nodes of that offering have that value of the label and no other.
func settled(t *offering.InstanceType, o *offering.Offering, key, value string) bool {
	values := t.Labels[key]
	if o != nil && len(o.Labels[key]) > 0 {
		values = o.Labels[key]
	}
	return len(values) == 1 && values[0] == value
}
