// SPDX-License-Identifier: Apache-2.0

package azureemulator

// Capacity is what Azure has, and what it lets the subscription use of it.
type Capacity struct {
	quota     *quota
	stock     *stock
	sizes     *sizes
	throttles *throttles
}

// SetQuota changes a limit: a VM family's, "cores", "lowPriorityCores" or "virtualMachines",
// letter case ignored. VMs that exist keep what they use.
func (c *Capacity) SetQuota(name string, limit int) error { return c.quota.setLimit(name, limit) }

// Usages is every quota, ordered by name.
func (c *Capacity) Usages() []Usage { return c.quota.allUsages() }

// AddStockout makes something run out. The stock-out added last decides.
func (c *Capacity) AddStockout(o Stockout) error { return c.stock.add(o) }

// ClearStockouts ends the stock-outs with this size, zone and priority; an empty string stands
// for any.
func (c *Capacity) ClearStockouts(size, zone, priority string) { c.stock.clear(size, zone, priority) }

// Stockouts are those in force, the deciding ones first.
func (c *Capacity) Stockouts() []Stockout { return c.stock.list() }

// SetRestrictions replaces the sizes that this subscription may not use.
func (c *Capacity) SetRestrictions(restrictions ...Restriction) {
	c.sizes.setRestrictions(restrictions...)
}

// SetThrottling enforces request limits, or stops doing so. Requests are counted in either case.
func (c *Capacity) SetThrottling(enforced bool) { c.throttles.setEnforced(enforced) }
