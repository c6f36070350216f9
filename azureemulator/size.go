// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// sizes are the VM sizes of the region, and which of them this subscription may use.
type sizes struct {
	byName map[string]catalog.Size // by lower-case name
	names  []string                // in the catalogue's order
	zones  []string                // all that any size has in the region
	// retired are patterns of sizes that are not offered for now.
	retired      []string
	struck       *strikes
	restrictions []Restriction
	sub          *subscription
	clock        *clock
}

// newSizes has those of the catalogue that match a pattern, all of them without patterns.
func newSizes(o Options, sub *subscription, struck *strikes, c *clock) (*sizes, error) {
	all, err := catalog.Sizes()
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue of sizes: %w", err)
	}
	s := &sizes{byName: make(map[string]catalog.Size, len(all)), restrictions: slices.Clone(o.Restrictions), struck: struck, sub: sub, clock: c}
	zones, offered := map[string]bool{}, sizesLike(o.Sizes)
	for _, size := range all {
		if len(o.Sizes) > 0 && !offered(size.Name) {
			continue
		}
		s.byName[strings.ToLower(size.Name)] = size
		s.names = append(s.names, size.Name)
		there, _ := size.ZonesIn(sub.location)
		for _, zone := range there {
			zones[zone] = true
		}
	}
	s.zones = slices.Sorted(maps.Keys(zones))
	return s, nil
}

func (s *sizes) routes() []route {
	return []route{
		azure("GET", inSubscription+"/locations", "Subscriptions.ListLocations", reads, s.listLocations),
		azure("GET", inSubscription+"/providers/microsoft.compute/skus", "ResourceSKUs.List", reads, s.listSKUs),
	}
}

// known returns the size of that name, whether the region offers it or not.
func (s *sizes) known(name string) catalog.Size { return s.byName[strings.ToLower(name)] }

// zonesOf are the zones in which the region has a size.
func (s *sizes) zonesOf(name string) []string {
	zones, _ := s.known(name).ZonesIn(s.sub.location)
	return zones
}

// all are the sizes in the catalogue's order.
func (s *sizes) all() iter.Seq[catalog.Size] {
	return func(yield func(catalog.Size) bool) {
		for _, name := range s.names {
			if !yield(s.known(name)) {
				return
			}
		}
	}
}

// sold names the first n sizes of the region.
func (s *sizes) sold(n int) []string {
	var names []string
	for _, name := range s.names {
		if _, offered := s.byName[strings.ToLower(name)].ZonesIn(s.sub.location); offered && len(names) < n {
			names = append(names, name)
		}
	}
	return names
}

// sku is a VM size as the Resource SKUs API writes it.
type sku struct {
	ResourceType string           `json:"resourceType"`
	Name         string           `json:"name"`
	Tier         string           `json:"tier"`
	Size         string           `json:"size"`
	Family       string           `json:"family"`
	Locations    []string         `json:"locations"`
	LocationInfo []skuLocation    `json:"locationInfo"`
	Capabilities []skuCapability  `json:"capabilities"`
	Restrictions []skuRestriction `json:"restrictions"`
}

type skuCapability struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type skuLocation struct {
	Location    string          `json:"location"`
	Zones       []string        `json:"zones"`
	ZoneDetails []skuZoneDetail `json:"zoneDetails"`
}

type skuZoneDetail struct {
	Name         []string        `json:"name"`
	Capabilities []skuCapability `json:"capabilities"`
}

type skuRestriction struct {
	Type       string             `json:"type"`
	Values     []string           `json:"values"`
	Info       skuRestrictionInfo `json:"restrictionInfo"`
	ReasonCode string             `json:"reasonCode"`
}

type skuRestrictionInfo struct {
	Locations []string `json:"locations"`
	Zones     []string `json:"zones,omitempty"`
}

var locationFilter = regexp.MustCompile(`^\s*location eq '([^']*)'\s*$`)

// listSKUs answers for one region: with any other filter the real API sends the
// sizes of all regions, some 60 MB, which no client should come to rely on.
func (s *sizes) listSKUs(r *request) (reply, error) {
	location := s.sub.location
	if filter := r.query.Get("$filter"); filter != "" {
		parts := locationFilter.FindStringSubmatch(filter)
		if parts == nil {
			return reply{}, badRequest("InvalidFilter", "The filter \"%s\" is not supported: only location eq '<region>' is.", filter)
		}
		location = normalLocation(parts[1])
	}
	values, retired := []sku{}, s.retiredNow()
	for _, name := range s.names {
		size := s.byName[strings.ToLower(name)]
		zones, offered := size.ZonesIn(location)
		switch {
		case offered && retired(name):
			s.struck.note(sizeRetired)
		case offered:
			values = append(values, s.skuOf(size, location, zones))
		}
	}
	return answer(http.StatusOK, nil, map[string]any{"value": values})
}

// retiredNow reports of sizes whether they are retired.
func (s *sizes) retiredNow() func(size string) bool {
	s.clock.Lock()
	defer s.clock.Unlock()
	return sizesLike(slices.Clone(s.retired))
}

func sizesLike(patterns []string) func(size string) bool {
	return func(size string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return matchesSize(pattern, size) })
	}
}

func (s *sizes) skuOf(size catalog.Size, location string, zones []string) sku {
	item := sku{
		ResourceType: "virtualMachines", Name: size.Name, Tier: size.Tier, Family: size.Family,
		Size:         strings.TrimPrefix(size.Name, size.Tier+"_"),
		Locations:    []string{location},
		LocationInfo: []skuLocation{{Location: location, Zones: append([]string{}, zones...), ZoneDetails: []skuZoneDetail{}}},
		Restrictions: s.restrictionsOf(size, location, zones),
	}
	for _, c := range size.Capabilities() {
		if c.Name == "UltraSSDAvailable" && len(zones) > 0 {
			// Where there are zones, ultra disks are a property of the zone.
			item.LocationInfo[0].ZoneDetails = []skuZoneDetail{{Name: zones, Capabilities: []skuCapability{skuCapability(c)}}}
			continue
		}
		item.Capabilities = append(item.Capabilities, skuCapability(c))
	}
	return item
}

func (s *sizes) restrictionsOf(size catalog.Size, location string, zones []string) []skuRestriction {
	s.clock.Lock()
	defer s.clock.Unlock()
	list := []skuRestriction{}
	for _, r := range s.restrictions {
		if !matchesSize(r.Size, size.Name) {
			continue
		}
		reason := r.Reason
		setString(&reason, "NotAvailableForSubscription")
		restriction := skuRestriction{Type: "Location", Values: []string{location}, ReasonCode: reason, Info: skuRestrictionInfo{Locations: []string{location}}}
		if len(r.Zones) > 0 {
			restriction.Type, restriction.Info.Zones = "Zone", r.Zones
		}
		list = append(list, restriction)
		if len(r.Zones) == 0 && len(zones) > 0 {
			// A size that is closed in the region is closed in its zones too,
			// and Azure says so in a second entry.
			list = append(list, skuRestriction{Type: "Zone", Values: []string{location}, ReasonCode: reason, Info: skuRestrictionInfo{Locations: []string{location}, Zones: slices.Clone(zones)}})
		}
	}
	return list
}

// offered returns the size of that name if the region offers it.
func (s *sizes) offered(name string) (catalog.Size, error) {
	size, known := s.byName[strings.ToLower(name)]
	if _, offered := size.ZonesIn(s.sub.location); known && offered {
		if !sizesLike(s.retired)(size.Name) {
			return size, nil
		}
		s.struck.note(sizeRetired)
	}
	return size, invalidParameter("vmSize", "The requested VM size %s is not available in the current region. The sizes available in the current region are: %s. Find out more on the available VM sizes in each region at https://aka.ms/azure-regions.", name, strings.Join(s.sold(5), ",")+",…")
}

func (s *sizes) checkZone(v *vm) error {
	if len(v.spec.Zones) > 1 {
		return badRequest("MultipleAvailabilityZonesNotSupported", "The resource '%s' can be in one availability zone only, not in '%s'.", v.id, strings.Join(v.spec.Zones, ","))
	}
	zone := v.spec.zone()
	if zone == "" {
		return nil
	}
	if !slices.Contains(s.zones, zone) {
		return badRequest("InvalidAvailabilityZone", "The zone(s) '%s' for resource '%s' is not supported. The supported zones for location '%s' are '%s'", zone, v.id, v.location, strings.Join(s.zones, ","))
	}
	if zones, _ := v.size.ZonesIn(v.location); !slices.Contains(zones, zone) {
		return skuNotAvailable(v.size.Name, v.location)
	}
	return nil
}

// checkRestrictions refuses sizes this subscription may not use.
func (s *sizes) checkRestrictions(v *vm) error {
	for _, r := range s.restrictions {
		if matchesSize(r.Size, v.size.Name) && (len(r.Zones) == 0 || slices.Contains(r.Zones, v.spec.zone())) {
			return skuNotAvailable(v.size.Name, v.location)
		}
	}
	return nil
}

// setRestrictions replaces the sizes that this subscription may not use.
func (s *sizes) setRestrictions(restrictions ...Restriction) {
	s.clock.Lock()
	defer s.clock.Unlock()
	s.restrictions = slices.Clone(restrictions)
}

// sizeRetired is the fault that takes sizes off sale.
const sizeRetired = "SizeRetired"

// retire takes sizes off sale: they are listed no more, and no VM of them can be created. VMs of
// them go on, and ClearFaults offers them again, which a client sees as sizes that are new.
func (s *sizes) retire(pattern string) {
	setString(&pattern, "*")
	s.clock.Lock()
	defer s.clock.Unlock()
	s.retired = append(s.retired, pattern)
}

// offerRetired offers the sizes again that were retired.
func (s *sizes) offerRetired() {
	s.clock.Lock()
	defer s.clock.Unlock()
	s.retired = nil
}

func (s *sizes) listLocations(r *request) (reply, error) {
	name := s.sub.location
	mappings := []any{}
	for _, zone := range s.zones {
		mappings = append(mappings, map[string]string{"logicalZone": zone, "physicalZone": name + "-az" + zone})
	}
	return ok(map[string]any{"value": []any{map[string]any{
		"id":   "/subscriptions/" + s.sub.id + "/locations/" + name,
		"name": name, "type": "Region", "displayName": displayName(name), "regionalDisplayName": displayName(name),
		"metadata":                 map[string]string{"regionType": "Physical", "regionCategory": "Recommended"},
		"availabilityZoneMappings": mappings,
	}}})
}

// displayName is the portal's name of a region of the catalogue.
func displayName(location string) string {
	switch location {
	case "eastus":
		return "East US"
	case "eastus2":
		return "East US 2"
	case "westus2":
		return "West US 2"
	case "westus3":
		return "West US 3"
	case "southcentralus":
		return "South Central US"
	case "westcentralus":
		return "West Central US"
	case "westeurope":
		return "West Europe"
	case "northeurope":
		return "North Europe"
	case "uksouth":
		return "UK South"
	case "southeastasia":
		return "Southeast Asia"
	default:
		return location
	}
}

// resizeTarget is the size that a VM is given when it is resized: of its family and larger if
// there is one.
func (s *sizes) resizeTarget(v *vm) (catalog.Size, bool) {
	var all []catalog.Size
	for _, name := range s.names {
		size := s.byName[strings.ToLower(name)]
		zones, offered := size.ZonesIn(s.sub.location)
		zone := v.spec.zone()
		if offered && size.Name != v.size.Name && size.Architecture == v.size.Architecture && (zone == "" || slices.Contains(zones, zone)) {
			all = append(all, size)
		}
	}
	if len(all) == 0 {
		return catalog.Size{}, false
	}
	return slices.MinFunc(all, func(a, b catalog.Size) int {
		return cmp.Or(cmp.Compare(distance(v.size, a), distance(v.size, b)), cmp.Compare(a.Name, b.Name))
	}), true
}

// distance grows with cores; another family is farther than any size of the own one, and a
// smaller size than any larger one of its family.
func distance(from, to catalog.Size) int {
	const far = 1 << 16
	d := to.VCPUs - from.VCPUs
	if d <= 0 {
		d = far - d
	}
	if to.Family != from.Family {
		d += 4 * far
	}
	return d
}
