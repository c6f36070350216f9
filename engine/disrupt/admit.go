package disrupt

import "github.com/karve-dev/karve/engine/cluster"

// admit opens nodes that are merely busy to the pods of nodes that are due. Whoever moves
// there for money may move again soon, or find it filled up; what must go needs a home
// now, and else a machine would be bought while there is room.
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

// busy nodes would be homes if no pod had come or gone there.
func (s *search) busy(n *node) bool {
	if n.host == nil || n.gone || n.wanders() || CanReceive(n.Node, n.pool, s.c) {
		return false
	}
	return CanReceive(n.Node, nil, s.c)
}

// dismiss shuts them again.
func (s *search) dismiss() {
	s.admitted = false
	for _, n := range s.nodes {
		if n.admitted && !n.gone {
			s.whatIf.Cordon(n.host)
		}
		n.admitted = false
	}
}
