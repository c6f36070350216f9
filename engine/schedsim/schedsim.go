// SPDX-License-Identifier: Apache-2.0

// Package schedsim simulates what kube-scheduler does with the pods of nodes that are drained.
// kube-scheduler does not know karve's plan: it puts each pod on the node that it scores highest.
// So a consolidation is rehearsed here before it is made (Rule CONSOLIDATION-20).
//
// A Cluster belongs to one snapshot and changes as moves are performed; the snapshot itself
// does not change. The package decides nothing: it computes what a move costs when pods are
// bound elsewhere than planned. The zero Cluster is not usable; see New.
package schedsim

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Move is nodes that are drained together, and the plan for their pods.
type Move struct {
	Drains      []Drain
	Nominations []schedule.Nomination
	Launches    []schedule.Launch
	// PriceBefore is what the move's nodes cost per hour, PriceAfter what the launches cost at
	// their first offerings.
	PriceBefore, PriceAfter offering.Price
}

// Drain is a node that all reschedulable pods leave.
type Drain struct {
	Node *cluster.NodeInfo
	// PDBs are the PodDisruptionBudgets that allow some of its pods to be evicted, by the pods'
	// UIDs.
	PDBs map[string]*PDB
}

// PDB is a PodDisruptionBudget: the UIDs of a node's pods that it selects, and how many of all
// the pods that it selects may be evicted now.
type PDB struct {
	Name    string
	Allowed int
	Pods    []string
}

// Cluster is the cluster as kube-scheduler sees it. It includes the nodes that take pods, those
// that a search lets take no pods for its own reasons, and the nodes that moves launch.
type Cluster struct {
	snapshot  *cluster.Snapshot
	nodes     *nodes
	classes   *classes
	scheduler scheduler
	offerings offerings
	leaving   leavingPods // scratch: of the move that is simulated
}

// New returns the nodes of the snapshot that are initialized and take pods.
func New(snapshot *cluster.Snapshot) *Cluster {
	g := newGroups(snapshot.LabelsUsed())
	n := newNodes(snapshot.Nodes, g)
	return &Cluster{
		snapshot:  snapshot,
		nodes:     n,
		classes:   newClasses(snapshot, g, n),
		scheduler: scheduler{nodes: n, groups: g},
		offerings: newOfferings(snapshot, n),
	}
}

// Outcome is the result of a simulated move: what it saves per hour with its own launches, and
// what further launches cost. Unplaced is set when some pods find no node even so.
type Outcome struct {
	Saves, Extra offering.Price
	Unplaced     bool
}

// Pays reports whether every pod has a node and further launches do not use up the saving.
func (o Outcome) Pays() bool { return !o.Unplaced && (o.Extra <= 0 || o.Saves > o.Extra) }

// net is what the move saves with all launches.
func (o Outcome) net() offering.Price { return o.Saves - o.Extra }

// worseOf is the outcome that saves less, or leaves pods without a node.
func (o Outcome) worseOf(other Outcome) Outcome {
	if other.Unplaced && !o.Unplaced || other.Unplaced == o.Unplaced && other.net() < o.net() {
		return other
	}
	return o
}

// Perform simulates a move that will be made, in the likeliest way.
func (c *Cluster) Perform(m Move) {
	c.nodes.commit()
	c.collect(&m)
	c.simulate(&m, likeliestWay(), false)
}

// Undo takes back the last Perform or PerformIfPays; a second call changes nothing.
func (c *Cluster) Undo() { c.nodes.rollback() }

// PerformIfPays simulates the move in the likeliest way; in other ways, too, unless the move saves more
// than these may cost. It returns the worst outcome. When that pays, the Cluster is left as after the
// likeliest way. Else it is left as it was, and Extra counts launches only up to the pod with which
// the move stops paying.
func (c *Cluster) PerformIfPays(m Move) Outcome {
	c.nodes.commit()
	c.collect(&m)
	worst := c.simulate(&m, likeliestWay(), true)
	if node := c.priceOfNode(&m); worst.Pays() && worst.net() < likelyDifference*node {
		likeliest := c.nodes.changes()
		worst = c.simulateEach(&m, otherLikelyWays(&m), worst)
		if worst.Pays() && worst.net() < unlikelyDifference*node {
			worst = c.simulateEach(&m, unlikelyWays(&m), worst)
		}
		if worst.Pays() {
			c.nodes.rollback()
			c.nodes.redo(likeliest)
		}
	}
	if !worst.Pays() {
		c.nodes.rollback()
	}
	return worst
}

// simulateEach simulates the move in each of the ways and returns the worst outcome, or the first one
// that does not pay.
func (c *Cluster) simulateEach(m *Move, ways []way, worst Outcome) Outcome {
	for _, w := range ways {
		c.nodes.rollback()
		o := c.simulate(m, w, true)
		if !o.Pays() {
			return o
		}
		worst = worst.worseOf(o)
	}
	return worst
}

// What a move must save not to be simulated in the other likely ways, and in the unlikely ones: the
// price of so many nodes (see priceOfNode), which those ways may cost more. In the clusters of 200 to
// 5000 nodes of bench, draining node by node took up to 8 nodes more; up to 3.3 where a move saved
// the price of 16 or less.
const (
	likelyDifference   = 16
	unlikelyDifference = 4
)

// priceOfNode is the price of the most expensive node that a single pod of the move would need.
func (c *Cluster) priceOfNode(m *Move) offering.Price {
	most := offering.Price(0)
	for i := range m.Drains {
		m.Drains[i].Node.EachReschedulable(func(class *cluster.PodClass, _ []cluster.PodRef) {
			most = max(most, c.offerings.cheapest(class.PodShape).price)
		})
	}
	return most
}

// collect lists the pods that must leave the nodes. It compiles their rules before any pod is
// moved.
func (c *Cluster) collect(m *Move) {
	c.leaving.reset()
	for _, r := range m.Nominations {
		if at, ok := c.nodes.find(c.snapshot.NodeByKey(r.Node)); ok {
			c.leaving.targets.add(r.Pods, at)
		}
	}
	for i := range m.Launches {
		c.leaving.targets.addLaunch(m.Launches[i].Pods)
	}
	for i := range m.Drains {
		if at, ok := c.nodes.find(m.Drains[i].Node); ok {
			c.collectFrom(&m.Drains[i], i, at)
		}
	}
}

// collectFrom adds the pods of a node: those of the snapshot, and those that earlier moves put
// there.
func (c *Cluster) collectFrom(d *Drain, number, at int) {
	n := c.nodes.at(at)
	c.leaving.from = append(c.leaving.from, at)
	d.Node.EachReschedulable(func(class *cluster.PodClass, pods []cluster.PodRef) {
		first := len(c.leaving.pods)
		rules := c.classes.of(class)
		for _, ref := range pods {
			c.leaving.add(rules, at, ref.UID, d.PDBs)
		}
		c.leaving.addBatch(number, n.group.share(&class.Requests), first)
	})
	for _, class := range n.arrived {
		c.leaving.addArrived(c.classes.of(class), at)
		c.leaving.addBatch(number, n.group.share(&class.Requests), len(c.leaving.pods)-1)
	}
}

// simulate simulates the move in one way: it drains the nodes and places their pods one by one, in
// the order in which they are evicted. Pods without free capacity get new nodes. With stopEarly it
// ends with the pod with which the move stops paying.
func (c *Cluster) simulate(m *Move, w way, stopEarly bool) Outcome {
	o := Outcome{Saves: m.PriceBefore - c.launchPlanned(m, w.choose)}
	for _, at := range c.leaving.from {
		c.nodes.drain(at)
	}
	queue, firstDelayed := c.leaving.queue(w.order)
	for _, p := range queue[:firstDelayed] {
		c.nodes.addToDomainCounts(p.podClass, p.from, -1)
	}
	for _, p := range queue {
		c.nodes.at(p.planned).expected++
	}
	next := 0
	for ; next < len(queue) && (!stopEarly || o.Pays()); next++ {
		p := queue[next]
		if next >= firstDelayed {
			c.nodes.addToDomainCounts(p.podClass, p.from, -1)
		}
		c.place(p, w.policy, &o)
	}
	for _, p := range queue[next:] {
		c.nodes.at(p.planned).expected--
	}
	return o
}

// launchPlanned adds nodes for the move's launches, sets which node the plan has for each pod,
// and returns the price of the launches.
func (c *Cluster) launchPlanned(m *Move, choose func([]offering.Ref) offering.Ref) (after offering.Price) {
	for i := range m.Launches {
		l := &m.Launches[i]
		ref := choose(l.Offerings)
		after = after.Add(ref.Price)
		at := -1
		if o := c.offerings.find(l.Pool, ref); o.catalog != nil {
			at = c.nodes.launch(o.catalog, o.row)
		}
		c.leaving.targets.setLaunch(i, at)
	}
	c.leaving.plan()
	return after
}

// place finds a node for the pod, or launches one.
func (c *Cluster) place(p *leavingPod, policy scorePolicy, o *Outcome) {
	c.nodes.at(p.planned).expected--
	if at := c.scheduler.best(p, policy); at >= 0 {
		c.nodes.place(p.podClass, at)
		return
	}
	cheapest := c.cheapestFor(p)
	if cheapest.catalog == nil {
		o.Unplaced = true
		return
	}
	o.Extra = o.Extra.Add(cheapest.price)
	c.nodes.place(p.podClass, c.nodes.launch(cheapest.catalog, cheapest.row))
}

// cheapestFor is the offering that would be launched for the pod alone, in the domains where it
// must be as far as these are known before the launch. Its price is an upper bound, as pods
// that need new nodes at the same time share them.
func (c *Cluster) cheapestFor(p *leavingPod) pricedOffering {
	if !p.limitedToDomains() {
		return c.offerings.cheapest(p.PodShape)
	}
	planned := c.nodes.at(p.planned).group
	return c.offerings.searchWithinLimits(p.PodShape, func(catalog *cluster.PoolCatalog, row int) bool {
		return p.mayLaunch(planned, catalog, row)
	})
}

// way is one way in which a move may be carried out: the order in which pods of several nodes
// leave, the scheduler's score policy, and which of its offerings each launch becomes.
type way struct {
	order  evictionOrder
	policy scorePolicy
	choose func([]offering.Ref) offering.Ref
}

// likeliestWay is the most likely way of a move. Later decisions assume it.
func likeliestWay() way { return way{allNodesAtOnce, scorePolicy{}, firstOffering} }

// otherLikelyWays are as likely: nodes are drained at the same time, and which drain is faster is
// unknown.
func otherLikelyWays(m *Move) []way {
	if len(m.Drains) == 1 {
		return nil
	}
	return []way{{nodeByNode, scorePolicy{}, firstOffering}}
}

// unlikelyWays are other possible ways: not all of the scheduler's scores are known here, nor
// which offerings are in stock.
func unlikelyWays(m *Move) []way {
	orders := []evictionOrder{allNodesAtOnce}
	if len(m.Drains) > 1 {
		orders = append(orders, nodeByNode, lastNodeFirst)
	}
	var out []way
	for _, o := range orders {
		for _, policy := range []scorePolicy{{scoreBefore: true, adversarial: true}, {scoreBefore: true}, {adversarial: true}} {
			out = append(out, way{o, policy, firstOffering})
			if len(m.Launches) > 0 {
				out = append(out, way{o, policy, lastOffering})
			}
		}
	}
	return out
}

func firstOffering(offerings []offering.Ref) offering.Ref { return offerings[0] }

func lastOffering(offerings []offering.Ref) offering.Ref { return offerings[len(offerings)-1] }
