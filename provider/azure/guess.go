package azure

import (
	"github.com/karve-dev/karve/engine/offer"
)

// A guesser prices sizes the list does not know, high enough that one is bought
// only when nothing with a price will do: at the highest price per vCPU of its
// family letter, or of the whole region for a family that has no price at all.
type guesser struct {
	perVCPU map[string]offer.Price // by family letter; "" for the region
}

func newGuesser(skus []*sku, prices priceTable) guesser {
	g := guesser{perVCPU: map[string]offer.Price{}}
	for _, s := range skus {
		p := prices[s.name].onDemand / offer.Price(s.vcpus)
		g.perVCPU[s.size.Family] = max(g.perVCPU[s.size.Family], p)
		g.perVCPU[""] = max(g.perVCPU[""], p)
	}
	return g
}

// Without any price list: dearer than general purpose machines have ever been,
// and GPUs at the rate of the dearest.
const (
	guessPerVCPU offer.Price = 0.1 * 1e9
	guessPerGPU  offer.Price = 15 * 1e9
)

func (g guesser) guess(s *sku) offer.Price {
	if p := g.perVCPU[s.size.Family]; p > 0 {
		return p * offer.Price(s.vcpus)
	}
	if p := g.perVCPU[""]; p > 0 {
		return p * offer.Price(s.vcpus)
	}
	return guessPerVCPU*offer.Price(s.vcpus) + guessPerGPU*offer.Price(s.gpus)
}

// price returns what the size costs and whether that is a guess. A size without
// a spot meter is reckoned at its full price, which is the most it can cost.
func (g guesser) price(s *sku, prices priceTable) (p price, guessed bool) {
	p = prices[s.name]
	if p.onDemand == 0 {
		p.onDemand, guessed = g.guess(s), true
	}
	if p.spot == 0 || p.spot > p.onDemand {
		p.spot = p.onDemand
	}
	return p, guessed
}
