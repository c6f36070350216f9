// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
	"github.com/karve-dev/karve/provider/azure/pricelist"
)

// A catalogs makes the snapshots of node classes. It keeps the last one of each, so that the
// pointer changes only with the content, and only what changed is rebuilt.
type catalogs struct {
	now       func() time.Time
	types     *typeBuilder
	skus      *cached.Source[sku.Set]
	prices    *priceList
	quota     *quota.Tracker
	stockouts *stock.Stockouts

	mu      sync.Mutex
	classes map[string]*catalog
}

// A catalog is the last state of one node class.
type catalog struct {
	built     builtFrom
	set       *typeSet
	available availableFrom
	snapshot  *provider.Catalog
	asked     time.Time // last use
}

// builtFrom and availableFrom are the versions of the inputs that a catalog depends on.
type builtFrom struct {
	shape                shape
	skus, prices, memory uint64
}

type availableFrom struct{ stock, limits uint64 }

// inputs is one consistent view of everything that a catalog depends on.
type inputs struct {
	skus   cached.State[sku.Set]
	prices cached.State[pricing.Table]
	quota  cached.State[quota.Usages]
}

// Catalog returns the instance types for a node class. The first call reads the region's sizes,
// prices and quota; later calls answer from memory, and Run reads.
func (p *Provider) Catalog(ctx context.Context, class string) (*provider.Catalog, error) {
	c, err := p.class(ctx, class)
	if err != nil {
		return nil, err
	}
	in, err := p.catalogs.inputs(ctx)
	if err != nil {
		return nil, err
	}
	s := p.catalogs.of(ctx, class, c, in)
	p.tidy()
	return s, nil
}

// sizes returns the region's sizes by name, as they were read last.
func (c *catalogs) sizes() map[string]*sku.SKU { return c.skus.State().Value.ByName }

// ensureSizes reads the region's sizes if that was not done yet.
func (c *catalogs) ensureSizes(ctx context.Context) error { return c.skus.Ensure(ctx) }

// skusEvery is how often the region's sizes are read again.
const skusEvery = 12 * time.Hour

// keepSizes keeps the region's sizes fresh until ctx ends.
func (c *catalogs) keepSizes(ctx context.Context) { c.skus.Keep(ctx, skusEvery) }

// stop cancels a request that no caller waits for.
func (c *catalogs) stop() { c.skus.Stop() }

// present returns what was read last, without reading.
func (c *catalogs) present() inputs {
	return inputs{skus: c.skus.State(), prices: c.prices.state(), quota: c.quota.Reading()}
}

// inputs waits for the first result of each source, for prices and quota only briefly. Both may
// be missing: the built-in prices are used then, quota counts as unlimited, and the snapshot
// says so. Without sizes there is nothing to launch.
func (c *catalogs) inputs(ctx context.Context) (inputs, error) {
	var missing error
	var group panics.Group // each takes a second or more, the first time
	group.Go(func() error { missing = c.skus.Ensure(ctx); return nil })
	group.Go(func() error { c.prices.ensure(ctx); return nil })
	group.Go(func() error { c.quota.Ensure(ctx); return nil })
	_ = group.Wait() // the error is in missing
	if err := errors.Join(missing, ctx.Err()); err != nil {
		return inputs{}, err
	}
	return c.present(), nil
}

// of returns the snapshot of a node class.
func (c *catalogs) of(ctx context.Context, name string, class *v1beta1.AKSNodeClass, in inputs) *provider.Catalog {
	sh := c.types.shape(class)
	c.quota.EnsureSubnet(ctx, sh.subnet)
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.built(name, sh, in)
	c.refresh(x, name, in)
	return x.snapshot
}

// typesOf returns the instance types of a node class, for a launch.
func (c *catalogs) typesOf(name string, class *v1beta1.AKSNodeClass, in inputs) *typeSet {
	sh := c.types.shape(class)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.built(name, sh, in).set
}

// built returns the node class's catalog with its types up to date. Callers hold the lock.
func (c *catalogs) built(name string, sh shape, in inputs) *catalog {
	x := c.classes[name]
	if x == nil {
		x = &catalog{}
		c.classes[name] = x
	}
	built := builtFrom{shape: sh, skus: in.skus.Version, prices: in.prices.Version, memory: c.types.memory.now()}
	if x.set == nil || x.built != built {
		*x = catalog{built: built, set: c.types.build(in.skus.Value, in.prices.Value, sh), snapshot: x.snapshot}
	}
	x.asked = c.now()
	return x
}

// refresh brings the snapshot up to date. Types is the same slice as long as its content is the
// same, so that a consumer can compare the slice instead of its content.
func (c *catalogs) refresh(x *catalog, name string, in inputs) {
	blocks, stockVersion := c.stockouts.Snapshot()
	subnet := x.built.shape.subnet
	next := provider.Catalog{
		Taken:   in.taken(),
		Listed:  in.listed(),
		Unread:  in.skus.Value.Unread,
		Problem: in.problem(x.set, c.prices.builtIn(), c.quota.SubnetProblem(subnet)),
	}
	next.QuotaLeft, next.QuotaPressure = c.quota.Left(x.set.quotas, in.quota, subnet)
	available := availableFrom{stock: stockVersion, limits: in.quota.Version}
	old := x.snapshot
	if old != nil && x.available == available {
		next.Types = old.Types
	} else {
		next.Types = c.availableTypes(x.set, blocks, in.quota.Value, stock.Requester{Class: name, Subnet: subnet})
		if old != nil && reflect.DeepEqual(old.Types, next.Types) {
			next.Types = old.Types
		}
		x.available = available
	}
	if old == nil || !same(old, &next) {
		x.snapshot = &next
	}
}

func same(a, b *provider.Catalog) bool {
	return sameTypes(a.Types, b.Types) && maps.Equal(a.QuotaLeft, b.QuotaLeft) && maps.Equal(a.QuotaPressure, b.QuotaPressure) && a.Taken.Equal(b.Taken) && a.Listed.Equal(b.Listed) && slices.Equal(a.Unread, b.Unread) && a.Problem == b.Problem
}

func sameTypes(a, b []offering.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// taken returns when the oldest part was read.
func (in inputs) taken() time.Time {
	oldest := in.skus.Taken
	for _, t := range []time.Time{in.prices.Taken, in.quota.Taken} {
		if !t.IsZero() && t.Before(oldest) {
			oldest = t
		}
	}
	return oldest
}

// listed returns when the region's sizes were read; zero while that fails. Prices and quota
// remove no size from the list.
func (in inputs) listed() time.Time {
	if in.skus.Problem != "" {
		return time.Time{}
	}
	return in.skus.Taken
}

func (in inputs) problem(set *typeSet, list pricelist.List, subnetProblem string) string {
	var parts []string
	for _, problem := range []string{in.skus.Problem, in.skus.Value.Problem(), in.prices.Problem, in.quota.Problem, subnetProblem} {
		if problem != "" {
			parts = append(parts, problem)
		}
	}
	if in.prices.Problem != "" {
		parts = append(parts, set.otherPrices(list)...)
	}
	if families := in.quota.Value.Unlisted(set.quotas); len(families) > 0 {
		parts = append(parts, fmt.Sprintf("the region's quota does not list %s: nodes of it are launched until Azure refuses them", armtext.Few(families)))
	}
	return strings.Join(parts, "; ")
}

// availableTypes sets why offerings are unavailable now. Types without such an offering share
// their offerings with the set.
func (c *catalogs) availableTypes(set *typeSet, blocks stock.Blocks, quota quota.Usages, by stock.Requester) []offering.InstanceType {
	types := make([]offering.InstanceType, len(set.types))
	for i := range set.types {
		m := &set.types[i]
		types[i] = m.offered
		types[i].Offerings = c.availableOffers(m, blocks, quota, by)
	}
	return types
}

func (c *catalogs) availableOffers(m *machineType, blocks stock.Blocks, quota quota.Usages, by stock.Requester) []offering.Offering {
	offers, copied := m.offered.Offerings, false
	for i := range m.offered.Offerings {
		why := c.unavailable(m.sku, &m.offered.Offerings[i], blocks, quota, by)
		if why == "" {
			continue
		}
		if !copied {
			offers, copied = append([]offering.Offering(nil), offers...), true
		}
		offers[i].Unavailable = why
	}
	return offers
}

// unavailable describes why an offering cannot be launched: it is not available to this
// subscription, the quota limit is below its use, or Azure refused it recently.
func (c *catalogs) unavailable(s *sku.SKU, o *offering.Offering, blocks stock.Blocks, quota quota.Usages, by stock.Requester) string {
	if s.Barred.Region != "" {
		return s.Barred.Region
	}
	if why := s.Barred.Zones[c.types.zones.number(o.Zone)]; why != "" {
		return why
	}
	for _, d := range o.QuotaUses {
		if q, ok := quota.Of(d.Quota); ok && q.Limit < d.Amount {
			return fmt.Sprintf("quota %s is %d, this takes %d", d.Quota, q.Limit, d.Amount)
		}
	}
	if b, ok := blocks.Blocked(s, o.Zone, o.CapacityType, by); ok {
		return b.Words
	}
	return ""
}
