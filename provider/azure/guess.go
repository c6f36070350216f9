package azure

import (
	"cmp"
	"fmt"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
	"github.com/karve-dev/karve/provider/azure/pricelist"
)

// A basis is the source of a price.
type basis int

const (
	fromList basis = iota
	builtIn
	guessed
)

// A valuer prices sizes: by the list, else by the built-in prices, else by an estimate so high
// that the size is launched only when no size with a known price will do. The estimate is the
// highest price per vCPU of its family letter, or of the whole region for a family without any
// price.
type valuer struct {
	listed, builtIn priceTable
	perVCPU         map[string]offering.Price // by family letter; "" for the region
}

func newValuer(skus []*sku.SKU, listed, builtIn priceTable) valuer {
	v := valuer{listed: listed, builtIn: builtIn, perVCPU: map[string]offering.Price{}}
	for _, s := range skus {
		known := cmp.Or(listed.size(s.Name).onDemand, builtIn.size(s.Name).onDemand)
		each := known / offering.Price(s.VCPUs)
		v.perVCPU[s.Size.Family] = max(v.perVCPU[s.Size.Family], each)
		v.perVCPU[""] = max(v.perVCPU[""], each)
	}
	return v
}

// Without any price list: more than general purpose sizes have ever cost, and GPUs at the price
// of the most expensive.
const (
	guessPerVCPU offering.Price = 0.1 * 1e9
	guessPerGPU  offering.Price = 15 * 1e9
)

func (v valuer) guess(s *sku.SKU) offering.Price {
	if p := cmp.Or(v.perVCPU[s.Size.Family], v.perVCPU[""]); p > 0 {
		return p * offering.Price(s.VCPUs)
	}
	return guessPerVCPU*offering.Price(s.VCPUs) + guessPerGPU*offering.Price(s.GPUs)
}

// price returns the price of the size and its basis. A size without a spot meter gets its
// on-demand price as spot price, which is the most it can cost.
func (v valuer) price(s *sku.SKU) (p price, by basis) {
	p = v.listed.size(s.Name)
	if p.onDemand == 0 {
		known := v.builtIn.size(s.Name)
		p.onDemand, by = known.onDemand, builtIn
		p.spot = cmp.Or(p.spot, known.spot)
	}
	if p.onDemand == 0 {
		p.onDemand, by = v.guess(s), guessed
	}
	if p.spot == 0 || p.spot > p.onDemand {
		p.spot = p.onDemand
	}
	return p, by
}

// otherPrices describes how many instance types are not priced by the list.
func (t *typeSet) otherPrices(list pricelist.List) (parts []string) {
	if n := t.values[builtIn]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d types are offered at built-in prices (%s, %s)", n, list.Region, list.Of))
	}
	if n := t.values[guessed]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d types are offered at guessed prices", n))
	}
	return parts
}
