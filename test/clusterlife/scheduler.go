// SPDX-License-Identifier: Apache-2.0

package clusterlife

// scheduler binds pods as kube-scheduler does by default.
type scheduler struct {
	nodes     *nodes
	workloads *workloads
}

// run binds pods that wait and fit, oldest first, to the feasible node with the most free
// capacity left, as kube-scheduler does by default.
func (s *scheduler) run() {
	for _, p := range s.workloads.pods {
		if p.node != nil || p.gone {
			continue
		}
		if n := s.bestNode(p); n != nil {
			s.workloads.bind(p, n)
		}
	}
}

func (s *scheduler) bestNode(p *pod) *node {
	var best *node
	most := -1.0
	for _, n := range s.nodes.list {
		if !n.schedulable() || !s.feasible(p.owner, n) {
			continue
		}
		milli, mib, _ := n.free()
		if room := float64(milli)/float64(n.milli) + float64(mib)/float64(n.mib); room > most {
			best, most = n, room
		}
	}
	return best
}

// feasible reports whether kube-scheduler's filters let a pod of the workload onto the node.
func (s *scheduler) feasible(w *workload, n *node) bool {
	milli, mib, pods := n.free()
	return milli >= w.Milli && mib >= w.MiB && pods > 0 && w.Placement.admits(n.pool, n.offering.capacityType) &&
		(!w.Placement.OnePerNode || !n.runs(w)) && (!w.Placement.Spread || s.withinSkew(w, n.offering.zone))
}

// withinSkew reports whether one more pod in the zone keeps the workload within a skew of 1
// over the zones of all nodes that it may use. Tainted nodes count, as nodeTaintsPolicy
// is Ignore by default; pods that terminate do not.
func (s *scheduler) withinSkew(w *workload, zone string) bool {
	count := map[string]int{}
	for _, n := range s.nodes.list {
		if n.initialized.IsZero() || (w.Placement.Pool != "" && w.Placement.Pool != n.pool.Name) || (w.Placement.OnDemand && n.offering.capacityType != "on-demand") {
			continue
		}
		count[n.offering.zone] += 0
		for _, p := range n.pods {
			if p.owner == w && !p.terminating {
				count[n.offering.zone]++
			}
		}
	}
	least := count[zone]
	if len(count) < int(w.Placement.MinDomains) {
		least = 0
	}
	for _, pods := range count {
		least = min(least, pods)
	}
	return count[zone]+1-least <= 1
}
