// SPDX-License-Identifier: Apache-2.0

package clusterlife

// schedule binds pods that wait and fit, oldest first, to the feasible node with the most free
// capacity left, as kube-scheduler does by default.
func (c *Cluster) schedule() {
	for _, p := range c.pods {
		if p.node != nil || p.gone {
			continue
		}
		if m := c.bestNode(p); m != nil {
			c.bindPod(p, m)
		}
	}
}

func (c *Cluster) bestNode(p *pod) *node {
	var best *node
	most := -1.0
	for _, m := range c.machines {
		if !m.schedulable() || !c.feasible(p.owner, m) {
			continue
		}
		milli, mib, _ := m.free()
		if room := float64(milli)/float64(m.milli) + float64(mib)/float64(m.mib); room > most {
			best, most = m, room
		}
	}
	return best
}

// feasible reports whether kube-scheduler's filters let a pod of the workload onto the node.
func (c *Cluster) feasible(w *workload, m *node) bool {
	milli, mib, pods := m.free()
	return milli >= w.Milli && mib >= w.MiB && pods > 0 && w.admitted(m) &&
		(!w.OnePerNode || !m.runs(w)) && (!w.Spread || c.withinSkew(w, m.offering.zone))
}

// admitted evaluates node selectors and the pool's taints.
func (w *workload) admitted(m *node) bool {
	return (w.Pool == "" || w.Pool == m.pool.Name) && (!w.OnDemand || m.offering.capacityType == "on-demand") &&
		(m.pool.Taint == "" || m.pool.Taint == w.Tolerates)
}

// runs reports whether a pod of the workload is there, on its way out or not.
func (m *node) runs(w *workload) bool {
	for _, p := range m.pods {
		if p.owner == w {
			return true
		}
	}
	return false
}

// even reports whether one more pod in the zone keeps the workload within a skew of 1
// over the zones of all nodes that it may use. Tainted nodes count, as nodeTaintsPolicy
// is Ignore by default; pods that terminate do not.
func (c *Cluster) withinSkew(w *workload, zone string) bool {
	count := map[string]int{}
	for _, m := range c.machines {
		if m.initialized.IsZero() || (w.Pool != "" && w.Pool != m.pool.Name) || (w.OnDemand && m.offering.capacityType != "on-demand") {
			continue
		}
		count[m.offering.zone] += 0
		for _, p := range m.pods {
			if p.owner == w && !p.terminating {
				count[m.offering.zone]++
			}
		}
	}
	least := count[zone]
	if len(count) < int(w.Domains) {
		least = 0
	}
	for _, n := range count {
		least = min(least, n)
	}
	return count[zone]+1-least <= 1
}
