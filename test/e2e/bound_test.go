// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math"
	"strings"
	"testing"

	"github.com/karve-dev/karve/azureemulator/catalog"
	"github.com/karve-dev/karve/local"
)

// bill prices machines as Azure does.
type bill struct {
	region string
	sizes  map[string]catalog.Size
}

func billOf(t *testing.T, env *local.Environment) bill {
	t.Helper()
	all, err := catalog.Sizes()
	if err != nil {
		t.Fatal(err)
	}
	b := bill{region: env.Emulator().Location(), sizes: map[string]catalog.Size{}}
	for _, s := range all {
		b.sizes[s.Name] = s
	}
	return b
}

// total is what all claims' machines cost together, in USD per hour.
func (b bill) total(claims []local.Claim) float64 {
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

// bound is a price below which no D and E machines hold the demand, in USD per hour: for whatever a core and a GiB are said to be worth, so that no
// machine holds more worth than it costs, the demand's worth is one. Nothing is
// taken off for what the system keeps of a machine, so the true minimum is higher.
func (b bill) bound(d demand, price func(catalog.Price) float64) float64 {
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
