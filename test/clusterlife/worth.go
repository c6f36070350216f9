// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Bill has the cost of the nodes that nothing pins, and the cost that their pods could have.
type Bill struct {
	// Paid is the price of those nodes; Pinned that of the others, by reason.
	Paid   offering.Price
	Pinned map[string]offering.Price
	// Bound is the plan's lower bound for the pods of those nodes in an empty cluster;
	// Fresh is the cost of the packer's plan there.
	Bound, Fresh offering.Price
	// Floor is a price below which those pods cannot run where they are; see floor.go. Pods of
	// their workloads on pinned nodes count for its spread over zones, and not for Fresh: that may
	// be less.
	Floor offering.Price
}

func (b Bill) String() string {
	var pinned strings.Builder
	for _, why := range sortedKeys(b.Pinned) {
		fmt.Fprintf(&pinned, ", %s by %s", b.Pinned[why], why)
	}
	return fmt.Sprintf("%s paid, %s fresh, %s floor, %s bound%s", b.Paid, b.Fresh, b.Floor, b.Bound, pinned.String())
}

// Bill compares the cluster with an empty one that gets the same pods. Nodes that some
// rule pins, and the pods on them, are left out on both sides.
func (c *Cluster) Bill() Bill {
	b := Bill{Pinned: map[string]offering.Price{}}
	build := cluster.NewBuilder()
	build.SetCatalog(class, c.market.offered(), nil)
	build.SetDaemon(daemon())
	for _, p := range c.Pools {
		build.SetPool(p.asWorld())
	}
	var pods []*pod
	for _, m := range c.machines {
		price := c.market.price(m.deal)
		if why := c.pins(m); why != "" {
			b.Pinned[why] += price
			continue
		}
		b.Paid += price
		for _, p := range m.pods {
			if !p.dying {
				build.SetPod(p.world(""))
				pods = append(pods, p)
			}
		}
	}
	plan := schedule.Solve(build.Snapshot())
	b.Bound, b.Fresh, b.Floor = plan.LowerBound, plan.Price(), c.floor(pods, b.Paid)
	return b
}

// pins is the reason why a node that could be cheaper is kept; empty when there is none.
func (c *Cluster) pins(m *machine) string {
	p := m.pool
	switch {
	case m.deleting || m.initialized.IsZero():
		return "its way"
	case m.stays:
		return "annotation"
	case p.ConsolidateAfter < 0:
		return "never"
	case p.Policy == disrupt.WhenEmpty && m.busy():
		return "policy"
	case p.Policy == disrupt.Balanced && m.busy():
		return "balance"
	case p.MinSavings > 0.05:
		return "min-savings"
	}
	for _, o := range m.pods {
		switch {
		case o.protected(c.now):
			return "do-not-disrupt"
		case o.owner.Every == 0 && o.owner.MaxDown == 0:
			return "pdb"
		}
	}
	return ""
}
