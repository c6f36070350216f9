// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"maps"
	"net/http"
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

// virtualNetworks are those of the subscription, with their subnets.
type virtualNetworks struct {
	byKey  map[string]*vnet
	sub    *subscription
	clock  *clock
	chance *chance
}

func (vn *virtualNetworks) routes() []route {
	const network = networkIn + "virtualnetworks"
	return []route{
		azure("GET", network, "VirtualNetworks.List", reads, vn.list),
		azure("GET", network+"/{vnet}", "VirtualNetworks.Get", reads, vn.get),
		azure("GET", network+"/{vnet}/subnets", "Subnets.List", reads, vn.listSubnets),
		azure("GET", network+"/{vnet}/subnets/{subnet}", "Subnets.Get", reads, vn.getSubnet),
		azure("GET", network+"/{vnet}/subnets/{subnet}/providers/microsoft.authorization/permissions", "Permissions.ListForResource", reads, vn.listSubnetPermissions),
	}
}

func (vn *virtualNetworks) get(r *request) (reply, error) {
	vn.clock.Lock()
	defer vn.clock.Unlock()
	return show(find(vn.sub, r, vn.byKey, "Microsoft.Network/virtualNetworks", "vnet"))
}

func (vn *virtualNetworks) list(r *request) (reply, error) {
	vn.clock.Lock()
	defer vn.clock.Unlock()
	return listAll(vn.sub, r, vn.byKey, (*vnet).view)
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

// add refuses a range that another subnet of the network overlaps.
func (vn *virtualNetworks) add(group, network, name string, prefix netip.Prefix) (*subnet, error) {
	vn.sub.addGroup(group)
	k := key(group, network)
	if vn.byKey[k] == nil {
		id := vn.sub.resourceID(group, "Microsoft.Network", "virtualNetworks", network)
		vn.byKey[k] = &vnet{common: vn.sub.newCommon(id, network, group), guid: vn.chance.uuid(), subnets: map[string]*subnet{}}
	}
	for _, other := range vn.byKey[k].subnets {
		if strings.EqualFold(other.name, name) || other.prefix.Overlaps(prefix) {
			return nil, fmt.Errorf("virtual network %s has a subnet %s with %s", network, other.name, other.prefix)
		}
	}
	n := newSubnet(vn.sub.subnetID(group, network, name), name, prefix)
	vn.byKey[k].subnets[strings.ToLower(name)] = n
	return n, nil
}

// subnet finds a subnet that a client refers to, or nil.
func (vn *virtualNetworks) subnet(id string) *subnet {
	segments := strings.Split(strings.Trim(id, "/"), "/")
	if len(segments) != 10 || !strings.EqualFold(segments[8], "subnets") {
		return nil
	}
	k, isNetwork := keyOfID(strings.Join(segments[:8], "/"), "Microsoft.Network/virtualNetworks")
	if !isNetwork || vn.byKey[k] == nil {
		return nil
	}
	return vn.byKey[k].subnets[strings.ToLower(segments[9])]
}

// subnetOf finds the request's subnet. Callers hold the lock.
func (vn *virtualNetworks) subnetOf(r *request) (*subnet, error) {
	v, err := find(vn.sub, r, vn.byKey, "Microsoft.Network/virtualNetworks", "vnet")
	if err != nil {
		return nil, err
	}
	if n := v.subnets[strings.ToLower(r.params["subnet"])]; n != nil {
		return n, nil
	}
	return nil, notFound("NotFound", "Resource %s not found.", vn.sub.subnetID(v.group, v.name, r.params["subnet"]))
}

func (vn *virtualNetworks) getSubnet(r *request) (reply, error) {
	vn.clock.Lock()
	defer vn.clock.Unlock()
	n, err := vn.subnetOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(n.view())
}

func (vn *virtualNetworks) listSubnets(r *request) (reply, error) {
	vn.clock.Lock()
	defer vn.clock.Unlock()
	v, err := find(vn.sub, r, vn.byKey, "Microsoft.Network/virtualNetworks", "vnet")
	if err != nil {
		return reply{}, err
	}
	return ok(map[string]any{"value": v.subnetViews()})
}

// listSubnetPermissions shows what the client may do to a subnet.
func (vn *virtualNetworks) listSubnetPermissions(r *request) (reply, error) {
	vn.clock.Lock()
	defer vn.clock.Unlock()
	n, err := vn.subnetOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(map[string]any{"value": n.grants()})
}

// mayNotJoin is how Azure refuses a VM whose client lacks the right to its subnet.
func (vn *virtualNetworks) mayNotJoin(n *subnet, id string) *Error {
	return refuse(http.StatusForbidden, "LinkedAuthorizationFailed",
		"The client '%[1]s' with object id '%[1]s' has permission to perform action 'Microsoft.Network/networkInterfaces/write' on scope '%[2]s'; however, it does not have permission to perform action(s) 'Microsoft.Network/virtualNetworks/subnets/join/action' on the linked scope(s) '%[3]s' (respectively) or the linked scope(s) are invalid.",
		vn.sub.client, id, n.id)
}
