// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/offering"
)

// A DiskType is a type of managed disk, as Azure's storageAccountType spells it.
type DiskType string

const (
	PremiumSSD  DiskType = "Premium_LRS"
	StandardHDD DiskType = "Standard_LRS"
)

// productOf is the name of each type in the price list.
var productOf = map[DiskType]string{
	PremiumSSD:  "Premium SSD Managed Disks",
	StandardHDD: "Standard HDD Managed Disks",
}

// letterOf begins the names of each type's tiers.
var letterOf = map[DiskType]string{PremiumSSD: "P", StandardHDD: "S"}

// DefaultDiskType is the type of an OS disk for which a request names none: Premium SSD where the
// VM size can have it, Standard HDD elsewhere. Azure's reference says of storageAccountType only
// which values there are. Users of Karpenter's provider for Azure, which names no type either, see
// Premium SSD (Azure/karpenter-provider-azure#801), and users of sizes without premium storage see
// HDDs (kubermatic/machine-controller#1191).
func DefaultDiskType(premiumIO bool) DiskType {
	if premiumIO {
		return PremiumSSD
	}
	return StandardHDD
}

// A diskTier is a size that Azure bills: a disk costs as much as the smallest tier that holds it
// (learn.microsoft.com/azure/virtual-machines/disks-understand-billing).
type diskTier struct {
	number int   // 10 in P10 and S10
	gib    int64 // the largest disk
	// premium and standard are the retail prices of P and S in East US, locally redundant, in
	// dollars a month (azure.microsoft.com/pricing/details/managed-disks, 2026).
	premium, standard float64
}

var diskTiers = []diskTier{
	{4, 32, 5.28, 1.536},
	{6, 64, 10.21, 3.008},
	{10, 128, 19.71, 5.888},
	{15, 256, 38.02, 11.328},
	{20, 512, 73.22, 21.76},
	{30, 1024, 135.17, 40.96},
	{40, 2048, 259.05, 77.824},
	{50, 4096, 495.57, 143.36},
	{60, 8192, 946.08, 262.144},
	{70, 16384, 1802.06, 524.288},
	{80, 32767, 3604.11, 1048.576},
}

// TierOf names the tier by which a disk of that size is billed: P10. A disk that is larger than
// any is billed by the largest.
func TierOf(kind DiskType, gib int64) string {
	i, _ := slices.BinarySearchFunc(diskTiers, gib, func(t diskTier, gib int64) int { return cmp.Compare(t.gib, gib) })
	return letterOf[kind] + strconv.Itoa(diskTiers[min(i, len(diskTiers)-1)].number)
}

// builtInDisks are the prices of the tiers.
func builtInDisks() Table {
	table := Table{}
	for _, t := range diskTiers {
		table[TierOf(PremiumSSD, t.gib)] = Price{OnDemand: PerMonth(t.premium)}
		table[TierOf(StandardHDD, t.gib)] = Price{OnDemand: PerMonth(t.standard)}
	}
	return table
}

// PerMonth is the price of what costs so many dollars a month.
func PerMonth(usd float64) offering.Price {
	return offering.Price(math.Round(usd / hoursPerMonth * 1e9))
}

// Disks prices managed disks: by the list, else by the built-in prices.
type Disks struct{ Listed, BuiltIn Table }

// Price is what a disk costs per hour.
func (d Disks) Price(kind DiskType, gib int64) offering.Price {
	tier := TierOf(kind, gib)
	return cmp.Or(d.Listed[tier].OnDemand, d.BuiltIn[tier].OnDemand)
}

// isLocalDisk reports whether the row is the monthly price of a locally redundant disk of a type
// that nodes have. Beside it the list prices the redundancy of zones ("P10 ZRS Disk") and the
// second virtual machine that mounts a disk ("P10 LRS Disk Mount").
func (i priceItem) isLocalDisk() bool {
	tier, ok := strings.CutSuffix(i.MeterName, " LRS Disk")
	if !ok || i.UnitOfMeasure != "" && i.UnitOfMeasure != "1/Month" && i.UnitOfMeasure != "1 Month" {
		return false
	}
	for kind, product := range productOf {
		if i.ProductName == product && strings.HasPrefix(tier, letterOf[kind]) {
			return true
		}
	}
	return false
}

// diskTier is the tier that the row prices.
func (i priceItem) diskTier() string {
	tier, _, _ := strings.Cut(i.MeterName, " ")
	return tier
}
