// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
)

// Size is one VM size: what the Resource SKUs API tells about it, and where it is
// sold at what price.
type Size struct {
	Name   string // Standard_E4-2ads_v5
	Series string // E#ads_v5: the name with # for its numbers, as the tables have it
	Tier   string // Standard
	// Family is the quota family in Azure's own uneven spelling; compare without
	// case, as the usages API does not always agree with it.
	Family string
	// Parent is the full size a constrained-core size is cut from, else empty.
	Parent string

	VCPUs          int // counted against the quota; the parent's for a constrained size
	VCPUsAvailable int // what the guest sees
	VCPUsPerCore   int
	MemoryGiB      float64
	GPUs           int    // as the API gives it: a share of a GPU counts as 1, and 0 is no answer
	Architecture   string // x64 or Arm64
	// HyperVGenerations is "V1", "V2" or "V1,V2".
	HyperVGenerations string

	ResourceDiskMiB int64 // temporary disk
	CachedDiskBytes int64 // host cache
	NVMeMiB         int64 // local NVMe, all disks together
	NVMePerDiskMiB  int64
	// EphemeralOSDisk says that the OS disk can live on the VM itself, and
	// EphemeralOSDiskPlacements on which of its disks, as the API lists them:
	// "ResourceDisk,CacheDisk". A few old sizes do not say on which.
	EphemeralOSDisk           bool
	EphemeralOSDiskPlacements string
	DiskControllers           string // "SCSI,NVMe"; empty for series that do not say
	MaxDataDisks              int
	MaxNICs                   int

	PremiumIO             bool
	UltraSSD              bool // in some region and zone
	AcceleratedNetworking bool
	RDMA                  bool
	EncryptionAtHost      bool
	TrustedLaunchDisabled bool
	Confidential          string // SNP, TDX or empty
	Spot                  bool   // is available as spot somewhere; PriceIn knows where
	Reservable            bool   // takes part in capacity reservations

	number  string   // what stands for # in Name: "4-2"
	regions []string // names for local's indices; one slice for all sizes
	local   []offer
}

// offer is a size in one region.
type offer struct {
	offered bool
	zones   []string
	price   Price
}

// ZonesIn gives the logical zones of region that have the size. A size can be
// offered in a region without zones: then there are none, and offered is true.
// The slice is shared and must not be changed.
func (s Size) ZonesIn(region string) (zones []string, offered bool) {
	o := s.in(region)
	return o.zones, o.offered
}

// PriceIn gives the retail price of the size in region. ok is false where Azure
// publishes none, which is so for some sizes that a region does offer; the
// converse happens too.
func (s Size) PriceIn(region string) (p Price, ok bool) {
	p = s.in(region).price
	return p, p.OnDemand > 0
}

func (s Size) in(region string) offer {
	i := slices.Index(s.regions, region)
	if i < 0 {
		return offer{}
	}
	return s.local[i]
}

// check finds what no VM can be: the tables' last line of defence against a
// forgotten property.
func (s Size) check() error {
	switch {
	case s.Family == "":
		return fmt.Errorf("%s has no quota family", s.Name)
	case s.VCPUs < 1 || s.VCPUsAvailable < 1 || s.VCPUsAvailable > s.VCPUs:
		return fmt.Errorf("%s: %d of %d vCPUs available", s.Name, s.VCPUsAvailable, s.VCPUs)
	case s.MemoryGiB <= 0:
		return fmt.Errorf("%s has no memory", s.Name)
	case s.MaxNICs < 1 || s.MaxDataDisks < 1 || s.VCPUsPerCore < 1:
		return fmt.Errorf("%s: %d NICs, %d data disks, %d vCPUs per core", s.Name, s.MaxNICs, s.MaxDataDisks, s.VCPUsPerCore)
	case s.Architecture != "x64" && s.Architecture != "Arm64":
		return fmt.Errorf("%s: architecture %q is neither x64 nor Arm64", s.Name, s.Architecture)
	case !slices.Contains([]string{"V1", "V2", "V1,V2"}, s.HyperVGenerations):
		return fmt.Errorf("%s: generations %q are none of V1, V2, V1,V2", s.Name, s.HyperVGenerations)
	}
	return nil
}

// checkPrices finds spot prices above on-demand: a share above 1, or dollars
// where a share belongs.
func (s Size) checkPrices() error {
	for i, o := range s.local {
		if o.price.Spot > o.price.OnDemand {
			return fmt.Errorf("%s in %s costs %g as spot but %g on demand", s.Name, s.regions[i], o.price.Spot, o.price.OnDemand)
		}
	}
	return nil
}
