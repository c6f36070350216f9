// SPDX-License-Identifier: Apache-2.0

// Package catalog copies a provider's instance types and offerings into the mirror, adjusted
// by NodeOverlays. It reads the catalog of every node class that a pool or a claim names, and
// passes a catalog on only when it changed.
//
// One class never delays others: a class that cannot
// be read is reported and its pools have no offerings. The zero Keeper is
// not usable; see New.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/provider"
)

// firstReadTimeout is how long Refresh waits for a class's first catalog before it continues
// without it.
const firstReadTimeout = 30 * time.Second

// Keeper keeps the mirror's catalogs current.
type Keeper struct {
	// Overlays reads the overlays to apply; nil when there are none to be read. Set
	// it before the first Refresh.
	Overlays Source

	provider provider.Provider
	mirror   *state.Mirror
	metrics  *metrics.Set

	mu               sync.Mutex
	last             map[string]*provider.Catalog
	read             map[string]time.Time
	quotasWithGauges map[string]bool // the quotas that have gauges
	overlays         Overlays
	published        map[string]publishedCatalog // what the mirror has, by class
}

// publishedCatalog holds a catalog's instance types after overlays.
type publishedCatalog struct {
	offering.Overlaid
	source *provider.Catalog
}

// New returns a Keeper that knows nothing yet.
func New(p provider.Provider, m *state.Mirror, s *metrics.Set) *Keeper {
	return &Keeper{provider: p, mirror: m, metrics: s, last: map[string]*provider.Catalog{}, read: map[string]time.Time{}, quotasWithGauges: map[string]bool{}, published: map[string]publishedCatalog{}}
}

// Refresh reads overlays, and the catalog of every class in use. The error names
// everything that could not be read; all else is current.
func (k *Keeper) Refresh(ctx context.Context) error {
	classes := k.mirror.Classes()
	failed := make([]error, len(classes)+1)
	var group panics.Group
	for i, class := range classes {
		group.Go(func() error { failed[i] = k.fetch(ctx, class); return nil })
	}
	_ = group.Wait() // failed has it all
	for _, class := range k.dropUnused(classes) {
		k.mirror.RemoveCatalog(class)
	}
	failed[len(classes)] = k.publish(ctx)
	return errors.Join(failed...)
}

// Ensure makes sure that the class was read not long ago.
func (k *Keeper) Ensure(ctx context.Context, class string) error {
	k.mu.Lock()
	fresh := time.Since(k.read[class]) < 10*time.Second
	k.mu.Unlock()
	if fresh {
		return nil
	}
	return errors.Join(k.fetch(ctx, class), k.publish(ctx))
}

func (k *Keeper) fetch(ctx context.Context, class string) error {
	ctx, cancel := context.WithTimeout(ctx, firstReadTimeout)
	defer cancel()
	catalog, err := k.provider.Catalog(ctx, class)
	if err != nil {
		return fmt.Errorf("reading the offerings of node class %q: %w", class, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read[class] = time.Now()
	k.metrics.CatalogAge.WithLabelValues(class).Set(time.Since(catalog.Taken).Seconds())
	k.setQuotaGauges(catalog)
	k.last[class] = catalog
	return nil
}

// dropUnused drops the state of classes that no pool or claim names any more, and the gauges of
// quotas that no class uses: an alert on one would never end. It returns those classes.
func (k *Keeper) dropUnused(used []string) (gone []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for class := range k.last {
		if slices.Contains(used, class) {
			continue
		}
		gone = append(gone, class)
		delete(k.last, class)
		delete(k.read, class)
		delete(k.published, class)
		k.metrics.CatalogAge.DeleteLabelValues(class)
	}
	for quota := range k.quotasWithGauges {
		used := false
		for _, s := range k.last {
			_, uses := s.QuotaLeft[quota]
			used = used || uses
		}
		if !used {
			k.metrics.QuotaRemaining.DeleteLabelValues(quota)
			k.metrics.QuotaExhausted.DeleteLabelValues(quota)
			delete(k.quotasWithGauges, quota)
		}
	}
	return gone
}

// setQuotaGauges exports the rest of each quota, and when it will be used up.
func (k *Keeper) setQuotaGauges(s *provider.Catalog) {
	for quota, left := range s.QuotaLeft {
		k.quotasWithGauges[quota] = true
		k.metrics.QuotaRemaining.WithLabelValues(quota).Set(float64(left))
		if e, ends := s.QuotaForecast[quota]; ends {
			k.metrics.QuotaExhausted.WithLabelValues(quota).Set(e.In.Seconds())
		} else {
			k.metrics.QuotaExhausted.DeleteLabelValues(quota)
		}
	}
}

// Latest returns the class's catalog when it was last read, before overlays;
// nil if it never was.
func (k *Keeper) Latest(class string) *provider.Catalog {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[class]
}
