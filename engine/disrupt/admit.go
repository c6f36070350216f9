package disrupt

import "github.com/karve-dev/karve/engine/cluster"

// admit lets pods of nodes that are due move to nodes that are not quiet. Consolidation avoids
// such nodes, as they may be consolidated or filled up soon. But pods of a node that is due need
// a node now, and otherwise one would be launched although there is free capacity.
func (s *search) admit() {
	if s.admitted {
		return
	}
	s.admitted = true
	var open []*cluster.NodeInfo
	for _, n := range s.nodes {
		if n.admitted = s.busy(n); n.admitted {
			open = append(open, n.host)
		}
	}
	s.whatIf.Uncordon(open...)
}

// busy reports whether the node takes no pods only because it is not quiet.
func (s *search) busy(n *node) bool {
	if n.host == nil || n.gone || n.wanders() || CanReceive(n.Node, n.pool, s.c) {
		return false
	}
	return CanReceive(n.Node, nil, s.c)
}

// dismiss cordons them again.
func (s *search) dismiss() {
	s.admitted = false
	for _, n := range s.nodes {
		if n.admitted && !n.gone {
			s.whatIf.Cordon(n.host)
		}
		n.admitted = false
	}
}
