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

// Costs has the cost of the nodes that no rule keeps, and the cost that their pods could have.
type Costs struct {
	// Actual is the price of those nodes; Blocked that of the others, by reason.
	Actual  offering.Price
	Blocked map[string]offering.Price
	// SolveBound is the plan's lower bound for the pods of those nodes in an empty cluster;
	// NewCluster is the cost of the packer's plan there.
	SolveBound, NewCluster offering.Price
	// Floor is a price below which those pods cannot run where they are; see floor.go. Pods of
	// their workloads on pinned nodes count for its spread over zones, and not for NewCluster:
	// that may be less.
	Floor offering.Price
}

func (b Costs) String() string {
	var pinned strings.Builder
	for _, why := range sortedKeys(b.Blocked) {
		fmt.Fprintf(&pinned, ", %s by %s", b.Blocked[why], why)
	}
	return fmt.Sprintf("%s paid, %s fresh, %s floor, %s bound%s", b.Actual, b.NewCluster, b.Floor, b.SolveBound, pinned.String())
}

// Costs compares the cluster with an empty one that gets the same pods. Nodes that some
// rule keeps, and the pods on them, are left out on both sides.
func (c *Cluster) Costs() Costs {
	b := Costs{Blocked: map[string]offering.Price{}}
	build := cluster.NewBuilder()
	build.SetCatalog(class, c.catalog.instanceTypes(), nil)
	build.SetDaemon(daemon())
	for _, p := range c.Pools {
		build.SetPool(p.snapshotPool())
	}
	var pods []*pod
	for _, m := range c.nodes.list {
		price := c.catalog.price(m.offering)
		if why := c.blockedBy(m); why != "" {
			b.Blocked[why] += price
			continue
		}
		b.Actual += price
		for _, p := range m.pods {
			if !p.terminating {
				build.SetPod(p.snapshotPod(""))
				pods = append(pods, p)
			}
		}
	}
	plan := schedule.Solve(build.Snapshot())
	b.SolveBound, b.NewCluster, b.Floor = plan.LowerBound, plan.Price(), c.floor(pods, b.Actual)
	return b
}

// blockedBy is the reason why a node that could be cheaper is kept; empty when there is none.
func (c *Cluster) blockedBy(m *node) string {
	p := m.pool
	switch {
	case m.isDeleting() || m.initialized.IsZero():
		return "its way"
	case m.doNotDisrupt:
		return "annotation"
	case p.ConsolidateAfter < 0:
		return "never"
	case p.Policy == disrupt.WhenEmpty && m.hasPods():
		return "policy"
	case p.Policy == disrupt.Balanced && m.hasPods():
		return "balance"
	case p.MinSavings > 0.05:
		return "min-savings"
	}
	for _, o := range m.pods {
		switch {
		case o.protected(c.now):
			return "do-not-disrupt"
		case !o.owner.isJob() && o.owner.MaxUnavailable == 0:
			return "pdb"
		}
	}
	return ""
}
