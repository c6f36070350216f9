// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"math"
	"strings"

	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// Price is what an hour of a Linux VM costs in US dollars, pay as you go.
type Price struct {
	OnDemand float64
	Spot     float64 // zero where the size is not sold as spot
}

// Meter is one line of the retail price list for a size, or a disk, in a region.
type Meter struct {
	Name    string  // "D4s v5", "D4s v5 Spot", "D4s v5 Low Priority"
	Product string  // "Virtual Machines Dsv5 Series", perhaps with " Windows"
	USD     float64 // per hour; of disks, per month
}

const (
	// windowsPerVCPU is the licence: the same dollars per vCPU-hour in every
	// region. Constrained sizes pay it for the parent's vCPUs.
	windowsPerVCPU = 0.046
	// Low Priority, the fixed-price forerunner of spot, costs a fifth of the
	// on-demand price under Linux and two fifths under Windows.
	lowPriorityLinux   = 0.2
	lowPriorityWindows = 0.4
)

// Meters gives the size's lines in region's price list: Linux on-demand, spot and
// Low Priority, and for x64 the same for Windows. Windows and Low Priority prices
// are derived by rule, so they are plausible rather than published. There are
// none where the size has no price.
func (s Size) Meters(region string) []Meter {
	p, ok := s.PriceIn(region)
	if !ok {
		return nil
	}
	meters := s.meters(s.product(), p, lowPriorityLinux)
	if s.Architecture == "x64" {
		meters = append(meters, s.meters(s.product()+" Windows", s.withWindows(p), lowPriorityWindows)...)
	}
	return meters
}

// meters are the lines of one product. Spot and Low Priority go together: neither
// is sold for sizes that cannot be reclaimed.
func (s Size) meters(product string, p Price, lowPriority float64) []Meter {
	name := strings.ReplaceAll(strings.TrimPrefix(s.Name, s.Tier+"_"), "_", " ")
	meters := []Meter{{name, product, p.OnDemand}}
	if p.Spot == 0 {
		return meters
	}
	return append(meters,
		Meter{name + " Spot", product, p.Spot},
		Meter{name + " Low Priority", product, round(lowPriority*p.OnDemand, 6)})
}

// withWindows adds the licence. A spot VM pays the same share of it as of
// the hardware.
func (s Size) withWindows(p Price) Price {
	licensed := p.OnDemand + windowsPerVCPU*float64(s.VCPUs)
	return Price{OnDemand: round(licensed, 6), Spot: round(p.Spot*licensed/p.OnDemand, 6)}
}

// product names the product line after the series: "Virtual Machines Dsv5 Series".
func (s Size) product() string {
	series := s.Series
	if parsed, err := vmsize.Parse(s.Name); err == nil {
		series = strings.ReplaceAll(parsed.Series, "_", parsed.Accelerator)
	}
	return "Virtual Machines " + series + " Series"
}

// retail rounds the way the price list does: to a tenth of a cent, and to a
// hundredth below ten cents.
func retail(usd float64) float64 {
	if usd < 0.1 {
		return round(usd, 4)
	}
	return round(usd, 3)
}

// round rounds x to so many decimals, halves up: prices are never negative.
func round(x float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Floor(x*scale+0.5) / scale
}
