// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"reflect"
	"time"

	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// A skuList is the SKUs of the region's VM sizes, as they were read last.
type skuList struct{ source *cached.Source[sku.Set] }

func newSKUList(c *connection, o *Options) *skuList {
	reader := &sku.Reader{ARM: c.arm, Decoder: c.decoder, Subscription: o.SubscriptionID, Location: o.Location, Log: o.Log}
	return &skuList{&cached.Source[sku.Set]{
		Name: "VM sizes", Load: reader.Read, Same: func(a, b sku.Set) bool { return reflect.DeepEqual(a, b) }, Validate: sku.Validate, Env: o.env(),
	}}
}

// skusEvery is how often the region's SKUs are read again.
const skusEvery = 12 * time.Hour

// state returns the SKUs as they were read last.
func (l *skuList) state() cached.State[sku.Set] { return l.source.State() }

// byName returns the SKUs by name.
func (l *skuList) byName() map[string]*sku.SKU { return l.state().Value.ByName }

// ensure reads the SKUs if that was not done yet.
func (l *skuList) ensure(ctx context.Context) error { return l.source.Ensure(ctx) }

// keepFresh keeps the SKUs fresh until ctx ends.
func (l *skuList) keepFresh(ctx context.Context) { l.source.KeepFresh(ctx, skusEvery) }

// stop cancels a request that no caller waits for.
func (l *skuList) stop() { l.source.Stop() }
