// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
	"github.com/karve-dev/karve/provider/azure/pricelist"
)

// A priceList is the region's price list as it was read last. VM sizes and disks are two sources:
// where one cannot be read, the other still counts.
type priceList struct {
	vms, disks priceSource
	skus       *skuList
}

// A priceSource is what the list says of one subject, and the validator of its prices.
type priceSource struct {
	*cached.Source[pricing.Table]
	validator *pricing.Validator
}

func newPriceList(o *Options, transport policy.Transporter, skus *skuList) (*priceList, error) {
	vms, err := pricing.NewValidator(o.Location)
	if err != nil {
		return nil, err
	}
	return &priceList{
		vms:   newPriceSource("prices", vms, o, transport),
		disks: newPriceSource("disk prices", pricing.NewDiskValidator(o.Location), o, transport),
		skus:  skus,
	}, nil
}

func newPriceSource(name string, validator *pricing.Validator, o *Options, transport policy.Transporter) priceSource {
	reader := &pricing.Reader{Transport: transport, URL: o.PricesURL, Location: o.Location, Now: o.Now, Validator: validator}
	return priceSource{validator: validator, Source: &cached.Source[pricing.Table]{
		Name: name, Load: reader.Read, Same: func(a, b pricing.Table) bool { return maps.Equal(a, b) }, Env: o.env(),
		MaybeEmpty: func(t pricing.Table) bool { return len(t) == 0 },
	}}
}

// pricesEvery is how often the price list is read again.
const pricesEvery = 12 * time.Hour

// ensure waits briefly for the first reading of the list.
func (l *priceList) ensure(ctx context.Context) {
	var group panics.Group
	for _, s := range []priceSource{l.vms, l.disks} {
		group.Go(func() error { s.TryEnsure(ctx); return nil })
	}
	_ = group.Wait() // always nil
}

// keepFresh keeps the prices of the subject fresh until ctx ends.
func (s priceSource) keepFresh(ctx context.Context) { s.KeepFresh(ctx, pricesEvery) }

// stop cancels requests that no caller waits for.
func (l *priceList) stop() {
	l.vms.Stop()
	l.disks.Stop()
}

// problem describes what of the list could not be read; empty when all was.
func (l *priceList) problem() string {
	problems := []string{l.vms.State().Problem, l.disks.State().Problem}
	return strings.Join(slices.DeleteFunc(problems, func(p string) bool { return p == "" }), "; ")
}

// builtIn returns the list that built-in prices of VM sizes are of.
func (l *priceList) builtIn() pricelist.List { return l.vms.validator.Source }

// rejected returns the prices of the last list that were not used, for sizes of the region that
// nodes can have and for disks, sorted by name.
func (l *priceList) rejected() []pricing.RejectedPrice {
	skus := l.skus.byName()
	vms := slices.DeleteFunc(l.vms.validator.Rejected(), func(d pricing.RejectedPrice) bool { return skus[d.Size] == nil })
	all := append(vms, l.disks.validator.Rejected()...)
	slices.SortStableFunc(all, func(a, b pricing.RejectedPrice) int { return cmp.Compare(a.Size, b.Size) })
	return all
}

// unlisted says that the price list was read and lacks the region; empty when the list has the
// region.
func (l *priceList) unlisted() string { return l.vms.validator.Unlisted(cached.EmptyFor) }

// stats counts the VM sizes that have a price, and the rejected prices.
func (l *priceList) stats() provider.PriceStats {
	list := l.vms.State()
	return provider.PriceStats{Accepted: len(list.Value), Rejected: len(l.rejected()), Read: list.ReadAt}
}

// A RejectedPrice is an implausible price of the list, which is not used.
type RejectedPrice = pricing.RejectedPrice

// AnnotationSpotMaxPrice, on an AKSNodeClass, is the maximum price of a spot node of the class:
// dollars an hour such as 0.25, or a share of the size's on-demand price such as 60%. Azure
// evicts an instance whose price rises above it.
const AnnotationSpotMaxPrice = pricing.AnnotationSpotMaxPrice
