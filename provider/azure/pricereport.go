package azure

import (
	"slices"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
)

// DoubtedPrices returns the prices of the last list that were not used, for sizes that the
// region sells for nodes, sorted by name.
func (p *Provider) DoubtedPrices() []pricing.DoubtedPrice {
	sold := p.skus.State().Value.ByName
	return slices.DeleteFunc(p.judge.Rejected(), func(d pricing.DoubtedPrice) bool { return sold[d.Size] == nil })
}

// PricesProblem describes why the price list could not be read; empty when it could.
func (p *Provider) PricesProblem() string { return p.prices.State().Problem }

// PricesUnlisted says that the price list was read and lacks the region; empty when the list has
// the region.
func (p *Provider) PricesUnlisted() string { return p.judge.Unlisted(cached.EmptyFor) }

// PriceStats counts the prices in use and the rejected ones.
func (p *Provider) PriceStats() provider.PriceStats {
	list := p.prices.State()
	return provider.PriceStats{Accepted: len(list.Value), Rejected: len(p.DoubtedPrices()), Read: list.Taken}
}

var _ provider.PriceReporter = (*Provider)(nil)

// A DoubtedPrice is an implausible price of the list, which is not used.
type DoubtedPrice = pricing.DoubtedPrice

// AnnotationSpotMaxPrice, on an AKSNodeClass, is the maximum price of a spot node of the class:
// dollars an hour such as 0.25, or a share of the size's on-demand price such as 60%. Azure
// evicts an instance whose price rises above it.
const AnnotationSpotMaxPrice = pricing.AnnotationSpotMaxPrice
