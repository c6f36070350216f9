// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"math"
	"regexp"
	"strings"
)

// diskTiers are the tiers of managed disks with what they cost a month in East US, in US dollars:
// locally redundant Premium SSD and Standard HDD.
var diskTiers = []struct {
	number            string
	gib               int
	premium, standard float64
}{
	{"4", 32, 5.28, 1.536},
	{"6", 64, 10.21, 3.008},
	{"10", 128, 19.71, 5.888},
	{"15", 256, 38.02, 11.328},
	{"20", 512, 73.22, 21.76},
	{"30", 1024, 135.17, 40.96},
	{"40", 2048, 259.05, 77.824},
	{"50", 4096, 495.57, 143.36},
}

const (
	// elsewhere is how much more disks cost outside of the United States: plausible, not published.
	elsewhere = 1.1
	// zoneRedundant is how much more a disk costs that is kept in three zones. A further VM that
	// mounts a disk costs a tenth of it.
	zoneRedundant = 1.5
	mount         = 0.1
)

// americanRegion matches the names of regions in the United States.
var americanRegion = regexp.MustCompile(`us[0-9]?$`)

// DiskMeters gives the lines of managed disks in region's price list, in dollars a month.
func DiskMeters(region string) []Meter {
	factor := diskFactor(region)
	var meters []Meter
	for _, t := range diskTiers {
		p, s := round(factor*t.premium, 4), round(factor*t.standard, 4)
		meters = append(meters,
			Meter{"P" + t.number + " LRS Disk Mount", "Premium SSD Managed Disks", round(mount*p, 4)},
			Meter{"P" + t.number + " ZRS Disk", "Premium SSD Managed Disks", round(zoneRedundant*p, 4)},
			Meter{"P" + t.number + " LRS Disk", "Premium SSD Managed Disks", p},
			Meter{"S" + t.number + " LRS Disk", "Standard HDD Managed Disks", s})
	}
	return meters
}

func diskFactor(region string) float64 {
	if americanRegion.MatchString(region) {
		return 1
	}
	return elsewhere
}

// OSDiskPrice is what an hour of a VM's OS disk costs in US dollars: nothing where it fits on local
// storage, else what the list says of the tier, for the type that Azure creates unless told.
func (s Size) OSDiskPrice(region string, gb int) float64 {
	for _, placement := range []string{"NvmeDisk", "CacheDisk", "ResourceDisk"} {
		if s.RoomForOSDisk(placement) >= gb {
			return 0
		}
	}
	for _, t := range diskTiers {
		switch {
		case t.gib < gb:
		case s.PremiumIO:
			return diskFactor(region) * t.premium / hoursPerMonth
		default:
			return diskFactor(region) * t.standard / hoursPerMonth
		}
	}
	return 0
}

// hoursPerMonth is the month by which Azure bills.
const hoursPerMonth = 730

// RoomForOSDisk is how many GB the size has for an ephemeral disk at a placement, the cache if none
// is named.
func (s Size) RoomForOSDisk(placement string) int {
	if placement == "" {
		placement = "CacheDisk"
	}
	if !s.EphemeralOSDisk || !strings.Contains(strings.ToLower(s.EphemeralOSDiskPlacements), strings.ToLower(placement)) {
		return 0
	}
	const mib, gb = 1 << 20, 1e9
	switch strings.ToLower(placement) {
	case "cachedisk":
		return int(math.Floor(float64(s.CachedDiskBytes) / gb))
	case "nvmedisk":
		return int(math.Floor(float64(s.NVMeMiB*mib) / gb))
	default:
		return int(math.Floor(float64(s.ResourceDiskMiB*mib) / gb))
	}
}
