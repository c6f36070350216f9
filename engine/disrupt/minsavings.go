// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"math"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// MinSavings is the least that a replacement must save: the largest of its values applies. The
// zero MinSavings accepts any saving.
type MinSavings struct {
	Share   float64        // of the cost of the removed nodes, 0 to 1
	PerHour offering.Price // absolute
	// PerEviction is for each ordinary pod that moves (see Node.EvictionCost). A node that is
	// removed without a replacement must save it, too.
	PerEviction offering.Price
	// ShareOfPodCost lowers PerEviction to this share of the average cost of a pod that may move: see
	// setPerEviction. Zero leaves PerEviction as it is, and short stays cost nothing. Only
	// Settings.MinSavings has one.
	ShareOfPodCost float64
	// ShortStayShare is what must be saved for each unit of ShortStayCost, as a share of the same average:
	// see setShortStaySavings. Only Settings.MinSavings has one.
	ShortStayShare float64
}

// leastStay is the shortest stay that is told apart.
const leastStay = time.Minute

// ShortStayCost is what evicting a pod of that EvictionCost costs beyond it, if the pod may be expected to
// stay for only that much longer: what is saved by the hour must pay for the eviction in the time that
// remains, for after it the capacity would have become free without an eviction. There is no such cost
// from Settings.ExpectedStay on.
func ShortStayCost(evictionCost float64, remaining, expectedStay time.Duration) float64 {
	if remaining >= expectedStay {
		return 0
	}
	return evictionCost * max(0, float64(expectedStay)/float64(max(remaining, leastStay))-1)
}

// Defaults are karve's default settings. A replacement restarts pods, pulls images and warms
// caches, so a saving of a few percent does not pay for it: tomorrow's prices may reverse it. A
// restart that saves less than 15 % of what the pod costs does not pay either. Pods that have just
// started are restarted for more only: half of all pods end soon anyway. A node that was just launched
// will be used soon.
func Defaults() Settings {
	return Settings{
		MinSavings: MinSavings{Share: 0.05, PerEviction: 2.5e6, ShareOfPodCost: 0.15, ShortStayShare: 0.75},
		MinAge:     5 * time.Minute, ExpectedStay: time.Hour,
	}
}

// Part is one pool's share of a move.
type Part struct {
	Pool *Pool
	// Nodes counts the pool's nodes that the move removes, Price is what they cost per hour,
	// and EvictionCost is what it costs to evict their pods (the sum of Node.EvictionCost).
	Nodes        int
	Price        offering.Price
	EvictionCost float64
	// ShortStaySavings is what must be saved besides because pods may leave soon; see
	// setShortStaySavings. It does not hold for pools with MinSavings of their own.
	ShortStaySavings offering.Price
}

// DisruptionCost is the part's disruption cost as Karpenter counts it: one for each node and one
// for each ordinary pod.
func (p Part) DisruptionCost() float64 { return float64(p.Nodes) + p.EvictionCost }

// PricePerDisruption is the node's price divided by its disruption cost. Nodes with the highest
// are removed first.
func PricePerDisruption(price offering.Price, n *Node) float64 {
	return float64(price) / (1 + n.EvictionCost)
}

// RequiredSavings is what replacing those nodes must save at least, per hour: the sum of what
// every pool asks for its own nodes. It is never less than the smallest positive price, as a move
// that saves nothing disrupts for nothing.
func RequiredSavings(parts []Part, s Settings) offering.Price {
	least := offering.Price(0)
	for _, part := range parts {
		if !s.Upstream {
			least = least.Add(part.requiredSavings(s))
		}
	}
	return max(least, 1)
}

func (p Part) requiredSavings(s Settings) offering.Price {
	t := p.minSavings(s)
	return max(t.ForPrice(p.Price), p.evictionSavings(s))
}

func (p Part) minSavings(s Settings) MinSavings {
	if p.Pool.MinSavings != nil {
		return *p.Pool.MinSavings
	}
	return s.MinSavings
}

// evictionSavings is what the part's evictions must save.
func (p Part) evictionSavings(s Settings) offering.Price {
	least := offering.Price(math.Ceil(p.EvictionCost * float64(p.minSavings(s).PerEviction)))
	if p.Pool.MinSavings == nil {
		least = least.Add(p.ShortStaySavings)
	}
	return least
}

// ForPrice is what replacing nodes of that price must save.
func (t MinSavings) ForPrice(before offering.Price) offering.Price {
	return max(offering.Price(math.Ceil(t.Share*float64(before))), t.PerHour, 0)
}

// Pays reports whether a consolidation saves enough. With launches it must save what its pools
// ask for; without launches any saving that covers PerEviction is enough.
func Pays(parts []Part, saves offering.Price, launches int, s Settings) bool {
	if launches == 0 {
		least := offering.Price(1)
		for _, part := range parts {
			if !s.Upstream {
				least = max(least, part.evictionSavings(s))
			}
		}
		return saves >= least
	}
	return saves >= RequiredSavings(parts, s)
}
