package emulator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// vnet is a virtual network; subnets are by lower-case name.
type vnet struct {
	common
	guid    string
	subnets map[string]*subnet
}

// subnet hands out the addresses of its prefix. Azure keeps the first four and
// the last one for itself.
type subnet struct {
	id, name string
	prefix   netip.Prefix
	nsg      string                // id, or empty
	owners   map[netip.Addr]string // address → id of the IP configuration
	// lowest is not above the lowest free address.
	lowest netip.Addr
}

const reservedAtStart, reservedAtEnd = 4, 1

func newSubnet(id, name string, prefix netip.Prefix) *subnet {
	prefix = prefix.Masked()
	n := &subnet{id: id, name: name, prefix: prefix, owners: map[netip.Addr]string{}, lowest: prefix.Addr()}
	for range reservedAtStart {
		n.lowest = n.lowest.Next()
	}
	return n
}

// size is how many addresses machines can have.
func (n *subnet) size() int {
	bits := n.prefix.Addr().BitLen() - n.prefix.Bits()
	return 1<<min(bits, 30) - reservedAtStart - reservedAtEnd
}

func (n *subnet) free() int { return n.size() - len(n.owners) }

// take gives owner the lowest free address. The caller has seen that free > 0.
func (n *subnet) take(owner string) netip.Addr {
	for n.owners[n.lowest] != "" {
		n.lowest = n.lowest.Next()
	}
	n.owners[n.lowest] = owner
	return n.lowest
}

func (n *subnet) release(a netip.Addr) {
	delete(n.owners, a)
	if a.Less(n.lowest) {
		n.lowest = a
	}
}

// AddSubnet makes a subnet, and its virtual network and resource group if they
// do not exist: networks that are the user's own, or small enough to fill up.
func (s *Server) AddSubnet(group, network, name, prefix string) (id string, err error) {
	parsed, err := netip.ParsePrefix(prefix)
	if err != nil {
		return "", fmt.Errorf("adding subnet %s: %w", name, err)
	}
	if bits := parsed.Addr().BitLen() - parsed.Bits(); !parsed.Addr().Is4() || bits < 3 {
		return "", fmt.Errorf("adding subnet %s: %s is not an IPv4 range of at least eight addresses", name, prefix)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addSubnet(group, network, name, parsed).id, nil
}

func (s *Server) addSubnet(group, network, name string, prefix netip.Prefix) *subnet {
	s.addGroup(group)
	k := key(group, network)
	if s.vnets[k] == nil {
		id := s.resourceID(group, "Microsoft.Network", "virtualNetworks", network)
		s.vnets[k] = &vnet{common: s.newCommon(id, network, group), guid: s.chance.uuid(), subnets: map[string]*subnet{}}
	}
	n := newSubnet(s.subnetID(group, network, name), name, prefix)
	s.vnets[k].subnets[strings.ToLower(name)] = n
	return n
}

func (s *Server) subnetID(group, network, name string) string {
	return s.resourceID(group, "Microsoft.Network", "virtualNetworks", network, "subnets", name)
}

// subnetByID finds a subnet that a client refers to, or nil.
func (s *Server) subnetByID(id string) *subnet {
	segments := strings.Split(strings.Trim(id, "/"), "/")
	if len(segments) != 10 || !strings.EqualFold(segments[8], "subnets") {
		return nil
	}
	k, isNetwork := keyOfID(strings.Join(segments[:8], "/"), "Microsoft.Network/virtualNetworks")
	if !isNetwork || s.vnets[k] == nil {
		return nil
	}
	return s.vnets[k].subnets[strings.ToLower(segments[9])]
}

func (s *Server) getSubnet(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := find(s, r, s.vnets, "Microsoft.Network/virtualNetworks", "vnet")
	if err != nil {
		return reply{}, err
	}
	n := v.subnets[strings.ToLower(r.params["subnet"])]
	if n == nil {
		return reply{}, notFound("NotFound", "Resource %s not found.", s.subnetID(v.group, v.name, r.params["subnet"]))
	}
	return ok(n.view())
}

func (s *Server) listSubnets(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := find(s, r, s.vnets, "Microsoft.Network/virtualNetworks", "vnet")
	if err != nil {
		return reply{}, err
	}
	return ok(map[string]any{"value": v.subnetViews()})
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

func (n *subnet) view() any {
	configurations := []any{}
	for _, a := range slices.SortedFunc(maps.Keys(n.owners), netip.Addr.Compare) {
		configurations = append(configurations, ref(n.owners[a]))
	}
	properties := map[string]any{
		"provisioningState": succeeded, "addressPrefix": n.prefix.String(),
		"ipConfigurations": configurations, "delegations": []any{}, "serviceEndpoints": []any{},
	}
	if n.nsg != "" {
		properties["networkSecurityGroup"] = ref(n.nsg)
	}
	return map[string]any{
		"id": n.id, "name": n.name, "type": "Microsoft.Network/virtualNetworks/subnets", "properties": properties,
	}
}

// nsg is a network security group. The emulator filters no traffic.
type nsg struct{ common }

func (g *nsg) view() any {
	return g.common.view("Microsoft.Network/networkSecurityGroups", map[string]any{
		"provisioningState": succeeded, "securityRules": []any{},
	})
}

func (s *Server) listSecurityGroups(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return listAll(s, r, s.nsgs, (*nsg).view)
}

func (s *Server) getSecurityGroup(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := find(s, r, s.nsgs, "Microsoft.Network/networkSecurityGroups", "nsg")
	if err != nil {
		return reply{}, err
	}
	return ok(g.view())
}

// loadBalancer has backend pools by name.
type loadBalancer struct {
	common
	pools []string
}

func (l *loadBalancer) poolID(pool string) string { return l.id + "/backendAddressPools/" + pool }

func (l *loadBalancer) view() any {
	pools := []any{}
	for _, name := range l.pools {
		pools = append(pools, map[string]any{
			"id": l.poolID(name), "name": name, "type": "Microsoft.Network/loadBalancers/backendAddressPools",
			"properties": map[string]any{"provisioningState": succeeded},
		})
	}
	view := l.common.view("Microsoft.Network/loadBalancers", map[string]any{
		"provisioningState": succeeded, "backendAddressPools": pools,
	})
	view["sku"] = map[string]string{"name": "Standard", "tier": "Regional"}
	return view
}

func (s *Server) listLoadBalancers(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return listAll(s, r, s.loadBalancers, (*loadBalancer).view)
}

func (s *Server) getLoadBalancer(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := find(s, r, s.loadBalancers, "Microsoft.Network/loadBalancers", "lb")
	if err != nil {
		return reply{}, err
	}
	return ok(l.view())
}

// hasPool says whether id is a backend pool that exists.
func (s *Server) hasPool(id string) bool {
	for _, l := range s.loadBalancers {
		for _, pool := range l.pools {
			if strings.EqualFold(l.poolID(pool), id) {
				return true
			}
		}
	}
	return false
}

// ref is how Azure's JSON points at another resource.
func ref(id string) map[string]string { return map[string]string{"id": id} }

// SetBackendPools replaces the backend pools of a load balancer of the node
// resource group, as AKS does when it rebuilds one.
func (s *Server) SetBackendPools(loadBalancer string, pools ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loadBalancers[key(s.options.NodeResourceGroup, loadBalancer)]
	if l == nil {
		return fmt.Errorf("setting backend pools: %w", resourceNotFound("Microsoft.Network/loadBalancers", loadBalancer, s.options.NodeResourceGroup))
	}
	l.pools = slices.Clone(pools)
	return nil
}

func (c common) view(kind string, properties map[string]any) map[string]any {
	view := map[string]any{
		"id": c.id, "name": c.name, "type": kind, "location": c.location,
		"etag": `W/"` + c.etag + `"`, "properties": properties,
	}
	if c.tags != nil {
		view["tags"] = c.tags
	}
	return view
}
