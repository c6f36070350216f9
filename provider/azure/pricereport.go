// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"slices"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
	"github.com/karve-dev/karve/provider/azure/pricelist"
)

// A priceList is the region's price list as it was read last, and the judge of its prices.
type priceList struct {
	source *cached.Source[pricing.Table]
	judge  *pricing.Judge
}

// pricesEvery is how often the price list is read again.
const pricesEvery = 12 * time.Hour

// state returns the list as it was read last.
func (l *priceList) state() cached.State[pricing.Table] { return l.source.State() }

// ensure waits briefly for the first reading of the list.
func (l *priceList) ensure(ctx context.Context) { l.source.TryEnsure(ctx) }

// keep keeps the list fresh until ctx ends.
func (l *priceList) keep(ctx context.Context) { l.source.Keep(ctx, pricesEvery) }

// stop cancels a request that no caller waits for.
func (l *priceList) stop() { l.source.Stop() }

// builtIn returns the list that built-in prices are of.
func (l *priceList) builtIn() pricelist.List { return l.judge.Source }

// DoubtedPrices returns the prices of the last list that were not used, for sizes of the region
// that nodes can have, sorted by name.
func (p *Provider) DoubtedPrices() []pricing.DoubtedPrice {
	sold := p.catalogs.sizes()
	return slices.DeleteFunc(p.prices.judge.Rejected(), func(d pricing.DoubtedPrice) bool { return sold[d.Size] == nil })
}

// PricesProblem describes why the price list could not be read; empty when it could.
func (p *Provider) PricesProblem() string { return p.prices.state().Problem }

// PricesUnlisted says that the price list was read and lacks the region; empty when the list has
// the region.
func (p *Provider) PricesUnlisted() string { return p.prices.judge.Unlisted(cached.EmptyFor) }

// PriceStats counts the prices in use and the rejected ones.
func (p *Provider) PriceStats() provider.PriceStats {
	list := p.prices.state()
	return provider.PriceStats{Accepted: len(list.Value), Rejected: len(p.DoubtedPrices()), Read: list.Taken}
}

var _ provider.PriceReporter = (*Provider)(nil)

// A DoubtedPrice is an implausible price of the list, which is not used.
type DoubtedPrice = pricing.DoubtedPrice

// AnnotationSpotMaxPrice, on an AKSNodeClass, is the maximum price of a spot node of the class:
// dollars an hour such as 0.25, or a share of the size's on-demand price such as 60%. Azure
// evicts an instance whose price rises above it.
const AnnotationSpotMaxPrice = pricing.AnnotationSpotMaxPrice
