// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedsim"
	"github.com/karve-dev/karve/engine/schedule"
)

// node is a Node with its NodeInfo in the snapshot, and with what the search decided.
type node struct {
	*Node
	pool  *Pool             // nil when it is not known
	info  *cluster.NodeInfo // nil when it is not in the snapshot
	place string            // its pool, zone and capacity type
	as    offeringKey       // its offering and pool
	price offering.Price    // per hour; zero when unknown
	worth float64           // see Worth
	// pdbs are its PDBs by the pods that they allow to be evicted; see pdbsByPod.
	pdbs map[string]schedsim.PDB
	// waste is what the node costs beyond what its pods would cost at the best prices; least is
	// what replacing it must save; rank is its place in the queue of replaceStage.
	waste, least offering.Price
	rank         int
	replaceable  bool // as far as its capacity type decides it
	inMove       moveRole
	may          nodeFate
	forecast     nodeForecast
	intake       intake
	kept         Kept
}

// moveRole is the part that a node has in the moves of the plan and in those under way.
type moveRole uint8

const (
	noMove moveRole = iota
	leaves
	receives
)

// nodeFate is what may happen to a node, as far as the node itself and its pool decide it.
type nodeFate uint8

const (
	mayStay        nodeFate = iota
	mayConsolidate          // it may be consolidated
	mustGo                  // it is due, and will be replaced as soon as its pool's budget allows
)

// nodeForecast is the guess whether a node is kept; see forecast.
type nodeForecast uint8

const (
	goes      nodeForecast = iota // its pods will probably go to other nodes
	staysFull                     // it is kept, and other pods fill it
	wrongType                     // it is the wrong instance type for its pods, and will be replaced
)

// measure reads price, place and offering of the node from the snapshot.
func (n *node) measure() {
	if n.Unpriced == "" {
		n.price = n.info.Price
	}
	n.worth = Worth(n.price, n.Node)
	l := n.info.Labels
	n.as = offeringKey{n.Pool, l[cluster.LabelInstanceType], l[cluster.LabelZone], l[cluster.LabelCapacityType]}
	n.place = n.Pool + "|" + n.as.zone + "|" + n.as.capacityType
}

// judge decides whether the node may be consolidated, or must be replaced because it is due.
func (n *node) judge(c *Cluster, count NodeCount) {
	cause := Underutilized
	if Vacant(n.Node, c.Settings) {
		cause = Empty
	}
	left, eligible := Eligible(n.Node, n.pool, cause, c)
	n.kept = left
	stays := n.info != nil && !n.info.Leaving
	if eligible && stays && cause == Underutilized {
		n.may = mayConsolidate
	}
	if len(n.Due) == 0 {
		return
	}
	if left, ok := Eligible(n.Node, n.pool, n.Due[0].Cause, c); !ok {
		n.kept = left
		return
	}
	if most, _ := Permitted(n.pool, count.Nodes, n.Due[0].Cause); most > 0 && stays {
		n.may = mustGo
	}
}

// removable reports whether the node may be consolidated in this plan.
func (n *node) removable() bool { return n.may == mayConsolidate && n.inMove == noMove }

// pinned reports whether the node is kept for a reason that does not lapse soon.
func (n *node) pinned() bool {
	switch n.kept.Because {
	case NotInitialized, Nominated, MoveInProgress, MarkedForDeletion, BackingOff:
		return false
	}
	return n.may == mayStay && n.kept.Because != "" && n.kept.Until.IsZero()
}

// losesPods reports whether pods on the node will have to leave it, whatever this plan does.
func (n *node) losesPods() bool {
	return n.may == mustGo || n.forecast == wrongType || n.soonConsolidated()
}

// soonConsolidated reports whether the node is mostly wasted and kept only because it is too
// young or not quiet: it is looked at again as soon as that has passed.
func (n *node) soonConsolidated() bool {
	return (n.kept.Because == RecentlyLaunched || n.kept.Because == NotYetConsolidatable) && n.waste >= n.least && n.waste > n.price/2
}

// stays records why the node is kept.
func (n *node) stays(left Kept) {
	left.Key = n.Key
	n.kept = left
}

// nodes is every node of the search, with the pools.
type nodes struct {
	all   []*node // by key
	byKey map[string]*node
	pools map[string]*Pool
}

func newNodes(w *cluster.Snapshot, c *Cluster) *nodes {
	s := &nodes{byKey: map[string]*node{}, pools: map[string]*Pool{}}
	for i := range c.Pools {
		s.pools[c.Pools[i].Name] = &c.Pools[i]
	}
	for i := range c.Nodes {
		n := &node{Node: &c.Nodes[i], pool: s.pools[c.Nodes[i].Pool]}
		if n.info = w.NodeByKey(n.Key); n.info != nil {
			n.measure()
		}
		s.byKey[n.Key] = n
		s.all = append(s.all, n)
	}
	slices.SortFunc(s.all, func(x, y *node) int { return cmp.Compare(x.Key, y.Key) })
	return s
}

// byWorth lists all nodes, those first that save most for what they disrupt.
func (s *nodes) byWorth() []*node {
	out := slices.Clone(s.all)
	slices.SortStableFunc(out, func(x, y *node) int { return cmp.Compare(y.worth, x.worth) })
	return out
}

// mark notes which nodes take part in a move.
func (s *nodes) mark(m *Move) {
	for _, key := range m.Nodes {
		if n := s.byKey[key]; n != nil {
			n.inMove = leaves
		}
	}
	for _, r := range m.Receivers {
		if n := s.byKey[r.Node]; n != nil && n.inMove == noMove {
			n.inMove = receives
		}
	}
}

// resting says that a node would be launched in a resting pool: launches for other moves failed
// there recently.
func (s *nodes) resting(launches []schedule.Launch, c *Cluster) Kept {
	for i := range launches {
		if p := s.pools[launches[i].Pool]; p != nil && c.Now.Before(p.Resting) {
			return Kept{Because: BackingOff, Until: p.Resting, Detail: fmt.Sprintf(
				"The replacement would be launched in NodePool %q, where moves failed; it is tried again later", p.Name)}
		}
	}
	return Kept{}
}

// kept lists the nodes that are kept, with the reasons.
func (s *nodes) kept() []Kept {
	var out []Kept
	for _, n := range s.all {
		if n.inMove == leaves {
			continue
		}
		if n.kept.Because == "" && n.inMove == receives {
			n.stays(Kept{Because: ReceivesPods, Detail: "Pods of other nodes are to move there"})
		}
		if n.kept.Because != "" {
			out = append(out, n.kept)
		}
	}
	return out
}

// budgets counts how many nodes of each pool are down. Nodes of moves in this plan are.
type budgets map[string]NodeCount

// room is how many more nodes of the pool may be disrupted for that cause.
func (b budgets) room(p *Pool, cause Cause) int {
	count := b[p.Name]
	most, _ := Permitted(p, count.Nodes, cause)
	return max(0, most-count.Down)
}

// refuse notes that the budget of the node's pool is used up.
func (b budgets) refuse(n *node, cause Cause) {
	_, left := Allowed(n.pool, b[n.Pool], cause)
	n.stays(left)
}

// take counts one more node of the pool as down.
func (b budgets) take(pool string) {
	count := b[pool]
	count.Down++
	b[pool] = count
}
