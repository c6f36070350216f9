package azureemulator

import (
	"fmt"
	"slices"
	"strings"
)

// loadBalancer has backend pools by name.
type loadBalancer struct {
	common
	pools []string
}

// AddLoadBalancer makes a load balancer with pools in the node resource group.
func (s *Server) AddLoadBalancer(name string, pools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLoadBalancer(name, pools...)
}

func (s *Server) addLoadBalancer(name string, pools ...string) {
	group := s.options.NodeResourceGroup
	id := s.resourceID(group, "Microsoft.Network", "loadBalancers", name)
	s.loadBalancers[key(group, name)] = &loadBalancer{common: s.newCommon(id, name, group), pools: pools}
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
