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
	pool                 *Pool             // nil when it is not known
	info                 *cluster.NodeInfo // nil when it is not in the snapshot
	poolZoneCapacityType string            // its pool, zone and capacity type
	offering             offering.Key      // its offering and pool
	price                offering.Price    // per hour; zero when unknown
	pricePerDisruption   float64           // see PricePerDisruption
	// pdbs are its PDBs by the UIDs of their pods; see pdbsByPod.
	pdbs map[string]*schedsim.PDB
	// waste is what the node costs beyond what its pods would cost at the best prices;
	// requiredSavings is what replacing it must save, shortStaySavings the part of that for pods that
	// may leave soon; queueIndex is its place in the queue of replaceStage.
	waste, requiredSavings, shortStaySavings offering.Price
	queueIndex                               int
	replaceable                              bool // as far as its capacity type decides it
	role                                     moveRole
	eligibility                              eligibility
	forecast                                 nodeForecast
	takesPods                                takesPods
	kept                                     Kept
}

// moveRole is the part that a node has in the moves of the plan and in those under way.
type moveRole uint8

const (
	noMove moveRole = iota
	leaves
	receives
)

// eligibility is what may happen to a node, as far as the node itself and its pool decide it.
type eligibility uint8

const (
	notEligible    eligibility = iota
	mayConsolidate             // it may be consolidated
	mustReplace                // it is due, and will be replaced as soon as its pool's budget allows
)

// nodeForecast is the guess whether a node is kept; see forecast.
type nodeForecast uint8

const (
	removeExpected nodeForecast = iota // its pods will probably go to other nodes
	keepExpected                       // it is kept, and other pods fill it
	wrongType                          // it is the wrong instance type for its pods, and will be replaced
)

// readPrice reads price, zone, capacity type and offering of the node from the snapshot.
func (n *node) readPrice() {
	if n.PriceUnknownDetail == "" {
		n.price = n.info.Price
	}
	n.pricePerDisruption = PricePerDisruption(n.price, n.Node)
	l := n.info.Labels
	n.offering = offering.Key{Pool: n.Pool, Type: l[cluster.LabelInstanceType], Zone: l[cluster.LabelZone], CapacityType: l[cluster.LabelCapacityType]}
	n.poolZoneCapacityType = n.Pool + "|" + n.offering.Zone + "|" + n.offering.CapacityType
}

// setEligibility decides whether the node may be consolidated, or must be replaced because it
// is due.
func (n *node) setEligibility(in *Input, count NodeCount) {
	cause := Underutilized
	if IsEmpty(n.Node, in.Settings) {
		cause = Empty
	}
	kept, eligible := Eligible(n.Node, n.pool, cause, in)
	n.kept = kept
	stays := n.info != nil && !n.info.MarkedForDeletion
	if eligible && stays && cause == Underutilized {
		n.eligibility = mayConsolidate
	}
	if len(n.Due) == 0 {
		return
	}
	if kept, ok := Eligible(n.Node, n.pool, n.Due[0].Cause, in); !ok {
		n.kept = kept
		return
	}
	if most, _ := MaxDown(n.pool, count.Nodes, n.Due[0].Cause); most > 0 && stays {
		n.eligibility = mustReplace
	}
}

// removable reports whether the node may be consolidated in this plan.
func (n *node) removable() bool { return n.eligibility == mayConsolidate && n.role == noMove }

// keptIndefinitely reports whether the node is kept for a reason that does not lapse soon.
func (n *node) keptIndefinitely() bool {
	switch n.kept.Because {
	case NotInitialized, Nominated, MoveInProgress, MarkedForDeletion, BackingOff:
		return false
	}
	return n.eligibility == notEligible && n.kept.Because != "" && n.kept.Until.IsZero()
}

// losesPods reports whether pods on the node will have to leave it, whatever this plan does.
func (n *node) losesPods() bool {
	return n.eligibility == mustReplace || n.forecast == wrongType || n.soonConsolidated()
}

// soonConsolidated reports whether the node is mostly wasted and kept only because it is too
// young or not consolidatable yet: it is considered again as soon as that has passed.
func (n *node) soonConsolidated() bool {
	return (n.kept.Because == RecentlyLaunched || n.kept.Because == NotYetConsolidatable) && n.waste >= n.requiredSavings && n.waste > n.price/2
}

// keep records why the node is kept.
func (n *node) keep(kept Kept) {
	kept.Key = n.Key
	n.kept = kept
}

// nodes is every node of the search, with the pools.
type nodes struct {
	all   []*node // by key
	byKey map[string]*node
	pools map[string]*Pool
}

func newNodes(snapshot *cluster.Snapshot, in *Input) *nodes {
	s := &nodes{byKey: map[string]*node{}, pools: map[string]*Pool{}}
	for i := range in.Pools {
		s.pools[in.Pools[i].Name] = &in.Pools[i]
	}
	for i := range in.Nodes {
		n := &node{Node: &in.Nodes[i], pool: s.pools[in.Nodes[i].Pool]}
		if n.info = snapshot.NodeByKey(n.Key); n.info != nil {
			n.readPrice()
		}
		s.byKey[n.Key] = n
		s.all = append(s.all, n)
	}
	slices.SortFunc(s.all, func(x, y *node) int { return cmp.Compare(x.Key, y.Key) })
	return s
}

// byPricePerDisruption lists all nodes, those first that save most for what they disrupt.
func (s *nodes) byPricePerDisruption() []*node {
	out := slices.Clone(s.all)
	slices.SortStableFunc(out, func(x, y *node) int { return cmp.Compare(y.pricePerDisruption, x.pricePerDisruption) })
	return out
}

// setRoles records which nodes take part in a move.
func (s *nodes) setRoles(m *Move) {
	for _, key := range m.Nodes {
		if n := s.byKey[key]; n != nil {
			n.role = leaves
		}
	}
	for _, r := range m.Nominations {
		if n := s.byKey[r.Node]; n != nil && n.role == noMove {
			n.role = receives
		}
	}
}

// backingOff says that a node would be launched in a pool that is backing off: launches for other
// moves failed there recently.
func (s *nodes) backingOff(launches []schedule.Launch, in *Input) Kept {
	for i := range launches {
		if p := s.pools[launches[i].Pool]; p != nil && in.Now.Before(p.BackOffUntil) {
			return Kept{Because: BackingOff, Until: p.BackOffUntil, Detail: fmt.Sprintf(
				"The replacement would be launched in NodePool %q, where moves failed; it is tried again later", p.Name)}
		}
	}
	return Kept{}
}

// kept lists the nodes that are kept, with the reasons.
func (s *nodes) kept() []Kept {
	var out []Kept
	for _, n := range s.all {
		if n.role == leaves {
			continue
		}
		if (n.kept.Because == "" || n.kept.Because == ShortLivedPods) && n.role == receives {
			n.keep(Kept{Because: ReceivesPods, Detail: "Pods of other nodes are to move there"})
		}
		if n.kept.Because != "" {
			out = append(out, n.kept)
		}
	}
	return out
}

// budgets counts how many nodes of each pool are down. Nodes of moves in this plan count as down.
type budgets map[string]NodeCount

// allowed is how many more nodes of the pool may be disrupted for that cause.
func (b budgets) allowed(p *Pool, cause Cause) int {
	count := b[p.Name]
	most, _ := MaxDown(p, count.Nodes, cause)
	return max(0, most-count.Down)
}

// keep records that the node is kept because the budget of its pool is used up.
func (b budgets) keep(n *node, cause Cause) {
	_, kept := AllowedDisruptions(n.pool, b[n.Pool], cause)
	n.keep(kept)
}

// countDown counts one more node of the pool as down.
func (b budgets) countDown(pool string) {
	count := b[pool]
	count.Down++
	b[pool] = count
}
