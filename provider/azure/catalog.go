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

// A catalogCache makes the catalogs of node classes. It keeps the last one of each, so that the
// pointer changes only with the content, and only what changed is rebuilt.
type catalogCache struct {
	now         func() time.Time
	nodeClasses classReader
	types       *typeBuilder
	memory      *observedMemory
	region      regionName
	skus        *skuList
	prices      *priceList
	quota       *quota.Tracker
	unavailable *stock.UnavailableOfferings

	mu      sync.Mutex
	byClass map[string]*classCatalog
}

// A classCatalog is the last state of one node class.
type classCatalog struct {
	built     builtFrom
	set       *typeSet
	available availableFrom
	catalog   *provider.Catalog
	lastUsed  time.Time
}

// builtFrom is the versions of what the types of a catalog depend on.
type builtFrom struct {
	settings                    classSettings
	skus, prices, disks, memory uint64
}

// availableFrom is the versions of what the availability of offerings depends on.
type availableFrom struct{ stock, limits uint64 }

// regionData is one consistent view of everything that a catalog depends on.
type regionData struct {
	skus          cached.State[sku.Set]
	prices, disks cached.State[pricing.Table] // of VM sizes and of disks
	quota         cached.State[quota.Usages]
}

// catalog returns the instance types of a node class. The first call reads the region's SKUs,
// prices and quota; later calls answer from memory, and Run reads.
func (c *catalogCache) catalog(ctx context.Context, name string) (*provider.Catalog, error) {
	class, err := c.nodeClasses.read(ctx, name)
	if err != nil {
		return nil, err
	}
	region, err := c.regionData(ctx)
	if err != nil {
		return nil, err
	}
	settings := c.types.settingsOf(class)
	c.quota.EnsureSubnet(ctx, settings.subnet)
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.withTypes(name, settings, region)
	c.refresh(x, name, region)
	return x.catalog, nil
}

// lastRead returns what was read last, without reading.
func (c *catalogCache) lastRead() regionData {
	return regionData{skus: c.skus.state(), prices: c.prices.vms.State(), disks: c.prices.disks.State(), quota: c.quota.Reading()}
}

// regionData waits for the first result of each source, for prices and quota only briefly. Both may
// be missing: the built-in prices are used then, quota counts as unlimited, and the catalog says
// so. Without SKUs there is nothing to launch.
func (c *catalogCache) regionData(ctx context.Context) (regionData, error) {
	var missing error
	var group panics.Group // each takes a second or more, the first time
	group.Go(func() error { missing = c.skus.ensure(ctx); return nil })
	group.Go(func() error { c.prices.ensure(ctx); return nil })
	group.Go(func() error { c.quota.Ensure(ctx); return nil })
	_ = group.Wait() // the error is in missing
	if err := errors.Join(missing, ctx.Err()); err != nil {
		return regionData{}, err
	}
	return c.lastRead(), nil
}

// typesOf returns the instance types of a node class, for a launch.
func (c *catalogCache) typesOf(name string, class *v1beta1.AKSNodeClass, region regionData) *typeSet {
	settings := c.types.settingsOf(class)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.withTypes(name, settings, region).set
}

// withTypes returns the node class's catalog with its types up to date. Callers hold the lock.
func (c *catalogCache) withTypes(name string, settings classSettings, region regionData) *classCatalog {
	x := c.byClass[name]
	if x == nil {
		x = &classCatalog{}
		c.byClass[name] = x
	}
	built := builtFrom{settings: settings, skus: region.skus.Version, prices: region.prices.Version, disks: region.disks.Version, memory: c.memory.currentVersion()}
	if x.set == nil || x.built != built {
		*x = classCatalog{built: built, set: c.types.build(region, settings), catalog: x.catalog}
	}
	x.lastUsed = c.now()
	return x
}

// refresh brings the catalog up to date. Types is the same slice as long as its content is the
// same, so that a consumer can compare the slice instead of its content.
func (c *catalogCache) refresh(x *classCatalog, name string, region regionData) {
	blocks, stockVersion := c.unavailable.Blocks()
	subnet := x.built.settings.subnet
	next := provider.Catalog{
		Taken:   region.taken(),
		Listed:  region.listed(),
		Unread:  region.skus.Value.Unread,
		Problem: region.problem(x.set, c.prices.builtIn(), c.quota.SubnetProblem(subnet)),
	}
	next.QuotaLeft, next.QuotaForecast = c.quota.Left(x.set.quotas, region.quota, subnet)
	available := availableFrom{stock: stockVersion, limits: region.quota.Version}
	old := x.catalog
	if old != nil && x.available == available {
		next.Types = old.Types
	} else {
		next.Types = c.availableTypes(x.set, blocks, region.quota.Value, stock.Requester{Class: name, Subnet: subnet})
		if old != nil && reflect.DeepEqual(old.Types, next.Types) {
			next.Types = old.Types
		}
		x.available = available
	}
	if old == nil || !same(old, &next) {
		x.catalog = &next
	}
}

func same(a, b *provider.Catalog) bool {
	return sameTypes(a.Types, b.Types) && maps.Equal(a.QuotaLeft, b.QuotaLeft) && maps.Equal(a.QuotaForecast, b.QuotaForecast) && a.Taken.Equal(b.Taken) && a.Listed.Equal(b.Listed) && slices.Equal(a.Unread, b.Unread) && a.Problem == b.Problem
}

func sameTypes(a, b []offering.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// taken returns when the oldest of them was read.
func (d regionData) taken() time.Time {
	oldest := d.skus.ReadAt
	for _, t := range []time.Time{d.prices.ReadAt, d.disks.ReadAt, d.quota.ReadAt} {
		if !t.IsZero() && t.Before(oldest) {
			oldest = t
		}
	}
	return oldest
}

// listed returns when the region's SKUs were read; zero while that fails. Prices and quota
// remove no SKU from the list.
func (d regionData) listed() time.Time {
	if d.skus.Problem != "" {
		return time.Time{}
	}
	return d.skus.ReadAt
}

// problem describes which data could not be read, or is incomplete; empty when all is fresh.
func (d regionData) problem(set *typeSet, list pricelist.List, subnetProblem string) string {
	var problems []string
	for _, problem := range []string{d.skus.Problem, d.skus.Value.Problem(), d.prices.Problem, d.disks.Problem, d.quota.Problem, subnetProblem} {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	if d.prices.Problem != "" {
		problems = append(problems, set.unlistedPrices(list)...)
	}
	if families := d.quota.Value.Unlisted(set.quotas); len(families) > 0 {
		problems = append(problems, fmt.Sprintf("the region's quota does not list %s: nodes of it are launched until Azure refuses them", armtext.Few(families)))
	}
	return strings.Join(problems, "; ")
}

// availableTypes sets why offerings are unavailable now. Types without such an offering share
// their offerings with the set.
func (c *catalogCache) availableTypes(set *typeSet, blocks stock.Blocks, quota quota.Usages, by stock.Requester) []offering.InstanceType {
	types := make([]offering.InstanceType, len(set.types))
	for i := range set.types {
		m := &set.types[i]
		types[i] = m.offered
		types[i].Offerings = c.availableOfferings(m, blocks, quota, by)
	}
	return types
}

func (c *catalogCache) availableOfferings(m *instanceType, blocks stock.Blocks, quota quota.Usages, by stock.Requester) []offering.Offering {
	all, copied := m.offered.Offerings, false
	for i := range m.offered.Offerings {
		why := c.whyUnavailable(m.sku, &m.offered.Offerings[i], blocks, quota, by)
		if why == "" {
			continue
		}
		if !copied {
			all, copied = append([]offering.Offering(nil), all...), true
		}
		all[i].Unavailable = why
	}
	return all
}

// whyUnavailable describes why an offering cannot be launched: it is not available to this
// subscription, the quota limit is below its use, or Azure refused it recently.
func (c *catalogCache) whyUnavailable(s *sku.SKU, o *offering.Offering, blocks stock.Blocks, quota quota.Usages, by stock.Requester) string {
	if s.Restricted.Region != "" {
		return s.Restricted.Region
	}
	if why := s.Restricted.Zones[c.region.zoneNumber(o.Zone)]; why != "" {
		return why
	}
	for _, d := range o.QuotaUses {
		if q, ok := quota.Of(d.Quota); ok && q.Limit < d.Amount {
			return fmt.Sprintf("quota %s is %d, this takes %d", d.Quota, q.Limit, d.Amount)
		}
	}
	if b, ok := blocks.Blocked(s, o.Zone, o.CapacityType, by); ok {
		return b.Description
	}
	return ""
}

// addressUse returns the subnet addresses that a node of the class takes; false when its subnet is
// not known.
func (c *catalogCache) addressUse(class *v1beta1.AKSNodeClass) (offering.QuotaUse, bool) {
	return c.types.addressUse(c.types.settingsOf(class))
}

// maxUnusedCatalogAge is how long an unused catalog is kept. Catalogs of classes that NodePools or
// NodeClaims name are used every few seconds; one takes a megabyte or two.
const maxUnusedCatalogAge = 2 * time.Minute

func (c *catalogCache) removeUnused(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.byClass, func(_ string, x *classCatalog) bool { return now.Sub(x.lastUsed) > maxUnusedCatalogAge })
}
