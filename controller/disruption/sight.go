package disruption

import (
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// sight is the cluster as one round sees it.
type sight struct {
	now      time.Time
	round    int
	machines map[string]kube.Machine // by claim
	nodes    []disrupt.Node          // those with a node and a pool, by key
	pools    map[string]disrupt.Pool
	revision uint64 // of the mirror, no newer than what is seen
}

func (c *Controller) read(now time.Time) *sight {
	s := &sight{now: now, round: c.round, machines: map[string]kube.Machine{}, pools: map[string]disrupt.Pool{}, revision: c.Mirror.Revision()}
	for _, m := range c.Mirror.Machines() {
		s.machines[m.Claim.Name] = m
		if m.Node == nil || m.World.Pool == "" {
			continue // nothing to be given back yet, or nobody's rules to follow
		}
		s.nodes = append(s.nodes, c.nodeOf(m, now))
	}
	for _, p := range c.Mirror.Pools() { // those without nodes, too: something may be bought there
		s.pools[p.Name] = c.poolOf(p, now)
	}
	return s
}

// leaving reports whether somebody deleted the claim or its node, or both are gone.
func leaving(m kube.Machine) bool {
	return m.Claim == nil || m.Claim.DeletionTimestamp != nil || m.Node != nil && m.Node.DeletionTimestamp != nil
}

// left lists the move's nodes that leave, whoever wants it, or that are gone.
func (s *sight) left(m *move) []string {
	var keys []string
	for _, key := range m.Nodes {
		if leaving(s.machines[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// showsMarks reports whether the claim stays and is marked, or its node is.
func showsMarks(m kube.Machine) bool {
	return !leaving(m) && (m.Claim.Annotations[kube.MoveAnnotation] != "" || tainted(m.Node) ||
		kube.ConditionTrue(m.Claim, karpv1.ConditionTypeDisruptionReason))
}

// clean reports whether no node of the move shows marks any more.
func (s *sight) clean(m *move) bool {
	return !slices.ContainsFunc(m.all, func(key string) bool { return showsMarks(s.machines[key]) })
}

// trailing lists nodes that a move let go, and that look as if nothing had become of
// them: asked to go after the sight was taken, they are down all the same; and while they
// show its marks, marks of another move could not be told from those that must come off.
func (s *sight) trailing(m *move) []string {
	var keys []string
	for _, key := range m.all {
		machine := s.machines[key]
		if (m.gone[key] || m.phase == over) && !leaving(machine) && (m.round == s.round || showsMarks(machine)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// cluster is what decisions read besides the World; without is a move to leave out.
func (c *Controller) cluster(s *sight, without *move) disrupt.Cluster {
	d := disrupt.Cluster{Now: s.now, Nodes: s.nodes, Resting: c.rests.current(s.now), Settings: c.Settings}
	for _, p := range s.pools {
		p.Resting, p.Unsettled = c.rests.byPool[p.Name].Until, c.relapses.rest(p.Name)
		d.Pools = append(d.Pools, p)
	}
	for _, m := range c.inOrder() {
		if m != without && m.phase != over {
			d.Underway = append(d.Underway, m.underway())
		}
		if trailing := s.trailing(m); len(trailing) > 0 {
			d.Underway = append(d.Underway, disrupt.Move{Cause: m.Cause, Nodes: trailing})
		}
	}
	return d
}

// underway is the move as decisions count it. Where its pods go the World says itself
// once it was told.
func (m *move) underway() disrupt.Move {
	u := m.Move
	if m.departed || m.phase == undoing {
		u.Receivers, u.Launches = nil, nil
	}
	return u
}
