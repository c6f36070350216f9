// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math"
	"strings"
	"testing"

	"github.com/karve-dev/karve/azureemulator/catalog"
	"github.com/karve-dev/karve/local"
)

// priceList prices instance types as Azure does.
type priceList struct {
	region string
	sizes  map[string]catalog.Size
}

func newPriceList(t *testing.T, env *local.Environment) priceList {
	t.Helper()
	all, err := catalog.Sizes()
	if err != nil {
		t.Fatal(err)
	}
	b := priceList{region: env.Emulator().Location(), sizes: map[string]catalog.Size{}}
	for _, s := range all {
		b.sizes[s.Name] = s
	}
	return b
}

// total is what all claims cost together, in USD per hour.
func (b priceList) total(claims []local.Claim) float64 {
	sum := 0.0
	for _, c := range claims {
		price, _ := b.sizes[c.Type].PriceIn(b.region)
		if c.CapacityType == "spot" {
			sum += price.Spot
		} else {
			sum += price.OnDemand
		}
	}
	return sum
}

// demand is what pods ask for together.
type demand struct{ cpu, gib float64 }

// bound is a price below which no D and E sizes hold the demand, in USD per hour: for any prices of
// a core and a GiB at which no size holds more than it costs, the demand costs at least that.
// Nothing is taken off for what the system reserves on a node, so the true minimum is higher.
func (b priceList) bound(d demand, price func(catalog.Price) float64) float64 {
	best := 0.0
	for exponent := -40; exponent <= 40; exponent++ {
		perGiB := math.Pow(1.2, float64(exponent)) // worth of a GiB in cores
		dearest := math.Inf(1)                     // what a core may be worth at most
		for _, s := range b.sizes {
			p, sold := s.PriceIn(b.region)
			general := strings.HasPrefix(s.Name, "Standard_D") || strings.HasPrefix(s.Name, "Standard_E")
			if sold && general && price(p) > 0 {
				dearest = min(dearest, price(p)/(float64(s.VCPUsAvailable)+perGiB*s.MemoryGiB))
			}
		}
		if !math.IsInf(dearest, 1) {
			best = max(best, dearest*(d.cpu+perGiB*d.gib))
		}
	}
	return best
}
