package azureemulator

import (
	"maps"
	"slices"
)

func (s *Server) listLocations(r *request) (reply, error) {
	name := s.options.Location
	mappings := []any{}
	for _, zone := range s.zones {
		mappings = append(mappings, map[string]string{"logicalZone": zone, "physicalZone": name + "-az" + zone})
	}
	return ok(map[string]any{"value": []any{map[string]any{
		"id":   "/subscriptions/" + s.options.SubscriptionID + "/locations/" + name,
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

func (s *Server) listGroups(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := []any{}
	for _, k := range slices.Sorted(maps.Keys(s.groups)) {
		values = append(values, s.groupView(s.groups[k]))
	}
	return ok(map[string]any{"value": values})
}

func (s *Server) getGroup(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(s.groupView(g))
}

func (s *Server) groupView(g *group) any {
	return map[string]any{
		"id":   "/subscriptions/" + s.options.SubscriptionID + "/resourceGroups/" + g.name,
		"name": g.name, "type": "Microsoft.Resources/resourceGroups", "location": g.location,
		"properties": map[string]string{"provisioningState": succeeded},
	}
}
