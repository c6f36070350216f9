// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/internal/token"
)

// sources are what karve reads of the region and keeps fresh.
type sources struct {
	skus    *skuList
	prices  *priceList
	quota   *quota.Tracker
	network *network.Reader
	images  *image.Images
	// sharedToken holds the tokens for images that another tenant shares.
	sharedToken *token.GalleryToken
	panics      *panics.Reporter
}

func newSources(o *Options, c *connection, cluster network.SubnetID) (*sources, error) {
	s := &sources{
		skus: newSKUList(c, o),
		network: network.NewReader(o.network(cluster), network.Clients{
			ARM: c.arm, Decoder: c.decoder, Subnets: c.network.NewSubnetsClient(), VNets: c.network.NewVirtualNetworksClient(), SecurityGroups: c.network.NewSecurityGroupsClient(),
		}, o.env()),
		images: image.New(image.Config{
			ARM: c.arm, Decoder: c.decoder, Subscription: o.SubscriptionID, Location: o.Location, Shared: o.SharedGallery, Every: o.ImagesEvery, Now: o.Now, Panics: o.Panics,
		}),
		sharedToken: token.NewGalleryToken(o.SharedGallery.TokenURL, o.ClientOptions, o.env()),
		panics:      o.Panics,
	}
	var err error
	if s.prices, err = newPriceList(o, c.transport(), s.skus); err != nil {
		return nil, err
	}
	usages := &quota.Reader{ARM: c.arm, Decoder: c.decoder, Subscription: o.SubscriptionID, Location: o.Location}
	s.quota = quota.NewTracker(usages.Read, s.network.Addresses, o.env())
	return s, nil
}

// run keeps SKUs, prices and quota fresh until ctx ends. It returns the error of ctx.
func (s *sources) run(ctx context.Context) error {
	var group panics.Group
	for _, keep := range []func(context.Context){
		s.skus.keepFresh,
		s.prices.vms.keepFresh,
		s.prices.disks.keepFresh,
		s.quota.KeepRegionFresh,
		s.quota.KeepSubnetsFresh,
	} {
		group.Go(func() error {
			return s.panics.Loop(ctx, cached.PanicsName, func(ctx context.Context) error { keep(ctx); return nil })
		})
	}
	_ = group.Wait() // always nil
	s.stop()
	return ctx.Err()
}

// stop cancels the requests that no caller waits for.
func (s *sources) stop() {
	s.skus.stop()
	s.prices.stop()
	s.quota.Stop()
	s.sharedToken.Stop()
}
