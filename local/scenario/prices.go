// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
	"github.com/karve-dev/karve/local"
)

// priceList has Azure's prices per hour in one region.
type priceList struct {
	region string
	sizes  map[string]catalog.Size
}

func newPriceList(region string) (priceList, error) {
	all, err := catalog.Sizes()
	if err != nil {
		return priceList{}, fmt.Errorf("reading Azure's price list: %w", err)
	}
	sizes := make(map[string]catalog.Size, len(all))
	for _, s := range all {
		sizes[s.Name] = s
	}
	return priceList{region: region, sizes: sizes}, nil
}

// hourly is the price of a NodeClaim's node in USD per hour, its OS disk included; zero when it is
// not known.
func (l priceList) hourly(c local.Claim) float64 {
	list := l.listed(c)
	if list == 0 {
		return 0
	}
	return list + l.sizes[c.Type].OSDiskPrice(l.region, diskGB)
}

// diskGB is the size of OS disks in the demo's AKSNodeClass.
const diskGB = 128

// listed is the price of a NodeClaim's VM alone.
func (l priceList) listed(c local.Claim) float64 {
	price, ok := l.sizes[c.Type].PriceIn(l.region)
	if !ok {
		return 0
	}
	if c.CapacityType == "spot" {
		return price.Spot
	}
	return price.OnDemand
}

// total is the price of the nodes of all NodeClaims together.
func (l priceList) total(claims []local.Claim) float64 {
	sum := 0.0
	for _, c := range claims {
		sum += l.hourly(c)
	}
	return sum
}

// totalListed is the price of the VMs of all NodeClaims together.
func (l priceList) totalListed(claims []local.Claim) float64 {
	sum := 0.0
	for _, c := range claims {
		sum += l.listed(c)
	}
	return sum
}

// shape describes a size: "16 vCPU, 64 GiB", "6 vCPU, 55 GiB, 1 GPU".
func (l priceList) shape(size string) string {
	s, ok := l.sizes[size]
	if !ok {
		return "not in the catalogue"
	}
	parts := []string{fmt.Sprintf("%d vCPU", s.VCPUsAvailable), fmt.Sprintf("%g GiB", s.MemoryGiB)}
	if s.GPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d GPU", s.GPUs))
	}
	return strings.Join(parts, ", ")
}
