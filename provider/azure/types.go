// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"fmt"
	"strings"
	"sync"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
	"github.com/karve-dev/karve/provider/azure/pricelist"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// zones converts between zone numbers and the values of the zone label; it is the region's name.
type zones string

// label returns the node label's value for a zone number.
func (z zones) label(number string) string {
	if number == "" {
		return stock.RegionalZone
	}
	return string(z) + "-" + number
}

// number returns the zone number of a label's value; empty for a node without a zone.
func (z zones) number(zone string) string {
	if zone == stock.RegionalZone {
		return ""
	}
	return strings.TrimPrefix(zone, string(z)+"-")
}

// A typeBuilder makes the instance types that node classes offer in the region.
type typeBuilder struct {
	zones           zones
	nodeGroup       string // node resource group
	kubeletIdentity string // client ID
	cni             network.CNI
	subnets         nodeSubnets
	builtIn         pricing.Table
	memory          *seenMemory
}

// A typeSet is the instance types of one shape, before availability.
type typeSet struct {
	types  []machineType // sorted by name
	byName map[string]*machineType
	quotas []string // names of the quotas that any offering uses
	// values counts types by the basis of their price.
	values map[pricing.Basis]int
	// described caches descriptions by offering.Ref without its price.
	described sync.Map
}

// A machineType is one size in one node class.
type machineType struct {
	sku      *sku.SKU
	reserved reservation
	maxPods  int64
	offered  offering.InstanceType // Offerings are without temporary unavailability
	spotMost offering.Price        // maximum price as spot; zero is any price
}

// build builds the types of a shape from the region's sizes and prices.
func (b *typeBuilder) build(skus sku.Set, prices pricing.Table, sh shape) *typeSet {
	values := pricing.NewPricer(skus.List, prices, b.builtIn)
	labels := newLabelCache()
	set := &typeSet{byName: make(map[string]*machineType, len(skus.List)), values: map[pricing.Basis]int{}}
	quotas := newNameSet(quota.Regional, quota.Spot, quota.VMs)
	set.types = make([]machineType, 0, len(skus.List))
	for _, s := range skus.List {
		if !sh.accepts(s) {
			continue
		}
		price, by := values.Price(s)
		set.values[by]++
		set.types = append(set.types, b.machineType(s, sh, price, labels))
		quotas.add(quota.OfFamily(s.Family))
	}
	for i := range set.types {
		set.byName[set.types[i].offered.Name] = &set.types[i]
	}
	set.quotas = quotas.names
	return set
}

// accepts reports whether nodes of the shape can have that size.
func (sh shape) accepts(s *sku.SKU) bool {
	switch {
	case !sh.runs.Boots(s):
		return false
	case sh.encryptAtHost && !s.Can.EncryptionAtHost:
		return false
	case sh.trustedLaunch && !s.Can.TrustedLaunch:
		return false
	case sh.streaming && s.Arch == sku.ARM64:
		return false
	case sh.localDNS && (s.VCPUs < localDNSCPUs || s.MemoryMiB < localDNSMiB):
		return false
	}
	return s.GPUs == 0 || sh.acceptsGPU(s.GPU)
}

// localDNSCPUs and localDNSMiB are the number of cores and the memory (MiB) that a node must have
// at least to run the DNS cache.
const localDNSCPUs, localDNSMiB = 4, 244

// acceptsGPU: AKS installs NVIDIA drivers only, and those for virtualised A10 and RTX PRO cards
// on Ubuntu only. If karve does not install drivers, every GPU is accepted.
func (sh shape) acceptsGPU(gpu vmsize.GPU) bool {
	if !sh.gpuDriver {
		return true
	}
	if gpu.Manufacturer != vmsize.NVIDIA {
		return false
	}
	return sh.image != v1beta1.ImageFamilyAzureLinux || !gridDriver(gpu)
}

func (b *typeBuilder) machineType(s *sku.SKU, sh shape, price pricing.Price, labels *labelCache) machineType {
	reserved := reserve(s.VCPUs, s.MemoryMiB, sh.maxPods, sh.diskGB, sh.minor)
	return machineType{
		sku:      s,
		reserved: reserved,
		maxPods:  sh.maxPods,
		spotMost: sh.spot.Max(price.OnDemand),
		offered: offering.InstanceType{
			Name:      s.Name,
			Labels:    b.typeLabels(s, sh),
			Capacity:  b.capacity(s, sh),
			Overhead:  reserved.overhead(),
			Offerings: b.withAddresses(b.offers(s, price, sh.spot, labels), sh),
		},
	}
}

func (b *typeBuilder) capacity(s *sku.SKU, sh shape) quantity.Amounts {
	c := quantity.Amounts{
		quantity.NameCPU:     s.VCPUs * 1000,
		quantity.NameMemory:  b.memory.of(s),
		quantity.NameStorage: sh.diskGB * sku.Gigabyte,
		quantity.NamePods:    sh.maxPods,
	}
	if s.DataDisks >= 0 {
		c[quantity.Attachable+diskDriver] = s.DataDisks
	}
	switch s.GPU.Manufacturer {
	case vmsize.NVIDIA:
		c[resourceNVIDIA] = s.GPUs
	case vmsize.AMD:
		c[resourceAMD] = s.GPUs
	}
	return c
}

// offers lists every zone of the size and, last, the region without a zone, each on demand and,
// if Azure offers it, as spot.
func (b *typeBuilder) offers(s *sku.SKU, price pricing.Price, limit pricing.SpotLimit, labels *labelCache) []offering.Offering {
	ways := []offering.Offering{{CapacityType: offering.OnDemand, Price: price.OnDemand, QuotaUses: quota.Uses(s, offering.OnDemand)}}
	if s.Can.Spot {
		ways = append(ways, offering.Offering{CapacityType: offering.Spot, Price: price.Spot, QuotaUses: quota.Uses(s, offering.Spot), Unavailable: limit.Forbids(price)})
	}
	offers := make([]offering.Offering, 0, (len(s.Zones)+1)*len(ways))
	add := func(zone string, ultra bool) {
		for _, way := range ways {
			way.Zone, way.Fallback = zone, zone == stock.RegionalZone
			way.Labels = labels.of(zone, way.CapacityType, ultra)
			offers = append(offers, way)
		}
	}
	for _, number := range s.Zones {
		add(b.zones.label(number), s.Ultra.Zones[number])
	}
	add(stock.RegionalZone, s.Ultra.Regional)
	return offers
}

// labelCache shares offering labels, of which there are few, between thousands of offerings.
type labelCache struct {
	known map[labelKey]map[string][]string
}

type labelKey struct {
	zone, capacityType string
	ultra              bool
}

func newLabelCache() *labelCache { return &labelCache{known: map[labelKey]map[string][]string{}} }

func (c *labelCache) of(zone, capacityType string, ultra bool) map[string][]string {
	key := labelKey{zone, capacityType, ultra}
	labels, ok := c.known[key]
	if !ok {
		labels = offerLabels(zone, capacityType, ultra)
		c.known[key] = labels
	}
	return labels
}

// nameSet collects names once each, in order of appearance.
type nameSet struct {
	names []string
	seen  map[string]bool
}

func newNameSet(names ...string) *nameSet {
	s := &nameSet{seen: map[string]bool{}}
	for _, n := range names {
		s.add(n)
	}
	return s
}

func (s *nameSet) add(name string) {
	if !s.seen[name] {
		s.seen[name] = true
		s.names = append(s.names, name)
	}
}

// otherPrices describes how many instance types are not priced by the list.
func (t *typeSet) otherPrices(list pricelist.List) (parts []string) {
	if n := t.values[pricing.BuiltIn]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d types are offered at built-in prices (%s, %s)", n, list.Region, list.Of))
	}
	if n := t.values[pricing.Estimated]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d types are offered at guessed prices", n))
	}
	return parts
}

// withAddresses adds to each offering the addresses that a node of the shape takes.
func (b *typeBuilder) withAddresses(offers []offering.Offering, sh shape) []offering.Offering {
	draw, ok := b.addressUse(sh)
	if !ok {
		return offers
	}
	drawn := map[string][]offering.QuotaUse{} // offerings of one capacity type share theirs
	for i := range offers {
		o := &offers[i]
		if drawn[o.CapacityType] == nil {
			drawn[o.CapacityType] = append(o.QuotaUses[:len(o.QuotaUses):len(o.QuotaUses)], draw)
		}
		o.QuotaUses = drawn[o.CapacityType]
	}
	return offers
}

func (b *typeBuilder) addressUse(sh shape) (offering.QuotaUse, bool) {
	subnet, err := network.ParseSubnetID(sh.subnet)
	if err != nil {
		return offering.QuotaUse{}, false
	}
	return offering.QuotaUse{Quota: quota.OfSubnet(subnet), Amount: b.cni.AddressesPerNode(sh.maxPods)}, true
}
