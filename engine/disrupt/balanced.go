// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"math"

	"github.com/karve-dev/karve/engine/offering"
)

// BalancedThreshold is the minimum score of a move in a Balanced pool: the share of the pool's
// cost that it saves must be at least half the share of the pool that it disrupts.
const BalancedThreshold = 0.5

// PoolTotals are what the nodes of a pool cost together, and the disruption cost of removing them
// all.
type PoolTotals struct {
	Price          offering.Price // per hour
	DisruptionCost float64
}

// TotalsOf adds up every pool; price returns the price of the node with that key.
func TotalsOf(in *Input, price func(key string) offering.Price) map[string]PoolTotals {
	out := map[string]PoolTotals{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		t := out[n.Pool]
		t.Price = t.Price.Add(price(n.Key))
		t.DisruptionCost += 1 + n.EvictionCost
		out[n.Pool] = t
	}
	return out
}

// Score divides the share of its cost that a pool saves by the share of it that is disrupted: 1
// means the saving for each eviction equals the pool's average. A saving without disruption scores
// infinity; a pool that costs nothing scores 0.
func Score(saves offering.Price, disruptionCost float64, pool PoolTotals) float64 {
	switch {
	case saves <= 0 || pool.Price <= 0 || pool.DisruptionCost <= 0:
		return 0
	case disruptionCost <= 0:
		return math.Inf(1)
	}
	return float64(saves) / float64(pool.Price) / (disruptionCost / pool.DisruptionCost)
}

// ScoreByPool scores a move for each of its Balanced pools and reports whether all of them reach
// the BalancedThreshold. The saving is split in proportion to what each pool's nodes cost. Other
// pools are not scored. The scores are nil when no pool is Balanced.
func ScoreByPool(parts []Part, saves offering.Price, totals map[string]PoolTotals) (scores map[string]float64, approved bool) {
	before := offering.Price(0)
	for _, part := range parts {
		before = before.Add(part.Price)
	}
	approved = true
	for _, part := range parts {
		if part.Pool.Policy != Balanced {
			continue
		}
		own := saves
		if before > 0 && len(parts) > 1 {
			own = offering.Price(float64(saves) * float64(part.Price) / float64(before))
		}
		score := Score(own, part.DisruptionCost(), totals[part.Pool.Name])
		if scores == nil {
			scores = map[string]float64{}
		}
		scores[part.Pool.Name] = score
		approved = approved && score >= BalancedThreshold
	}
	return scores, approved
}

// CannotReachThreshold reports whether the node cannot reach the BalancedThreshold in its Balanced
// pool even if it were removed without a replacement. It is false for a pool whose cost is not
// known.
func CannotReachThreshold(n *Node, p *Pool, price offering.Price, of PoolTotals) bool {
	return p.Policy == Balanced && of.Price > 0 && Score(price, 1+n.EvictionCost, of) < BalancedThreshold
}
