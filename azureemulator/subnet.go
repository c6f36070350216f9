package azureemulator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// subnet hands out the addresses of its prefix. Azure keeps the first four and
// the last one for itself.
type subnet struct {
	id, name string
	prefix   netip.Prefix
	six      netip.Prefix          // of IPv6; the zero Prefix when there is none
	last6    netip.Addr            // given out
	taken6   int                   // of the owners
	nsg      string                // id, or empty
	service  string                // it is delegated to, or empty
	closed   bool                  // clients may not join it
	owners   map[netip.Addr]string // address → id of the IP configuration
	// lingering are those of owners that are gone.
	lingering map[netip.Addr]bool
	// lowest is not above the lowest free address.
	lowest netip.Addr
}

const reservedAtStart, reservedAtEnd = 4, 1

func newSubnet(id, name string, prefix netip.Prefix) *subnet {
	n := &subnet{id: id, name: name, prefix: prefix, owners: map[netip.Addr]string{}, lingering: map[netip.Addr]bool{}, lowest: prefix.Addr()}
	for range reservedAtStart {
		n.lowest = n.lowest.Next()
	}
	return n
}

// size is how many addresses machines can have.
func (n *subnet) size() int {
	return 1<<(32-n.prefix.Bits()) - reservedAtStart - reservedAtEnd
}

// free is how many of them are left. IPv6 does not run out.
func (n *subnet) free() int { return n.size() - (len(n.owners) - n.taken6) }

// take gives owner the lowest free address. The caller has seen that free > 0.
func (n *subnet) take(owner string) netip.Addr {
	for n.owners[n.lowest] != "" {
		n.lowest = n.lowest.Next()
	}
	n.owners[n.lowest] = owner
	return n.lowest
}

// take6 gives owner an address of IPv6 that nobody had before.
func (n *subnet) take6(owner string) netip.Addr {
	n.last6 = n.last6.Next()
	n.owners[n.last6] = owner
	n.taken6++
	return n.last6
}

func (n *subnet) release(a netip.Addr) {
	delete(n.owners, a)
	if a.Is6() {
		n.taken6--
		return
	}
	if a.Less(n.lowest) {
		n.lowest = a
	}
}

// AddSubnet makes a subnet, and its virtual network and resource group if they
// do not exist: networks that are the user's own, or small enough to fill up.
func (s *Server) AddSubnet(group, network, name, prefix string) (id string, err error) {
	parsed, err := subnetPrefix(prefix)
	if err != nil {
		return "", fmt.Errorf("adding subnet %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.addSubnet(group, network, name, parsed)
	if err != nil {
		return "", fmt.Errorf("adding subnet %s: %w", name, err)
	}
	return n.id, nil
}

// AddIPv6 gives a subnet a range of IPv6 besides its own, as clusters of both families have.
func (s *Server) AddIPv6(id, prefix string) error {
	six, err := netip.ParsePrefix(prefix)
	if err != nil || !six.Addr().Is6() || six.Bits() != 64 {
		return fmt.Errorf("adding a range of IPv6: %q is not one, of 64 bits as Azure wants it", prefix)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.subnetByID(id)
	if n == nil {
		return fmt.Errorf("adding a range of IPv6: there is no subnet %s", id)
	}
	n.addSix(six.Masked())
	return nil
}

func (n *subnet) addSix(six netip.Prefix) {
	n.six, n.last6 = six, six.Addr()
	for range reservedAtStart - 1 {
		n.last6 = n.last6.Next()
	}
}

// DelegateSubnet gives a subnet to a service, such as Microsoft.Web/serverFarms.
func (s *Server) DelegateSubnet(id, service string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.subnetByID(id)
	if n == nil {
		return fmt.Errorf("delegating a subnet: there is no %s", id)
	}
	n.service = service
	return nil
}

// subnetPrefix reads a range that leaves room for at least three machines.
func subnetPrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("reading a subnet's prefix: %w", err)
	}
	if !prefix.Addr().Is4() || prefix.Bits() > 29 {
		return prefix, fmt.Errorf("the prefix %s is not an IPv4 range of at least eight addresses", text)
	}
	return prefix.Masked(), nil
}

// addSubnet refuses a range that another subnet of the network overlaps.
func (s *Server) addSubnet(group, network, name string, prefix netip.Prefix) (*subnet, error) {
	s.addGroup(group)
	k := key(group, network)
	if s.vnets[k] == nil {
		id := s.resourceID(group, "Microsoft.Network", "virtualNetworks", network)
		s.vnets[k] = &vnet{common: s.newCommon(id, network, group), guid: s.chance.uuid(), subnets: map[string]*subnet{}}
	}
	for _, other := range s.vnets[k].subnets {
		if strings.EqualFold(other.name, name) || other.prefix.Overlaps(prefix) {
			return nil, fmt.Errorf("virtual network %s has a subnet %s with %s", network, other.name, other.prefix)
		}
	}
	n := newSubnet(s.subnetID(group, network, name), name, prefix)
	s.vnets[k].subnets[strings.ToLower(name)] = n
	return n, nil
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

// subnetOf finds the request's subnet. Callers hold mu.
func (s *Server) subnetOf(r *request) (*subnet, error) {
	v, err := find(s, r, s.vnets, "Microsoft.Network/virtualNetworks", "vnet")
	if err != nil {
		return nil, err
	}
	if n := v.subnets[strings.ToLower(r.params["subnet"])]; n != nil {
		return n, nil
	}
	return nil, notFound("NotFound", "Resource %s not found.", s.subnetID(v.group, v.name, r.params["subnet"]))
}

func (s *Server) getSubnet(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.subnetOf(r)
	if err != nil {
		return reply{}, err
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

func (n *subnet) view() any {
	configurations := []any{}
	for _, a := range slices.SortedFunc(maps.Keys(n.owners), netip.Addr.Compare) {
		configurations = append(configurations, ref(n.owners[a]))
	}
	properties := map[string]any{
		"provisioningState": succeeded, "addressPrefix": n.prefix.String(),
		"ipConfigurations": configurations, "delegations": []any{}, "serviceEndpoints": []any{},
	}
	if n.six.IsValid() {
		delete(properties, "addressPrefix")
		properties["addressPrefixes"] = []string{n.prefix.String(), n.six.String()}
	}
	if n.nsg != "" {
		properties["networkSecurityGroup"] = ref(n.nsg)
	}
	if n.service != "" {
		properties["delegations"] = []any{map[string]any{"name": "delegation", "properties": map[string]string{"serviceName": n.service}}}
	}
	return map[string]any{
		"id": n.id, "name": n.name, "type": "Microsoft.Network/virtualNetworks/subnets", "properties": properties,
	}
}
