// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// A Basis is the source of a price.
type Basis int

const (
	fromList Basis = iota
	BuiltIn
	Estimated
)

// A Pricer prices sizes: by the list, else by the built-in prices, else by an estimate so high
// that the size is launched only when no size with a known price will do. The estimate is the
// highest price per vCPU of its family letter, or of the whole region for a family without any
// price.
type Pricer struct {
	listed, builtIn Table
	perVCPU         map[string]offering.Price // by family letter; "" for the region
}

func NewPricer(skus []*sku.SKU, listed, builtIn Table) Pricer {
	v := Pricer{listed: listed, builtIn: builtIn, perVCPU: map[string]offering.Price{}}
	for _, s := range skus {
		known := cmp.Or(listed.size(s.Name).OnDemand, builtIn.size(s.Name).OnDemand)
		each := known / offering.Price(s.VCPUs)
		v.perVCPU[s.Size.Family] = max(v.perVCPU[s.Size.Family], each)
		v.perVCPU[""] = max(v.perVCPU[""], each)
	}
	return v
}

// Without any price list: more than general purpose sizes have ever cost, and GPUs at the price
// of the most expensive.
const (
	estimatePerVCPU offering.Price = 0.1 * 1e9
	estimatePerGPU  offering.Price = 15 * 1e9
)

func (v Pricer) estimate(s *sku.SKU) offering.Price {
	if p := cmp.Or(v.perVCPU[s.Size.Family], v.perVCPU[""]); p > 0 {
		return p * offering.Price(s.VCPUs)
	}
	return estimatePerVCPU*offering.Price(s.VCPUs) + estimatePerGPU*offering.Price(s.GPUs)
}

// Price returns the price of the size and its basis. A size without a spot meter gets its
// on-demand price as spot price, which is the most it can cost.
func (v Pricer) Price(s *sku.SKU) (p Price, by Basis) {
	p = v.listed.size(s.Name)
	if p.OnDemand == 0 {
		known := v.builtIn.size(s.Name)
		p.OnDemand, by = known.OnDemand, BuiltIn
		p.Spot = cmp.Or(p.Spot, known.Spot)
	}
	if p.OnDemand == 0 {
		p.OnDemand, by = v.estimate(s), Estimated
	}
	if p.Spot == 0 || p.Spot > p.OnDemand {
		p.Spot = p.OnDemand
	}
	return p, by
}
