// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"strings"
)

// loadBalancer has backend pools by name.
type loadBalancer struct {
	common
	pools []string
}

// loadBalancers are those of the subscription.
type loadBalancers struct {
	byKey map[string]*loadBalancer
	sub   *subscription
	clock *clock
}

func (lb *loadBalancers) routes() []route {
	return []route{
		azure("GET", networkIn+"loadbalancers", "LoadBalancers.List", reads, lb.list),
		azure("GET", networkIn+"loadbalancers/{lb}", "LoadBalancers.Get", reads, lb.get),
	}
}

func (lb *loadBalancers) add(name string, pools ...string) {
	group := lb.sub.nodeGroup
	id := lb.sub.resourceID(group, "Microsoft.Network", "loadBalancers", name)
	lb.byKey[key(group, name)] = &loadBalancer{common: lb.sub.newCommon(id, name, group), pools: pools}
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

func (lb *loadBalancers) list(r *request) (reply, error) {
	lb.clock.Lock()
	defer lb.clock.Unlock()
	return listAll(lb.sub, r, lb.byKey, (*loadBalancer).view)
}

func (lb *loadBalancers) get(r *request) (reply, error) {
	lb.clock.Lock()
	defer lb.clock.Unlock()
	return show(find(lb.sub, r, lb.byKey, "Microsoft.Network/loadBalancers", "lb"))
}

// named is the load balancer of that name in the node resource group, or nil.
func (lb *loadBalancers) named(name string) *loadBalancer {
	return lb.byKey[key(lb.sub.nodeGroup, name)]
}

// hasPool says whether id is a backend pool that exists.
func (lb *loadBalancers) hasPool(id string) bool {
	for _, l := range lb.byKey {
		for _, pool := range l.pools {
			if strings.EqualFold(l.poolID(pool), id) {
				return true
			}
		}
	}
	return false
}
