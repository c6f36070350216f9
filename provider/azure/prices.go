// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
	"github.com/karve-dev/karve/provider/azure/pricelist"
)

// A priceList is the region's price list as it was read last, and the validator of its prices.
type priceList struct {
	source    *cached.Source[pricing.Table]
	validator *pricing.Validator
	skus      *skuList
}

func newPriceList(o *Options, transport policy.Transporter, skus *skuList) (*priceList, error) {
	validator, err := pricing.NewValidator(o.Location)
	if err != nil {
		return nil, err
	}
	reader := &pricing.Reader{Transport: transport, URL: o.PricesURL, Location: o.Location, Now: o.Now, Validator: validator}
	source := &cached.Source[pricing.Table]{
		Name: "prices", Load: reader.Read, Same: func(a, b pricing.Table) bool { return maps.Equal(a, b) }, Env: o.env(),
		MaybeEmpty: func(t pricing.Table) bool { return len(t) == 0 },
	}
	return &priceList{source: source, validator: validator, skus: skus}, nil
}

// pricesEvery is how often the price list is read again.
const pricesEvery = 12 * time.Hour

// state returns the list as it was read last.
func (l *priceList) state() cached.State[pricing.Table] { return l.source.State() }

// ensure waits briefly for the first reading of the list.
func (l *priceList) ensure(ctx context.Context) { l.source.TryEnsure(ctx) }

// keepFresh keeps the list fresh until ctx ends.
func (l *priceList) keepFresh(ctx context.Context) { l.source.KeepFresh(ctx, pricesEvery) }

// stop cancels a request that no caller waits for.
func (l *priceList) stop() { l.source.Stop() }

// builtIn returns the list that built-in prices are of.
func (l *priceList) builtIn() pricelist.List { return l.validator.Source }

// builtInPrices returns the prices that apply to sizes that the list lacks.
func (l *priceList) builtInPrices() pricing.Table { return l.validator.BuiltIn }

// rejected returns the prices of the last list that were not used, for sizes of the region that
// nodes can have, sorted by name.
func (l *priceList) rejected() []pricing.RejectedPrice {
	skus := l.skus.byName()
	return slices.DeleteFunc(l.validator.Rejected(), func(d pricing.RejectedPrice) bool { return skus[d.Size] == nil })
}

// unlisted says that the price list was read and lacks the region; empty when the list has the
// region.
func (l *priceList) unlisted() string { return l.validator.Unlisted(cached.EmptyFor) }

// stats counts the VM sizes that have a price, and the rejected prices.
func (l *priceList) stats() provider.PriceStats {
	list := l.state()
	return provider.PriceStats{Accepted: len(list.Value), Rejected: len(l.rejected()), Read: list.ReadAt}
}

// A RejectedPrice is an implausible price of the list, which is not used.
type RejectedPrice = pricing.RejectedPrice

// AnnotationSpotMaxPrice, on an AKSNodeClass, is the maximum price of a spot node of the class:
// dollars an hour such as 0.25, or a share of the size's on-demand price such as 60%. Azure
// evicts an instance whose price rises above it.
const AnnotationSpotMaxPrice = pricing.AnnotationSpotMaxPrice
