package azureemulator

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

func (s *Server) indexSizes(sizes []catalog.Size) {
	s.sizes = make(map[string]catalog.Size, len(sizes))
	seen := map[string]bool{}
	for _, size := range sizes {
		if !s.options.sells(size.Name) {
			continue
		}
		s.sizes[strings.ToLower(size.Name)] = size
		s.sizeNames = append(s.sizeNames, size.Name)
		zones, _ := size.ZonesIn(s.options.Location)
		for _, zone := range zones {
			seen[zone] = true
		}
	}
	s.zones = slices.Sorted(maps.Keys(seen))
}

// sells reports whether a size is among Sizes.
func (o Options) sells(size string) bool {
	return len(o.Sizes) == 0 || sizesLike(o.Sizes)(size)
}

// sizesSold names the first n sizes of the region.
func (s *Server) sizesSold(n int) []string {
	var names []string
	for _, name := range s.sizeNames {
		if _, offered := s.sizes[strings.ToLower(name)].ZonesIn(s.options.Location); offered && len(names) < n {
			names = append(names, name)
		}
	}
	return names
}

// sku is a virtual machine size as the Resource SKUs API writes it.
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
// sizes of all regions, some 60 MB, which nobody should come to rely on here.
func (s *Server) listSKUs(r *request) (reply, error) {
	location := s.options.Location
	if filter := r.query.Get("$filter"); filter != "" {
		parts := locationFilter.FindStringSubmatch(filter)
		if parts == nil {
			return reply{}, badRequest("InvalidFilter", "The filter \"%s\" is not supported: only location eq '<region>' is.", filter)
		}
		location = normalLocation(parts[1])
	}
	values, retired := []sku{}, s.retiredNow()
	for _, name := range s.sizeNames {
		size := s.sizes[strings.ToLower(name)]
		if zones, offered := size.ZonesIn(location); offered && !retired(name) {
			values = append(values, s.skuOf(size, location, zones))
		}
	}
	return answer(http.StatusOK, nil, map[string]any{"value": values})
}

// retiredNow tells of sizes whether they are off sale.
func (s *Server) retiredNow() func(size string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sizesLike(slices.Clone(s.retired))
}

func sizesLike(patterns []string) func(size string) bool {
	return func(size string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return matchesSize(pattern, size) })
	}
}

func (s *Server) skuOf(size catalog.Size, location string, zones []string) sku {
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

func (s *Server) restrictionsOf(size catalog.Size, location string, zones []string) []skuRestriction {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// SetRestrictions replaces the sizes that this subscription may not buy.
func (s *Server) SetRestrictions(restrictions ...Restriction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restrictions = slices.Clone(restrictions)
}
