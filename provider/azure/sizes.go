// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"reflect"
	"time"

	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// A sizeList is the region's VM sizes as they were read last.
type sizeList struct{ source *cached.Source[sku.Set] }

func newSizeList(c *connection, o *Options) *sizeList {
	reader := &sku.Reader{ARM: c.arm, Decoder: c.decoder, Subscription: o.SubscriptionID, Location: o.Location, Log: o.Log}
	return &sizeList{&cached.Source[sku.Set]{
		Name: "VM sizes", Load: reader.Read, Same: func(a, b sku.Set) bool { return reflect.DeepEqual(a, b) }, Validate: sku.Validate, Env: o.env(),
	}}
}

// sizesEvery is how often the region's sizes are read again.
const sizesEvery = 12 * time.Hour

// state returns the sizes as they were read last.
func (l *sizeList) state() cached.State[sku.Set] { return l.source.State() }

// byName returns the sizes by name.
func (l *sizeList) byName() map[string]*sku.SKU { return l.state().Value.ByName }

// ensure reads the sizes if that was not done yet.
func (l *sizeList) ensure(ctx context.Context) error { return l.source.Ensure(ctx) }

// keepFresh keeps the sizes fresh until ctx ends.
func (l *sizeList) keepFresh(ctx context.Context) { l.source.KeepFresh(ctx, sizesEvery) }

// stop cancels a request that no caller waits for.
func (l *sizeList) stop() { l.source.Stop() }
