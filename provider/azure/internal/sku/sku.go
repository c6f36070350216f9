// SPDX-License-Identifier: Apache-2.0

// Package sku reads the VM sizes of a region from the Resource SKUs API: what a size has, where it
// is offered, and whether AKS can make a node of it. Prices, quota and what Azure has in stock are
// elsewhere.
package sku

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// A SKU is one VM size as the Resource SKUs API describes it in the region.
type SKU struct {
	Name   string
	Family string // quota family, in the API's spelling
	Size   vmsize.Size
	GPU    vmsize.GPU

	VCPUs, MemoryMiB, GPUs int64
	DataDisks              int64  // that can be attached; -1 when the API does not say
	Arch                   string // amd64 or arm64
	Gen1, Gen2             bool

	Features features
	Ultra    ultraDisks
	Local    LocalDisks

	Zones      []string // numbers of the zones that offer it, sorted; empty if the size is not zonal
	Restricted restrictions
}

// features are what a size can do.
type features struct {
	AcceleratedNetworking, PremiumIO, EncryptionAtHost bool
	TrustedLaunch, Spot, confidential                  bool
	constrained                                        bool // some cores are turned off
}

// ultraDisks say where a size can have ultra disks.
type ultraDisks struct {
	Regional bool            // without a zone
	Zones    map[string]bool // by number
}

// restrictions describe why the subscription cannot use a size: anywhere in the region, or in
// zones by their number. An empty text means that it can.
type restrictions struct {
	Region string
	Zones  map[string]string
}

// parse converts an API answer. The error names the capability that is missing or malformed.
func parse(in *armcompute.ResourceSKU, location string) (*SKU, error) {
	s := &SKU{Name: armtext.Of(in.Name), Family: armtext.Of(in.Family)}
	if s.Name == "" || s.Family == "" {
		return nil, fmt.Errorf("VM size %q has no name or no family", s.Name)
	}
	var err error
	if s.Size, err = vmsize.Parse(s.Name); err != nil {
		return nil, err
	}
	s.GPU = s.Size.GPU()
	if err := s.readCapabilities(in.Capabilities); err != nil {
		return nil, fmt.Errorf("VM size %s: %w", s.Name, err)
	}
	s.readZones(in.LocationInfo, location)
	s.readRestrictions(in.Restrictions, location)
	return s, nil
}

func (s *SKU) readCapabilities(list []*armcompute.ResourceSKUCapabilities) error {
	c := capabilities{}
	for _, item := range list {
		if item != nil {
			c[armtext.Of(item.Name)] = armtext.Of(item.Value)
		}
	}
	s.VCPUs = c.whole("vCPUs", required)
	memory := c.number("MemoryGB", required)
	s.MemoryMiB = int64(memory * 1024)
	s.GPUs = c.whole("GPUs", optional)
	s.DataDisks = -1
	if _, listed := c["MaxDataDiskCount"]; listed {
		s.DataDisks = c.whole("MaxDataDiskCount", optional)
	}
	s.Arch = c.architecture()
	generations := c.list("HyperVGenerations")
	s.Gen1, s.Gen2 = generations["V1"], generations["V2"]
	s.Features.AcceleratedNetworking = c.flag("AcceleratedNetworkingEnabled")
	s.Features.PremiumIO = c.flag("PremiumIO")
	s.Features.EncryptionAtHost = c.flag("EncryptionAtHostSupported")
	s.Features.TrustedLaunch = s.Gen2 && !c.flag("TrustedLaunchDisabled")
	s.Features.Spot = c.flag("LowPriorityCapable")
	s.Features.confidential = c["ConfidentialComputingType"] != ""
	available := c.whole("vCPUsAvailable", optional)
	s.Features.constrained = s.Size.Constrained() || available > 0 && available < s.VCPUs
	s.Ultra.Regional = c.flag("UltraSSDAvailable")
	s.Local = readLocalDisks(c)
	return c.err()
}

// readZones reads the zones of the region and which of them have ultra disks.
func (s *SKU) readZones(infos []*armcompute.ResourceSKULocationInfo, location string) {
	s.Ultra.Zones = map[string]bool{}
	for _, info := range infos {
		if info == nil || !strings.EqualFold(armtext.Of(info.Location), location) {
			continue
		}
		s.Zones = armtext.Sorted(info.Zones)
		for _, detail := range info.ZoneDetails {
			if detail == nil || !hasUltra(detail.Capabilities) {
				continue
			}
			for _, zone := range detail.Name {
				s.Ultra.Zones[armtext.Of(zone)] = true
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

func (s *SKU) readRestrictions(list []*armcompute.ResourceSKURestrictions, location string) {
	s.Restricted.Zones = map[string]string{}
	for _, r := range list {
		if r == nil || r.Type == nil || !appliesTo(r, location) {
			continue
		}
		why := "not offered to this subscription"
		if r.ReasonCode != nil {
			why += " (" + string(*r.ReasonCode) + ")"
		}
		if *r.Type == armcompute.ResourceSKURestrictionsTypeLocation {
			s.Restricted.Region = why
			continue
		}
		if r.RestrictionInfo == nil {
			continue
		}
		for _, zone := range r.RestrictionInfo.Zones {
			s.Restricted.Zones[armtext.Of(zone)] = why
		}
	}
}

// appliesTo reports whether a restriction applies to the region. One without locations applies to
// the region that the list was requested for.
func appliesTo(r *armcompute.ResourceSKURestrictions, location string) bool {
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

const errKey = ""

const (
	required = true
	optional = false
)

func (c capabilities) err() error {
	if f := c[errKey]; f != "" {
		return fmt.Errorf("%s", f)
	}
	return nil
}

func (c capabilities) number(name string, isRequired bool) float64 {
	raw, given := c[name]
	if !given && !isRequired {
		return 0
	}
	n, err := strconv.ParseFloat(raw, 64)
	if err != nil || n < 0 || math.IsInf(n, 0) || math.IsNaN(n) || isRequired && n == 0 {
		c[errKey] = fmt.Sprintf("capability %s is %q", name, raw)
		return 0
	}
	return n
}

func (c capabilities) whole(name string, isRequired bool) int64 {
	return int64(c.number(name, isRequired))
}

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
		return ARM64
	}
	return AMD64
}

const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)
