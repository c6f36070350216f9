// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/provider"
)

// Options configure a Cloud. The zero value has a few instance types, no latency and no limits.
type Options struct {
	// Types are the instance types of every class; nil means Types().
	Types []offering.InstanceType
	// Quota is the size of each quota. A quota that is not listed is not limited.
	Quota map[string]int64
	// Create is the time from an accepted launch until the instance runs or, out of stock, fails.
	// Delete is the time from a termination until the instance does not exist any more.
	Create, Delete time.Duration
	// Call is how long every call to the cloud takes.
	Call time.Duration
	// RetryAfter is the value of Instance.RetryAfter. Zero means a second.
	RetryAfter time.Duration
	// Repair is the result of Provider.RepairPolicies; nil means that a node must be ready again
	// within ten minutes.
	Repair []provider.RepairPolicy
}

// Cloud is a simulated cloud with its instances.
type Cloud struct {
	opts Options

	mu        sync.Mutex
	instances map[string]*vm // by name
	outages   []Outage
	fault     func(op string) error
	types     []offering.InstanceType // as markUnavailable made them
	calls     map[string]int
	launched  int
	image     string // that new instances start from
}

// A vm is one instance. Its times determine its state.
type vm struct {
	claim   provider.Claim
	choice  offering.Ref
	typ     offering.InstanceType
	image   string
	created time.Time
	fails   bool      // after Create, instead of running
	deleted time.Time // zero until it is terminated
	stopped bool
}

// Outage selects the offerings that are out of stock. Empty fields match everything.
type Outage struct {
	Type, Zone, CapacityType string
	// Late outages accept the launch and then fail it, so that only providers that tried know of
	// them. Other outages refuse the launch at once.
	Late bool
}

func (o Outage) matches(c offering.Ref) bool {
	return (o.Type == "" || o.Type == c.Type) && (o.Zone == "" || o.Zone == c.Zone) &&
		(o.CapacityType == "" || o.CapacityType == c.CapacityType)
}

// NewCloud makes a cloud without instances.
func NewCloud(opts Options) *Cloud {
	if opts.Types == nil {
		opts.Types = Types()
	}
	if opts.RetryAfter == 0 {
		opts.RetryAfter = time.Second
	}
	return &Cloud{opts: opts, instances: map[string]*vm{}, calls: map[string]int{}, types: opts.Types, image: "memory-image"}
}

// Types returns a few plausible instance types in two zones, each on demand and as spot.
func Types() []offering.InstanceType {
	var types []offering.InstanceType
	for _, size := range []struct {
		name   string
		cores  int64
		gib    int64
		gpus   int64
		family string
		usd    float64
	}{
		{"small-2", 2, 8, 0, "small", 0.1},
		{"small-4", 4, 16, 0, "small", 0.2},
		{"small-8", 8, 32, 0, "small", 0.4},
		{"large-16", 16, 64, 0, "large", 0.8},
		{"large-32", 32, 128, 0, "large", 1.6},
		{"gpu-8", 8, 64, 1, "gpu", 3.2},
	} {
		t := offering.InstanceType{
			Name:     size.name,
			Labels:   map[string][]string{"kubernetes.io/arch": {"amd64"}, "kubernetes.io/os": {"linux"}, "memory.karve.dev/family": {size.family}},
			Capacity: quantity.Amounts{quantity.NameCPU: size.cores * 1000, quantity.NameMemory: size.gib << 30, quantity.NameStorage: 100 << 30, quantity.NamePods: 110},
			Overhead: quantity.Amounts{quantity.NameCPU: 100, quantity.NameMemory: 1 << 30},
		}
		if size.gpus > 0 {
			t.Capacity["nvidia.com/gpu"] = size.gpus
		}
		for _, zone := range []string{"zone-1", "zone-2"} {
			price := offering.Price(size.usd * 1e9)
			t.Offerings = append(t.Offerings,
				offering.Offering{Zone: zone, CapacityType: offering.OnDemand, Price: price, QuotaUses: []offering.QuotaUse{{Quota: "family:" + size.family, Amount: size.cores}}},
				offering.Offering{Zone: zone, CapacityType: offering.Spot, Price: price / 4, QuotaUses: []offering.QuotaUse{{Quota: "spot", Amount: size.cores}}})
		}
		types = append(types, t)
	}
	return types
}

// StartOutage makes offerings unavailable until EndOutages.
func (c *Cloud) StartOutage(o Outage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outages = append(c.outages, o)
	c.markUnavailable()
}

// EndOutages makes everything available again.
func (c *Cloud) EndOutages() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outages = nil
	c.markUnavailable()
}

// markUnavailable marks the unavailable offerings. A new slice appears exactly when something
// changed.
func (c *Cloud) markUnavailable() {
	types := slices.Clone(c.opts.Types)
	for i := range types {
		types[i].Offerings = slices.Clone(types[i].Offerings)
		for j := range types[i].Offerings {
			if o := &types[i].Offerings[j]; c.isOut(choice(types[i], *o), false) {
				o.Unavailable = "out of stock"
			}
		}
	}
	c.types = types
}

func choice(t offering.InstanceType, o offering.Offering) offering.Ref {
	return offering.Ref{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Extras: o.Extras}
}

// isOut reports whether an outage of that kind matches an offering.
func (c *Cloud) isOut(choice offering.Ref, late bool) bool {
	return slices.ContainsFunc(c.outages, func(o Outage) bool { return o.Late == late && o.matches(choice) })
}

// PublishImage makes instances start from another image from now on; existing ones have drifted.
func (c *Cloud) PublishImage(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.image = id
}

// SetTypes replaces the instance types.
func (c *Cloud) SetTypes(types []offering.InstanceType) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Types = types
	c.markUnavailable()
}

// SetFault makes f decide, before each call ("launch", "get", "list", "terminate",
// "terminateByClaim", "catalog", "drift"), whether it fails. Nil ends the faults.
func (c *Cloud) SetFault(f func(op string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// Reclaim deletes an instance, as clouds do with spot instances. It reports whether there was
// one.
func (c *Cloud) Reclaim(providerID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(providerID)
	if m == nil {
		return false
	}
	delete(c.instances, nameOf(providerID))
	return true
}

// Stop deallocates an instance: it still exists, and does not restart by itself.
func (c *Cloud) Stop(providerID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(providerID)
	if m == nil {
		return false
	}
	m.stopped = true
	return true
}

// Fail makes an instance fail whose creation has ended: it still exists, and does not recover by
// itself.
func (c *Cloud) Fail(providerID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(providerID)
	if m == nil {
		return false
	}
	m.fails = true
	return true
}

// ProviderIDs returns the provider IDs of all instances that exist, sorted.
func (c *Cloud) ProviderIDs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	var ids []string
	for _, name := range slices.Sorted(maps.Keys(c.instances)) {
		ids = append(ids, idPrefix+name)
	}
	return ids
}

// Launched returns how many instances were ever created. More than there are claims means that one
// claim was launched twice.
func (c *Cloud) Launched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.launched
}

// Calls returns how often each call was made, by the names that SetFault uses.
func (c *Cloud) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

const idPrefix = "memory:///machines/"

// nameOf returns the instance's name in a provider ID; empty when the ID is of another cloud.
func nameOf(providerID string) string {
	name, ok := strings.CutPrefix(providerID, idPrefix)
	if !ok {
		return ""
	}
	return name
}

func (c *Cloud) find(providerID string) *vm {
	c.sweep()
	return c.instances[nameOf(providerID)]
}

// sweep removes the instances whose deletion has finished.
func (c *Cloud) sweep() {
	now := time.Now()
	for name, m := range c.instances {
		if !m.deleted.IsZero() && now.Sub(m.deleted) >= c.opts.Delete {
			delete(c.instances, name)
		}
	}
}

// left returns what remains of each quota.
func (c *Cloud) left() map[string]int64 {
	left := maps.Clone(c.opts.Quota)
	for _, m := range c.instances {
		for _, d := range quotaUses(m.typ, m.choice) {
			if _, limited := left[d.Quota]; limited {
				left[d.Quota] -= d.Amount
			}
		}
	}
	return left
}

func quotaUses(t offering.InstanceType, c offering.Ref) []offering.QuotaUse {
	if o := offered(t, c); o != nil {
		return o.QuotaUses
	}
	return nil
}

func offered(t offering.InstanceType, c offering.Ref) *offering.Offering {
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == c.Zone && o.CapacityType == c.CapacityType {
			return o
		}
	}
	return nil
}

// typeByName finds an instance type by name.
func (c *Cloud) typeByName(name string) (offering.InstanceType, error) {
	for _, t := range c.opts.Types {
		if t.Name == name {
			return t, nil
		}
	}
	return offering.InstanceType{}, fmt.Errorf("no type is named %q", name)
}
