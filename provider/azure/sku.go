package azure

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// A sku is one VM size as the Resource SKUs API describes it in the region.
type sku struct {
	name   string
	family string // quota family, in the API's spelling
	size   vmsize.Size
	gpu    vmsize.GPU

	vcpus, memoryMiB, gpus int64
	disks                  int64  // data disks that can be attached; -1 when the API does not say
	arch                   string // amd64 or arm64
	gen1, gen2             bool

	acceleratedNetworking, premiumIO, encryptionAtHost bool
	trustedLaunch, lowPriority, confidential           bool
	constrained                                        bool // some cores are turned off
	ultraRegional                                      bool
	ultraZones                                         map[string]bool
	local                                              localDisks

	zones []string // numbers of the zones that offer it, sorted; empty if the size is not zonal
	// barred describes why the subscription cannot use the size anywhere in the region;
	// barredZones the same by zone number.
	barred      string
	barredZones map[string]string
}

// readSKU converts an API answer. The error names the capability that is missing or malformed.
func readSKU(in *armcompute.ResourceSKU, location string) (*sku, error) {
	s := &sku{name: armtext.Of(in.Name), family: armtext.Of(in.Family)}
	if s.name == "" || s.family == "" {
		return nil, fmt.Errorf("VM size %q has no name or no family", s.name)
	}
	var err error
	if s.size, err = vmsize.Parse(s.name); err != nil {
		return nil, err
	}
	s.gpu = s.size.GPU()
	if err := s.readCapabilities(in.Capabilities); err != nil {
		return nil, fmt.Errorf("VM size %s: %w", s.name, err)
	}
	s.readPlaces(in.LocationInfo, location)
	s.readRestrictions(in.Restrictions, location)
	return s, nil
}

func (s *sku) readCapabilities(list []*armcompute.ResourceSKUCapabilities) error {
	c := capabilities{}
	for _, item := range list {
		if item != nil {
			c[armtext.Of(item.Name)] = armtext.Of(item.Value)
		}
	}
	s.vcpus = c.whole("vCPUs", required)
	memory := c.number("MemoryGB", required)
	s.memoryMiB = int64(memory * 1024)
	s.gpus = c.whole("GPUs", optional)
	s.disks = -1
	if _, said := c["MaxDataDiskCount"]; said {
		s.disks = c.whole("MaxDataDiskCount", optional)
	}
	s.arch = c.architecture()
	generations := c.list("HyperVGenerations")
	s.gen1, s.gen2 = generations["V1"], generations["V2"]
	s.acceleratedNetworking = c.flag("AcceleratedNetworkingEnabled")
	s.premiumIO = c.flag("PremiumIO")
	s.encryptionAtHost = c.flag("EncryptionAtHostSupported")
	s.trustedLaunch = s.gen2 && !c.flag("TrustedLaunchDisabled")
	s.lowPriority = c.flag("LowPriorityCapable")
	s.confidential = c["ConfidentialComputingType"] != ""
	available := c.whole("vCPUsAvailable", optional)
	s.constrained = s.size.Constrained() || available > 0 && available < s.vcpus
	s.ultraRegional = c.flag("UltraSSDAvailable")
	s.local = readLocalDisks(c)
	return c.fault()
}

// readPlaces reads the zones of the region and which of them have ultra disks.
func (s *sku) readPlaces(infos []*armcompute.ResourceSKULocationInfo, location string) {
	s.ultraZones = map[string]bool{}
	for _, info := range infos {
		if info == nil || !strings.EqualFold(armtext.Of(info.Location), location) {
			continue
		}
		s.zones = armtext.Sorted(info.Zones)
		for _, detail := range info.ZoneDetails {
			if detail == nil || !hasUltra(detail.Capabilities) {
				continue
			}
			for _, zone := range detail.Name {
				s.ultraZones[armtext.Of(zone)] = true
			}
		}
	}
}

func hasUltra(list []*armcompute.ResourceSKUCapabilities) bool {
	for _, c := range list {
		if c != nil && armtext.Of(c.Name) == "UltraSSDAvailable" {
			return strings.EqualFold(armtext.Of(c.Value), "True")
		}
	}
	return false
}

func (s *sku) readRestrictions(list []*armcompute.ResourceSKURestrictions, location string) {
	s.barredZones = map[string]string{}
	for _, r := range list {
		if r == nil || r.Type == nil || !concerns(r, location) {
			continue
		}
		why := "not offered to this subscription"
		if r.ReasonCode != nil {
			why += " (" + string(*r.ReasonCode) + ")"
		}
		if *r.Type == armcompute.ResourceSKURestrictionsTypeLocation {
			s.barred = why
			continue
		}
		if r.RestrictionInfo == nil {
			continue
		}
		for _, zone := range r.RestrictionInfo.Zones {
			s.barredZones[armtext.Of(zone)] = why
		}
	}
}

// concerns reports whether a restriction applies to the region. One without locations applies to
// the region that the list was requested for.
func concerns(r *armcompute.ResourceSKURestrictions, location string) bool {
	places := r.Values
	if r.RestrictionInfo != nil && len(r.RestrictionInfo.Locations) > 0 {
		places = r.RestrictionInfo.Locations
	} else if *r.Type == armcompute.ResourceSKURestrictionsTypeZone {
		return true // its values are zones
	}
	for _, place := range places {
		if strings.EqualFold(armtext.Of(place), location) {
			return true
		}
	}
	return len(places) == 0
}

// capabilities are name/value pairs of one size. Parsing stores a fault under a key that no
// capability has.
type capabilities map[string]string

const faultKey = ""

const (
	required = true
	optional = false
)

func (c capabilities) fault() error {
	if f := c[faultKey]; f != "" {
		return fmt.Errorf("%s", f)
	}
	return nil
}

func (c capabilities) number(name string, must bool) float64 {
	raw, given := c[name]
	if !given && !must {
		return 0
	}
	n, err := strconv.ParseFloat(raw, 64)
	if err != nil || n < 0 || math.IsInf(n, 0) || math.IsNaN(n) || must && n == 0 {
		c[faultKey] = fmt.Sprintf("capability %s is %q", name, raw)
		return 0
	}
	return n
}

func (c capabilities) whole(name string, must bool) int64 { return int64(c.number(name, must)) }

func (c capabilities) flag(name string) bool { return strings.EqualFold(c[name], "True") }

func (c capabilities) list(name string) map[string]bool {
	set := map[string]bool{}
	for item := range strings.SplitSeq(c[name], ",") {
		set[strings.TrimSpace(item)] = true
	}
	return set
}

// architecture returns the Kubernetes name of the processor architecture. Older sizes do not
// report one and are amd64.
func (c capabilities) architecture() string {
	if strings.EqualFold(c["CpuArchitectureType"], "Arm64") {
		return archARM64
	}
	return archAMD64
}

const (
	archAMD64 = "amd64"
	archARM64 = "arm64"
)
