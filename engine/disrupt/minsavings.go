package disrupt

import (
	"math"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// MinSavings is the least that a replacement must save: the larger of both holds. The zero
// MinSavings asks for any saving at all.
type MinSavings struct {
	Share   float64        // of what the nodes that go cost, 0 to 1
	PerHour offering.Price // in money
	// PerEviction is for each ordinary pod that moves (see Node.Cost); what a node saves that
	// goes without a replacement must reach it, too.
	PerEviction offering.Price
	// PerPod lowers PerEviction to this share of what a pod that may move costs on average: see
	// search.fair. Zero leaves it as it is.
	PerPod float64
}

// Defaults are karve's rules out of the box. A replacement restarts pods, pulls images
// and warms caches, so a few percent that tomorrow's prices may take back do not pay
// for it; nor does a restart that saves less than a quarter of what the pod costs; and a node that was just
// bought is about to be used.
func Defaults() Settings {
	return Settings{MinSavings: MinSavings{Share: 0.05, PerEviction: 2.5e6, PerPod: 0.25}, MinAge: 5 * time.Minute}
}

// Part is what one pool gives to a move.
type Part struct {
	Pool *Pool
	// Nodes of the pool that go, what they cost per hour, and what it costs to evict
	// their pods (the sum of Node.Cost).
	Nodes int
	Price offering.Price
	Cost  float64
}

// Disturbs is what the part costs in evictions, as Karpenter reckons: one for each
// node and one for each ordinary pod.
func (p Part) Disturbs() float64 { return float64(p.Nodes) + p.Cost }

// Worth is what an eviction saves: a node's price for each thing it disturbs. Nodes of
// the highest worth go first.
func Worth(price offering.Price, n *Node) float64 { return float64(price) / (1 + n.Cost) }

// Least is what replacing those nodes must save at least, per hour: every pool asks for
// its share of what its own nodes cost. At least the smallest amount there is: a move
// that saves nothing disturbs for nothing.
func Least(parts []Part, s Settings) offering.Price {
	least := offering.Price(0)
	for _, part := range parts {
		if !s.Upstream {
			least = least.Add(part.asks(s))
		}
	}
	return max(least, 1)
}

func (p Part) asks(s Settings) offering.Price {
	t := p.minSavings(s)
	return max(t.Least(p.Price), p.perEviction(s))
}

func (p Part) minSavings(s Settings) MinSavings {
	if p.Pool.MinSavings != nil {
		return *p.Pool.MinSavings
	}
	return s.MinSavings
}

// perEviction is what the part's evictions must save.
func (p Part) perEviction(s Settings) offering.Price {
	return offering.Price(math.Ceil(p.Cost * float64(p.minSavings(s).PerEviction)))
}

// Least is what replacing nodes of that price must save.
func (t MinSavings) Least(before offering.Price) offering.Price {
	return max(offering.Price(math.Ceil(t.Share*float64(before))), t.PerHour, 0)
}

// Pays reports whether a consolidation is worth its while: one that buys something
// saves what its pools ask for, one that buys nothing saves anything at all.
func Pays(parts []Part, before, after offering.Price, launches int, s Settings) bool {
	if launches == 0 {
		least := offering.Price(1)
		for _, part := range parts {
			if !s.Upstream {
				least = max(least, part.perEviction(s))
			}
		}
		return before-after >= least
	}
	return before-after >= Least(parts, s)
}
