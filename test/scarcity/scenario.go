// SPDX-License-Identifier: Apache-2.0

package scarcity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/catalog"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/provider"
)

// A Scenario is a region where offerings are scarce, and the VMs that are needed
// there: a third of the families have quota for a few VMs more, and one in twenty
// pairs of a size and a zone is out of stock, which no list shows beforehand.
type Scenario struct {
	// Seed decides which families, which pairs and what is needed.
	Seed uint64
	// Orders is how many VMs are needed. Zero: 500.
	Orders int
	// Waves is in how many bursts they come; zero: 5. Every is the time between two of
	// them; zero: 1 min.
	Waves int
	Every time.Duration
}

// Result is how a strategy fared.
type Result struct {
	Orders int
	// FirstAttempts are the orders whose very first launch brought their VM.
	FirstAttempts int
	// Served are those that have a VM in the end, Launches what was asked for
	// altogether.
	Served, Launches int
	// Took is from the first order to the last VM.
	Took time.Duration
	// Price is of all VMs for an hour.
	Price offering.Price
}

// FirstAttemptSuccess is the share of orders whose first launch brought their VM.
func (r Result) FirstAttemptSuccess() float64 { return float64(r.FirstAttempts) / float64(r.Orders) }

func (r Result) String() string {
	return fmt.Sprintf("%.1f %% of %d orders had their VM by the first launch; %d served by %d launches in %v, for $%.2f an hour",
		100*r.FirstAttemptSuccess(), r.Orders, r.Served, r.Launches, r.Took.Round(time.Second), r.Price.USD())
}

func (s Scenario) withDefaults() Scenario {
	if s.Orders == 0 {
		s.Orders = 500
	}
	if s.Waves == 0 {
		s.Waves = 5
	}
	if s.Every == 0 {
		s.Every = time.Minute
	}
	return s
}

// region makes an Azure in trouble, at its own pace and limits.
func (s Scenario) region(ctx context.Context) (*azureemulator.Server, error) {
	sizes, err := catalog.Sizes()
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(s.Seed, 1))
	region, err := azureemulator.New(ctx, azureemulator.Options{
		SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: s.Seed, SubnetPrefix: "10.0.0.0/16",
		DefaultFamilyCores: 10_000, RegionalCores: 100_000, LowPriorityCores: 100_000,
		Quota: scarceFamilies(sizes, r),
	})
	if err != nil {
		return nil, err
	}
	return region, takeStock(region, sizes, r)
}

// scarceFamilies gives a third of the families quota for 8 to 40 cores.
func scarceFamilies(sizes []catalog.Size, r *rand.Rand) map[string]int {
	families := map[string]bool{}
	for _, s := range sizes {
		families[s.Family] = true
	}
	scarce := map[string]int{}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		if r.IntN(3) == 0 {
			scarce[family] = 8 + r.IntN(33)
		}
	}
	return scarce
}

// takeStock takes one in twenty pairs of a size and a zone out of stock, in the ways
// that Azure has of saying so.
func takeStock(region *azureemulator.Server, sizes []catalog.Size, r *rand.Rand) error {
	modes := []string{"", "", azureemulator.SkuNotAvailable, azureemulator.OverconstrainedZonalAllocationRequest}
	for _, s := range sizes {
		for _, zone := range []string{"1", "2", "3", "regional"} {
			if r.IntN(20) != 0 {
				continue
			}
			if err := region.Capacity.AddStockout(azureemulator.Stockout{Size: s.Name, Zone: zone, Mode: modes[r.IntN(len(modes))]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// An order is a VM that is needed.
type order struct {
	name  string
	at    time.Duration // since the start
	needs quantity.Amounts
	pool  pool
	spot  bool   // will do as well
	zone  string // empty: any
	turn  int    // where among equal zones to begin
}

// A pool is what one team allows itself: families of sizes by their letter, in some
// versions. Empty means any.
type pool struct{ letters, versions []string }

var pools = []pool{
	{letters: []string{"D"}, versions: []string{"5"}},
	{letters: []string{"E"}, versions: []string{"5"}},
	{letters: []string{"D"}, versions: []string{"6"}},
	{letters: []string{"D", "E"}, versions: []string{"4", "5", "6", "7"}},
	{letters: []string{"F"}},
	{},
}

func (p pool) allows(t *offering.InstanceType) bool {
	has := func(label string, values []string) bool {
		return values == nil || len(t.Labels[label]) == 1 && slices.Contains(values, t.Labels[label][0])
	}
	return has(v1beta1.LabelSKUFamily, p.letters) && has(v1beta1.LabelSKUVersion, p.versions)
}

// orders are what is needed, earliest first.
func (s Scenario) orders(location string) []order {
	r := rand.New(rand.NewPCG(s.Seed, 2))
	all := make([]order, s.Orders)
	for i := range all {
		cores := int64(1) << (1 + r.IntN(5))
		gibibytes := cores * (int64(2) << r.IntN(3))
		all[i] = order{
			name: fmt.Sprintf("order-%d", i), at: time.Duration(i*s.Waves/s.Orders) * s.Every, turn: i,
			// What a VM that is sold with as much leaves to its pods.
			needs: quantity.Amounts{quantity.NameCPU: cores * 900, quantity.NameMemory: gibibytes << 30 * 3 / 4},
			pool:  pools[r.IntN(len(pools))],
			spot:  r.IntN(4) == 0,
		}
		if r.IntN(2) == 0 {
			all[i].zone = fmt.Sprintf("%s-%d", location, 1+r.IntN(3))
		}
	}
	return all
}

// mostTypes is how many types a NodeClaim names.
const mostTypes = 60

// choices are the offers that would do and seem to be had, cheapest first. Equal zones
// take turns from order to order.
func (o order) choices(s *provider.Catalog) []offering.Ref {
	var all []offering.Ref
	for i := range s.Types {
		t := &s.Types[i]
		if t.Capacity["nvidia.com/gpu"]+t.Capacity["amd.com/gpu"] > 0 || !o.pool.allows(t) || !holds(t.Capacity.Sub(t.Overhead), o.needs) {
			continue
		}
		for _, f := range t.Offerings {
			if f.Unavailable == "" && o.accepts(f) && withinQuota(s.QuotaLeft, f.QuotaUses) {
				all = append(all, offering.Ref{Type: t.Name, Zone: f.Zone, CapacityType: f.CapacityType, Price: f.Price, Fallback: f.Fallback})
			}
		}
	}
	slices.SortStableFunc(all, o.order)
	return firstTypes(all, mostTypes)
}

func holds(room, needs quantity.Amounts) bool {
	for name, n := range needs {
		if room[name] < n {
			return false
		}
	}
	return true
}

func (o order) accepts(f offering.Offering) bool {
	return (o.spot || f.CapacityType == offering.OnDemand) && (o.zone == "" || o.zone == f.Zone)
}

func withinQuota(budgets map[string]int64, draws []offering.QuotaUse) bool {
	for _, d := range draws {
		if left, limited := budgets[d.Quota]; limited && left < d.Amount {
			return false
		}
	}
	return true
}

// firstTypes cuts a list off before the type after the n-th.
func firstTypes(all []offering.Ref, n int) []offering.Ref {
	seen := map[string]bool{}
	for i, c := range all {
		if seen[c.Type] = true; len(seen) > n {
			return all[:i]
		}
	}
	return all
}

// order sorts by price, then places without a choice of zone last, then by turns.
func (o order) order(a, b offering.Ref) int {
	return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(rank(a, o.turn), rank(b, o.turn)))
}

func rank(c offering.Ref, turn int) int {
	if c.Fallback {
		return 3
	}
	return (int(c.Zone[len(c.Zone)-1]) + turn) % 3
}
