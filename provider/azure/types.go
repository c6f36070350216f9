// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

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

// A regionName converts between the zone numbers of the region and the values of the zone label.
type regionName string

// zoneLabel returns the node label's value for a zone number.
func (r regionName) zoneLabel(number string) string {
	if number == "" {
		return stock.RegionalZone
	}
	return string(r) + "-" + number
}

// zoneNumber returns the zone number of a label's value; empty for a node without a zone.
func (r regionName) zoneNumber(zone string) string {
	if zone == stock.RegionalZone {
		return ""
	}
	return strings.TrimPrefix(zone, string(r)+"-")
}

// A typeBuilder makes the instance types that node classes offer in the region.
type typeBuilder struct {
	region          regionName
	nodeGroup       string // node resource group
	kubeletIdentity string // client ID
	cni             network.CNI
	subnets         nodeSubnets
	builtInPrices   pricing.Table // of VM sizes
	builtInDisks    pricing.Table
	nodeFee         offering.Price // what agents billed by the node cost
	memory          *observedMemory
}

// A typeSet is the instance types of node classes with the same settings, before availability.
type typeSet struct {
	types  []instanceType // sorted by name
	byName map[string]*instanceType
	quotas []string // names of the quotas that any offering uses
	// byPriceBasis counts types by the basis of their price.
	byPriceBasis map[pricing.Basis]int
	// described caches descriptions by offering.Ref without its price.
	described sync.Map
}

// An instanceType is one VM size in one node class.
type instanceType struct {
	sku          *sku.SKU
	overhead     nodeOverhead
	maxPods      int64
	offered      offering.InstanceType // Offerings are without temporary unavailability
	maxSpotPrice offering.Price        // maximum price of the VM as spot; zero is any price
}

// build builds the types for the settings of a class from the region's SKUs and prices.
func (b *typeBuilder) build(region regionData, settings classSettings) *typeSet {
	skus := region.skus.Value
	pricer := pricing.NewPricer(skus.List, region.prices.Value, b.builtInPrices)
	disks := pricing.Disks{Listed: region.disks.Value, BuiltIn: b.builtInDisks}
	labels := newLabelCache()
	set := &typeSet{byName: make(map[string]*instanceType, len(skus.List)), byPriceBasis: map[pricing.Basis]int{}}
	quotas := newNameSet(quota.Regional, quota.Spot, quota.VMs)
	set.types = make([]instanceType, 0, len(skus.List))
	for _, s := range skus.List {
		if !settings.accepts(s) {
			continue
		}
		price, basis := pricer.Price(s)
		set.byPriceBasis[basis]++
		set.types = append(set.types, b.instanceType(s, settings, nodePrice{price, b.extras(s, settings, disks)}, labels))
		quotas.add(quota.OfFamily(s.Family))
	}
	for i := range set.types {
		set.byName[set.types[i].offered.Name] = &set.types[i]
	}
	set.quotas = quotas.names
	return set
}

// find returns an offering as the node class has it.
func (s *typeSet) find(ref offering.Ref) classOffering {
	t := s.byName[ref.Type]
	return classOffering{ref: ref, instanceType: t, offering: t.offeringOf(ref)}
}

// offeringOf returns the offering that a reference names; nil when the instance type has no such
// offering.
func (t *instanceType) offeringOf(c offering.Ref) *offering.Offering {
	if t == nil {
		return nil
	}
	for i := range t.offered.Offerings {
		if o := &t.offered.Offerings[i]; o.Zone == c.Zone && o.CapacityType == c.CapacityType {
			return o
		}
	}
	return nil
}

// accepts reports whether nodes of the class can be of that SKU.
func (c classSettings) accepts(s *sku.SKU) bool {
	switch {
	case !c.bootable.Boots(s):
		return false
	case c.encryptAtHost && !s.Features.EncryptionAtHost:
		return false
	case c.trustedLaunch && !s.Features.TrustedLaunch:
		return false
	case c.streaming && s.Arch == sku.ARM64:
		return false
	case c.localDNS && (s.VCPUs < localDNSCPUs || s.MemoryMiB < localDNSMiB):
		return false
	}
	return s.GPUs == 0 || c.acceptsGPU(s.GPU)
}

// localDNSCPUs and localDNSMiB are the number of cores and the memory (MiB) that a node must have
// at least to run the DNS cache.
const localDNSCPUs, localDNSMiB = 4, 244

// acceptsGPU reports whether nodes of the class can use a GPU. AKS installs NVIDIA drivers only,
// and those for virtualised A10 and RTX PRO cards on Ubuntu only. If karve does not install
// drivers, every GPU is accepted.
func (c classSettings) acceptsGPU(gpu vmsize.GPU) bool {
	if !c.gpuDriver {
		return true
	}
	if gpu.Manufacturer != vmsize.NVIDIA {
		return false
	}
	return c.image != v1beta1.ImageFamilyAzureLinux || !gridDriver(gpu)
}

// A nodePrice is what the nodes of a size cost: its virtual machine, and the rest.
type nodePrice struct {
	vm     pricing.Price
	extras offering.Price
}

// extras returns what a node costs besides its virtual machine: its OS disk, unless that is on
// local storage, and the agents that are billed by the node. A node has no public address.
func (b *typeBuilder) extras(s *sku.SKU, settings classSettings, disks pricing.Disks) offering.Price {
	if _, local := s.Local.Placement(settings.diskGB); local {
		return b.nodeFee
	}
	return b.nodeFee.Add(disks.Price(pricing.DefaultDiskType(s.Features.PremiumIO), settings.diskGB))
}

func (b *typeBuilder) instanceType(s *sku.SKU, settings classSettings, price nodePrice, labels *labelCache) instanceType {
	overhead := nodeOverheadFor(s.VCPUs, s.MemoryMiB, settings.maxPods, settings.diskGB, settings.minor)
	return instanceType{
		sku:          s,
		overhead:     overhead,
		maxPods:      settings.maxPods,
		maxSpotPrice: settings.spot.Max(price.vm.OnDemand),
		offered: offering.InstanceType{
			Name:         s.Name,
			Labels:       b.typeLabels(s, settings),
			Capacity:     b.capacity(s, settings),
			Overhead:     overhead.amounts(),
			SustainedCPU: sustainedCPU(s), NamedBy: namedBy,
			Offerings: b.withAddresses(b.offerings(s, price, settings.spot, labels), settings),
		},
	}
}

// namedBy are the labels by which a NodePool names a burstable size.
var namedBy = []string{corev1.LabelInstanceTypeStable, v1beta1.LabelSKUName, v1beta1.LabelSKUFamily, v1beta1.LabelSKUSeries}

// sustainedCPU returns the CPU that a burstable size has all the time; zero when it has all of it.
func sustainedCPU(s *sku.SKU) int64 {
	share := s.Size.SustainedPermille()
	if share == 1000 {
		return 0
	}
	return s.VCPUs * share
}

func (b *typeBuilder) capacity(s *sku.SKU, settings classSettings) quantity.Amounts {
	c := quantity.Amounts{
		quantity.NameCPU:     s.VCPUs * 1000,
		quantity.NameMemory:  b.memory.of(s),
		quantity.NameStorage: settings.diskGB * sku.Gigabyte,
		quantity.NamePods:    settings.maxPods,
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

// offerings lists every zone of the SKU and, last, the region without a zone, each on demand and,
// if Azure offers it, as spot.
func (b *typeBuilder) offerings(s *sku.SKU, price nodePrice, limit pricing.SpotLimit, labels *labelCache) []offering.Offering {
	kind := func(capacityType string, vm offering.Price) offering.Offering {
		return offering.Offering{CapacityType: capacityType, Price: vm.Add(price.extras), Extras: price.extras, QuotaUses: quota.Uses(s, capacityType)}
	}
	kinds := []offering.Offering{kind(offering.OnDemand, price.vm.OnDemand)}
	if s.Features.Spot {
		spot := kind(offering.Spot, price.vm.Spot)
		spot.Unavailable = limit.WhyForbidden(price.vm)
		kinds = append(kinds, spot)
	}
	all := make([]offering.Offering, 0, (len(s.Zones)+1)*len(kinds))
	add := func(zone string, ultra bool) {
		for _, o := range kinds {
			o.Zone, o.Fallback = zone, zone == stock.RegionalZone
			o.Labels = labels.of(zone, o.CapacityType, ultra)
			all = append(all, o)
		}
	}
	for _, number := range s.Zones {
		add(b.region.zoneLabel(number), s.Ultra.Zones[number])
	}
	add(stock.RegionalZone, s.Ultra.Regional)
	return all
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
		labels = offeringLabels(zone, capacityType, ultra)
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

// unlistedPrices describes how many instance types are not priced by the list.
func (s *typeSet) unlistedPrices(list pricelist.List) (parts []string) {
	if n := s.byPriceBasis[pricing.BuiltIn]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d types are offered at built-in prices (%s, %s)", n, list.Region, list.Month))
	}
	if n := s.byPriceBasis[pricing.Estimated]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d types are offered at guessed prices", n))
	}
	return parts
}

// withAddresses adds to each offering the addresses that a node of the class takes.
func (b *typeBuilder) withAddresses(all []offering.Offering, settings classSettings) []offering.Offering {
	use, ok := b.addressUse(settings)
	if !ok {
		return all
	}
	uses := map[string][]offering.QuotaUse{} // offerings of one capacity type share theirs
	for i := range all {
		o := &all[i]
		if uses[o.CapacityType] == nil {
			uses[o.CapacityType] = append(o.QuotaUses[:len(o.QuotaUses):len(o.QuotaUses)], use)
		}
		o.QuotaUses = uses[o.CapacityType]
	}
	return all
}

// addressUse returns the subnet addresses that a node of the class takes; false when its subnet is
// not known.
func (b *typeBuilder) addressUse(settings classSettings) (offering.QuotaUse, bool) {
	subnet, err := network.ParseSubnetID(settings.subnet)
	if err != nil {
		return offering.QuotaUse{}, false
	}
	return offering.QuotaUse{Quota: quota.OfSubnet(subnet), Amount: b.cni.AddressesPerNode(settings.maxPods)}, true
}
