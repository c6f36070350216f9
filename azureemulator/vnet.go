package azureemulator

import (
	"maps"
	"slices"
)

// vnet is a virtual network; subnets are by lower-case name.
type vnet struct {
	common
	guid    string
	subnets map[string]*subnet
}

func (s *Server) getVNet(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := find(s, r, s.vnets, "Microsoft.Network/virtualNetworks", "vnet")
	if err != nil {
		return reply{}, err
	}
	return ok(v.view())
}

func (s *Server) listVNets(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return listAll(s, r, s.vnets, (*vnet).view)
}

func (v *vnet) view() any {
	var prefixes []string
	for _, k := range slices.Sorted(maps.Keys(v.subnets)) {
		prefixes = append(prefixes, v.subnets[k].prefix.String())
		if six := v.subnets[k].six; six.IsValid() {
			prefixes = append(prefixes, six.String())
		}
	}
	return v.common.view("Microsoft.Network/virtualNetworks", map[string]any{
		"provisioningState": succeeded, "resourceGuid": v.guid,
		"addressSpace": map[string]any{"addressPrefixes": prefixes},
		"subnets":      v.subnetViews(),
	})
}

func (v *vnet) subnetViews() []any {
	views := []any{}
	for _, k := range slices.Sorted(maps.Keys(v.subnets)) {
		views = append(views, v.subnets[k].view())
	}
	return views
}
