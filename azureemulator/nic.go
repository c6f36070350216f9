// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

const nicKind = "Microsoft.Network/networkInterfaces"

// nic is a network interface. It is bound to at most one VM; after
// a failed creation it stays reserved for that VM for a while.
type nic struct {
	common
	guid, mac   string
	accelerated bool
	nsg         string
	configs     []*ipConfig
	state       string
	vm          string // id of the VM it is bound to, or empty
	reservedFor string // id
	reservedTo  time.Time
}

// ipConfig is one address of an interface.
type ipConfig struct {
	name    string
	subnet  *subnet
	address netip.Addr
	primary bool
	pools   []string
}

// interfaces are the network interfaces of the subscription.
type interfaces struct {
	byKey     map[string]*nic
	networks  *virtualNetworks
	groups    *securityGroups
	balancers *loadBalancers
	quirks    *quirks
	ops       *operations
	sub       *subscription
	clock     *clock
	chance    *chance
	latency   Distribution // of making and removing one
}

func (ni *interfaces) routes() []route {
	const nic = networkIn + "networkinterfaces"
	return []route{
		azure("PUT", nic+"/{nic}", "Interfaces.CreateOrUpdate", writes, ni.put),
		azure("PATCH", nic+"/{nic}", "Interfaces.UpdateTags", writes, ni.patch),
		azure("GET", nic+"/{nic}", "Interfaces.Get", reads, ni.get),
		azure("GET", nic, "Interfaces.List", reads, ni.list),
		azure("GET", inSubscription+"/providers/microsoft.network/networkinterfaces", "Interfaces.ListAll", reads, ni.list),
		azure("DELETE", nic+"/{nic}", "Interfaces.Delete", deletes, ni.deleteNIC),
	}
}

// networkPace is how often the network provider asks to be polled.
const networkPace = time.Second

func (ni *interfaces) put(r *request) (reply, error) {
	var spec nicSpec
	if err := r.decode(&spec); err != nil {
		return reply{}, err
	}
	ni.clock.Lock()
	defer ni.clock.Unlock()
	g, err := ni.sub.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	if err := ni.sub.checkLocation(spec.Location); err != nil {
		return reply{}, err
	}
	if old := ni.byKey[key(g.name, r.params["nic"])]; old != nil {
		return ni.update(old, spec)
	}
	id := ni.sub.resourceID(g.name, "Microsoft.Network", "networkInterfaces", r.params["nic"])
	n, err := ni.add(id, r.params["nic"], g.name, spec)
	if err != nil {
		return reply{}, err
	}
	return ni.start(n)
}

// start answers a creation. The network provider is often done at once; then
// there is nothing to poll.
func (ni *interfaces) start(n *nic) (reply, error) {
	if ni.clock.scale == 0 {
		return answer(http.StatusCreated, nil, n.view())
	}
	n.state = "Updating"
	op := ni.ops.run("Microsoft.Network", networkPace, ni.latency, func() { n.state = succeeded })
	header := http.Header{}
	ni.ops.announce(op, header)
	return answer(http.StatusCreated, header, n.view())
}

// add makes an interface with addresses, or refuses and leaves no trace.
// Callers hold the lock.
func (ni *interfaces) add(id, name, group string, spec nicSpec) (*nic, error) {
	if err := ni.check(id, spec); err != nil {
		return nil, err
	}
	n := &nic{common: ni.sub.newCommon(id, name, group), guid: ni.chance.uuid(), mac: macOf(ni.chance.hex(6)), state: succeeded}
	n.tags = spec.Tags
	n.apply(spec.Properties, ni.networks)
	ni.byKey[key(group, name)] = n
	return n, nil
}

// check sees that all an interface refers to exists and that its subnets
// have room for the addresses it does not have yet.
func (ni *interfaces) check(id string, spec nicSpec) error {
	configs := spec.Properties.IPConfigurations
	if len(configs) == 0 {
		return badRequest("NetworkInterfaceMustHaveAtLeastOneIpConfiguration", "Network interface %s must have at least one IP configuration.", id)
	}
	if g := spec.Properties.NetworkSecurityGroup; g != nil {
		if !ni.groups.exists(g.ID) {
			return invalidReference(g.ID, id)
		}
	}
	wanted := map[*subnet]int{}
	for i, c := range configs {
		if c.Properties.Subnet == nil {
			return badRequest("SubnetNotSpecified", "The IP configuration %s of network interface %s names no subnet.", c.Name, id)
		}
		n := ni.networks.subnet(c.Properties.Subnet.ID)
		if n == nil {
			return invalidReference(c.Properties.Subnet.ID, id)
		}
		if n.closed {
			return ni.networks.mayNotJoin(n, id)
		}
		for _, pool := range c.Properties.Pools {
			if !ni.balancers.hasPool(pool.ID) {
				return invalidReference(pool.ID, id)
			}
		}
		if !c.six() {
			wanted[n]++
		} else if err := checkSix(id, n, c, c.primary(i)); err != nil {
			return err
		}
	}
	for n, count := range wanted {
		if n.free() < count-ni.held(id, n) {
			return subnetIsFull(n.name, n.prefix.String(), count)
		}
	}
	return nil
}

// checkSix refuses an address of IPv6 where there are none, and as the first of an
// interface, which is always one of IPv4 (kubernetes-sigs/cloud-provider-azure#3715). By which
// codes Azure refuses either is on no public record: these are the plainest that a client
// must understand.
func checkSix(id string, n *subnet, c ipConfigSpec, primary bool) error {
	switch {
	case !n.six.IsValid():
		return badRequest("BadRequest", "IP configuration %s of network interface %s asks for an IPv6 address, and subnet %s has no IPv6 address prefix.", c.Name, id, n.name)
	case primary:
		return badRequest("BadRequest", "IP configuration %s of network interface %s cannot be primary, as it is of IPv6.", c.Name, id)
	}
	return nil
}

// held is how many addresses of n, those of IPv6 apart, the interface has already.
func (ni *interfaces) held(id string, n *subnet) int {
	k, _ := keyOfID(id, nicKind)
	count := 0
	if old := ni.byKey[k]; old != nil {
		for _, c := range old.configs {
			if c.subnet == n && c.address.Is4() {
				count++
			}
		}
	}
	return count
}

// apply gives the interface what was asked, keeping the addresses of the
// configurations that stay.
func (n *nic) apply(p nicProperties, networks *virtualNetworks) {
	old := map[string]*ipConfig{}
	for _, c := range n.configs {
		old[strings.ToLower(c.name)] = c
	}
	n.configs = nil
	n.accelerated, n.nsg = p.Accelerated, ""
	if p.NetworkSecurityGroup != nil {
		n.nsg = p.NetworkSecurityGroup.ID
	}
	for i, want := range p.IPConfigurations {
		c := &ipConfig{name: want.Name, subnet: networks.subnet(want.Properties.Subnet.ID), primary: want.primary(i)}
		for _, pool := range want.Properties.Pools {
			c.pools = append(c.pools, pool.ID)
		}
		if before := old[strings.ToLower(want.Name)]; before != nil && before.subnet == c.subnet && before.address.Is6() == want.six() {
			c.address = before.address
			delete(old, strings.ToLower(want.Name))
		}
		n.configs = append(n.configs, c)
	}
	for _, gone := range old {
		gone.subnet.release(gone.address)
	}
	for i, c := range n.configs {
		switch {
		case c.address.IsValid():
		case p.IPConfigurations[i].six():
			c.address = c.subnet.take6(n.configID(c))
		default:
			c.address = c.subnet.take(n.configID(c))
		}
	}
}

func (ni *interfaces) update(n *nic, spec nicSpec) (reply, error) {
	if n.state == "Deleting" {
		return reply{}, conflict("AnotherOperationInProgress", "Another operation on this or dependent resource is in progress.")
	}
	if err := ni.check(n.id, spec); err != nil {
		return reply{}, err
	}
	n.tags = spec.Tags
	n.apply(spec.Properties, ni.networks)
	n.etag = ni.chance.uuid()
	return ok(n.view())
}

func (ni *interfaces) patch(r *request) (reply, error) {
	var patch struct {
		Tags map[string]string `json:"tags"`
	}
	if err := r.decode(&patch); err != nil {
		return reply{}, err
	}
	ni.clock.Lock()
	defer ni.clock.Unlock()
	n, err := find(ni.sub, r, ni.byKey, nicKind, "nic")
	if err != nil {
		return reply{}, err
	}
	n.tags, n.etag = patch.Tags, ni.chance.uuid()
	return ok(n.view())
}

func (ni *interfaces) get(r *request) (reply, error) {
	ni.clock.Lock()
	defer ni.clock.Unlock()
	return show(find(ni.sub, r, ni.byKey, nicKind, "nic"))
}

// row is the interface in a list.
func (n *nic) row() (json.RawMessage, error) {
	return n.listed.of(looks{etag: n.etag, state: n.state, vm: n.vm}, n.view)
}

func (ni *interfaces) list(r *request) (reply, error) {
	ni.clock.Lock()
	defer ni.clock.Unlock()
	return list(ni.sub, r, ni.byKey, (*nic).row)
}

func (ni *interfaces) deleteNIC(r *request) (reply, error) {
	ni.clock.Lock()
	defer ni.clock.Unlock()
	g, err := ni.sub.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	n := ni.byKey[key(g.name, r.params["nic"])]
	if n == nil {
		return reply{status: http.StatusNoContent}, nil
	}
	if n.vm != "" {
		return reply{}, nicInUse(n.id, n.vm)
	}
	if left := n.reservedFrom(""); left > 0 {
		return reply{}, nicReserved(n.reservedFor, left)
	}
	n.state = "Deleting"
	return ni.ops.accepted(ni.ops.run("Microsoft.Network", networkPace, ni.latency, func() { ni.remove(n) }))
}

// reservedFrom is how long the interface is still kept from the VM with
// the given id; 0 when it may have it.
func (n *nic) reservedFrom(vm string) time.Duration {
	if n.reservedFor == "" || strings.EqualFold(n.reservedFor, vm) {
		return 0
	}
	return max(0, time.Until(n.reservedTo))
}

// remove frees the interface's addresses. A second removal does nothing.
// Callers hold the lock.
func (ni *interfaces) remove(n *nic) {
	if ni.byKey[key(n.group, n.name)] != n {
		return
	}
	linger := ni.quirks.takeTurn(addressesLinger)
	for _, c := range n.configs {
		if linger {
			ni.releaseLate(c.subnet, c.address)
		} else {
			c.subnet.release(c.address)
		}
	}
	delete(ni.byKey, key(n.group, n.name))
}

// releaseLate has an address stay taken for a while after its interface is gone.
func (ni *interfaces) releaseLate(n *subnet, a netip.Addr) {
	n.lingering[a] = true
	ni.clock.afterScaled(lingers, func() {
		delete(n.lingering, a)
		n.release(a)
	})
}
