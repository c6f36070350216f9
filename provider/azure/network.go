package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// subnetID is a parsed subnet resource ID.
type subnetID struct{ subscription, group, vnet, subnet string }

func parseSubnetID(id string) (subnetID, error) {
	r, err := arm.ParseResourceID(id)
	if err != nil {
		return subnetID{}, fmt.Errorf("%q is not a resource ID", id)
	}
	if !strings.EqualFold(r.ResourceType.String(), "Microsoft.Network/virtualNetworks/subnets") || r.Parent == nil {
		return subnetID{}, fmt.Errorf("%q is not the resource ID of a subnet (…/providers/Microsoft.Network/virtualNetworks/<network>/subnets/<subnet>)", id)
	}
	return subnetID{subscription: r.SubscriptionID, group: r.ResourceGroupName, vnet: r.Parent.Name, subnet: r.Name}, nil
}

// parseSecurityGroupID returns the name in a network security group's ID.
func parseSecurityGroupID(id string) (name string, err error) {
	r, err := arm.ParseResourceID(id)
	if err != nil || !strings.EqualFold(r.ResourceType.String(), "Microsoft.Network/networkSecurityGroups") {
		return "", fmt.Errorf("%q is not the resource ID of a network security group (…/providers/Microsoft.Network/networkSecurityGroups/<group>)", id)
	}
	return r.Name, nil
}

// sameVNet reports whether two subnets are in the same virtual network. ARM IDs ignore case.
func (s subnetID) sameVNet(o subnetID) bool {
	return strings.EqualFold(s.subscription, o.subscription) && strings.EqualFold(s.group, o.group) && strings.EqualFold(s.vnet, o.vnet)
}

var (
	managedVNet = regexp.MustCompile(`(?i)^aks-vnet-\d{8}$`)
	agentNSG    = regexp.MustCompile(`(?i)^aks-agentpool-\d{8}-nsg$`)
)

// managed reports whether AKS created the network, rather than the user.
func (s subnetID) managed(nodeGroup string) bool {
	return strings.EqualFold(s.group, nodeGroup) && managedVNet.MatchString(s.vnet)
}

// SubnetError says why nodes cannot join a subnet. Reason is one of the reasons of an
// AKSNodeClass's SubnetsReady condition.
type SubnetError struct{ Reason, Detail string }

func (e *SubnetError) Error() string { return e.Detail }

// Reasons of a SubnetError.
const (
	SubnetIDInvalid = "SubnetIDInvalid"
	SubnetNotFound  = "SubnetNotFound"
	// SubnetDelegated: the subnet is delegated to another service; only that service's resources
	// may join.
	SubnetDelegated = "SubnetDelegated"
	// SubnetTooSmall: the subnet could not hold a single node, even if it were empty.
	SubnetTooSmall = "SubnetTooSmall"
	// SubnetJoinDenied: karve has no permission to join virtual machines to it.
	SubnetJoinDenied = "SubnetJoinDenied"
)

// CheckSubnet reports whether nodes can join the subnet of a node class: a *SubnetError when
// they cannot, another error when the check failed. An empty id means the cluster's own subnet,
// and maxPods zero AKS's default.
func (p *Provider) CheckSubnet(ctx context.Context, id string, maxPods int64) error {
	subnet := p.own
	if id != "" {
		var err error
		if subnet, err = parseSubnetID(id); err != nil {
			return &SubnetError{SubnetIDInvalid, err.Error()}
		}
	}
	if err := subnet.joinable(p.own, p.opts.NodeResourceGroup); err != nil {
		return err
	}
	if !strings.EqualFold(subnet.subscription, p.opts.SubscriptionID) {
		return &SubnetError{SubnetIDInvalid, fmt.Sprintf("subnet %s is in subscription %s, machines are made in %s: Azure joins their interfaces to networks of their own subscription only", subnet.subnet, subnet.subscription, p.opts.SubscriptionID)}
	}
	resp, err := p.clients.subnets.Get(ctx, subnet.group, subnet.vnet, subnet.subnet, nil)
	if err == nil {
		if err := p.holdsNodes(subnet, resp.Properties, cmp.Or(maxPods, p.defaultMaxPods())); err != nil {
			return err
		}
		return p.checkJoin(ctx, subnet)
	}
	if r := classify(err); r.kind == notFound {
		return &SubnetError{SubnetNotFound, fmt.Sprintf("subnet %s does not exist in virtual network %s: create it or correct vnetSubnetID", subnet.subnet, subnet.vnet)}
	}
	return wrap(err, "reading subnet %s", subnet.subnet)
}

// holdsNodes returns why a subnet that exists cannot take nodes with maxPods pods.
func (p *Provider) holdsNodes(s subnetID, properties *armnetwork.SubnetPropertiesFormat, maxPods int64) error {
	if properties == nil {
		return nil
	}
	for _, d := range properties.Delegations {
		if d != nil && d.Properties != nil && armtext.Of(d.Properties.ServiceName) != "" {
			return &SubnetError{SubnetDelegated, fmt.Sprintf("subnet %s is delegated to %s, so that no node can join it: name another subnet, or remove the delegation", s.subnet, armtext.Of(d.Properties.ServiceName))}
		}
	}
	size, needs := addressesIn(properties), p.addressesOf(maxPods)
	if size > 0 && size < needs {
		return &SubnetError{SubnetTooSmall, fmt.Sprintf("subnet %s has %d addresses for machines and a node takes %d: name a larger subnet, lower maxPods, or use the overlay", s.subnet, size, needs)}
	}
	return nil
}

// joinable applies AKS's rules: nodes stay in the cluster's network, and a network that AKS
// manages has one subnet for nodes.
func (s subnetID) joinable(own subnetID, nodeGroup string) error {
	if !s.sameVNet(own) {
		return &SubnetError{SubnetIDInvalid, fmt.Sprintf("subnet %s is in virtual network %s of group %s, the cluster is in %s of %s: nodes must join the cluster's network", s.subnet, s.vnet, s.group, own.vnet, own.group)}
	}
	if own.managed(nodeGroup) && !strings.EqualFold(s.subnet, own.subnet) {
		return &SubnetError{SubnetIDInvalid, fmt.Sprintf("virtual network %s is managed by AKS, which allows no other subnet than %s for nodes", own.vnet, own.subnet)}
	}
	return nil
}

// network reads the resources that a NIC refers to and caches them.
type network struct {
	p *Provider

	reading readings // by what is read

	mu    sync.Mutex
	pools memo[backends]          // backend pools of load balancers
	nsg   memo[string]            // network security group of the agent pools
	guids map[string]memo[string] // GUIDs of virtual networks, by lower-case group/name
	// dual is whether subnets have IPv6 ranges too, by lower-case network/subnet.
	dual map[string]memo[bool]
	// denied is why virtual machines could not join a subnet, by lower-case network/subnet.
	denied map[string]memo[string]
}

// memo is a value with the time it was read; a zero time means never.
type memo[T any] struct {
	value T
	read  time.Time
}

// How long facts about the network are cached. A resource that was deleted is noticed at once by
// the launch that refers to it; see forget.
const (
	poolsTTL = 2 * time.Hour
	nsgTTL   = 12 * time.Hour
	guidTTL  = 12 * time.Hour
	// deniedTTL is how long a node class waits for a missing role before it is tried again.
	deniedTTL = 5 * time.Minute
	// longestLook is the timeout of a read of the network, retries included.
	longestLook = 30 * time.Second
	// againAfter is how soon a read that failed or was empty is repeated.
	againAfter = time.Minute
)

// dueIn returns the read time of a memo that expires after d.
func dueIn(d time.Duration, now time.Time, ttl time.Duration) time.Time { return now.Add(d - ttl) }

// joinAction is the permission to join virtual machines to a subnet.
const joinAction = "Microsoft.Network/virtualNetworks/subnets/join/action"

// deny records that a virtual machine was refused because karve may not join its subnet, which
// checking beforehand does not always find: see checkJoin.
func (n *network) deny(s subnetID, r refusal) {
	if r.kind != denied || !strings.Contains(strings.ToLower(r.advice), strings.ToLower(joinAction)) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.denied[addressBudget(s)] = memo[string]{r.advice, n.p.opts.Now()}
}

// joinDenied returns why virtual machines may not join, if that was recorded recently.
func (n *network) joinDenied(s subnetID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.denied[addressBudget(s)]
	if known.read.IsZero() || n.p.opts.Now().Sub(known.read) >= deniedTTL {
		return ""
	}
	return known.value
}

// remembered returns a cached value, or reads it again when it has expired. Concurrent callers
// share one read: the first of a thousand launches come together. When the read fails, the
// cached value stays and is read again after a minute: Azure reports it when a virtual machine
// refers to a deleted resource. A slow read blocks no caller for longer than Options.Patience:
// remembered then returns the cached value, or an error, after which the launch is retried.
func remembered[T any](ctx context.Context, n *network, what string, get func() memo[T], put func(memo[T]), ttl time.Duration, read func(context.Context) (T, error)) (T, error) {
	n.mu.Lock()
	known := get()
	n.mu.Unlock()
	now := n.p.opts.Now()
	if !known.read.IsZero() && now.Sub(known.read) < ttl {
		return known.value, nil
	}
	brief, stop := context.WithTimeout(ctx, n.p.opts.Patience)
	defer stop()
	value, err := together(brief, &n.reading, what, func(ctx context.Context) (T, error) {
		ctx, stop := context.WithTimeout(ctx, longestLook)
		defer stop()
		value, err := read(ctx)
		n.mu.Lock()
		defer n.mu.Unlock()
		switch known := get(); {
		case err == nil:
			put(memo[T]{value, now})
		case known.read.IsZero():
			return value, err
		default:
			put(memo[T]{known.value, dueIn(againAfter, now, ttl)})
		}
		return get().value, nil
	})
	switch {
	case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
		return value, err
	case !known.read.IsZero():
		return known.value, nil
	}
	return value, fmt.Errorf("reading %s: no answer for %v: %w", what, n.p.opts.Patience, err) // passes by itself
}

// backends are the IDs of the load balancer pools that nodes join with their IPv4 and IPv6
// address.
type backends struct{ four, six []string }

func (b backends) none() bool { return len(b.four)+len(b.six) == 0 }

func (n *network) backendPools(ctx context.Context) (backends, error) {
	return remembered(ctx, n, "pools", func() memo[backends] { return n.pools }, n.notePools, poolsTTL, n.readPools)
}

// notePools caches the pools. An empty result is cached for a minute, and ignored if there were
// pools before: virtual machines without them may have no outbound connection, and never join
// the cluster. Azure refuses deleted pools by name; see forget.
func (n *network) notePools(m memo[backends]) {
	if m.value.none() {
		m = memo[backends]{n.pools.value, dueIn(againAfter, n.p.opts.Now(), poolsTTL)}
	}
	n.pools = m
}

// forget makes the next launch read again everything that a virtual machine refers to: Azure
// names what it does not find only in the text of the error.
func (n *network) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pools, n.nsg = memo[backends]{}, memo[string]{}
	clear(n.guids)
	clear(n.dual)
}

func (n *network) readPools(ctx context.Context) (backends, error) {
	var b backends
	client, o := n.p.clients.arm, &n.p.opts
	list, odd, err := listed[armnetwork.LoadBalancer](ctx, client, &n.p.decoder, balancerShelf.link(client, o.SubscriptionID, o.NodeResourceGroup, ""))
	if err != nil {
		return b, wrap(err, "listing load balancers")
	}
	for _, row := range odd {
		if name := nameIn(row); n.p.balances(name) {
			return b, fmt.Errorf("listing load balancers: %s cannot be read", name)
		}
	}
	for _, lb := range list {
		if n.p.balances(armtext.Of(lb.Name)) {
			b.add(lb)
		}
	}
	slices.Sort(b.four)
	slices.Sort(b.six)
	return b, nil
}

// balances reports whether nodes join the load balancer of that name.
func (p *Provider) balances(name string) bool {
	return slices.ContainsFunc(p.opts.LoadBalancers, func(ours string) bool { return strings.EqualFold(ours, name) })
}

// add adds the pools whose members are NICs. Pools of IP addresses are not joined through NICs.
func (b *backends) add(lb *armnetwork.LoadBalancer) {
	if lb.Properties == nil {
		return
	}
	for _, pool := range lb.Properties.BackendAddressPools {
		if pool == nil || armtext.Of(pool.ID) == "" || byAddress(pool) {
			continue
		}
		if strings.HasSuffix(strings.ToLower(armtext.Of(pool.Name)), "-ipv6") {
			b.six = append(b.six, armtext.Of(pool.ID))
			continue
		}
		b.four = append(b.four, armtext.Of(pool.ID))
	}
}

func byAddress(pool *armnetwork.BackendAddressPool) bool {
	if pool.Properties == nil {
		return false
	}
	for _, a := range pool.Properties.LoadBalancerBackendAddresses {
		if a != nil && a.Properties != nil && armtext.Of(a.Properties.IPAddress) != "" {
			return true
		}
	}
	return false
}

// dualStack reports whether a node gets an IPv6 address too: it does where its subnet has an
// IPv6 range, unless its pods get addresses from the subnet as well, which Azure's plugin
// supports for IPv4 only.
func (n *network) dualStack(ctx context.Context, s subnetID) (bool, error) {
	if n.p.opts.NetworkPlugin == pluginAzure && n.p.opts.NetworkPluginMode != modeOverlay {
		return false, nil
	}
	key := addressBudget(s)
	return remembered(ctx, n, "families of "+key, func() memo[bool] { return n.dual[key] }, func(m memo[bool]) { n.dual[key] = m }, guidTTL,
		func(ctx context.Context) (bool, error) {
			resp, err := n.p.clients.subnets.Get(ctx, s.group, s.vnet, s.subnet, nil)
			if err != nil {
				return false, wrap(err, "reading subnet %s", s.subnet)
			}
			return hasSix(resp.Properties), nil
		})
}

// noteRanges caches the address families of a subnet that was read, so that launches need not
// read it.
func (n *network) noteRanges(s subnetID, properties *armnetwork.SubnetPropertiesFormat) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dual[addressBudget(s)] = memo[bool]{hasSix(properties), n.p.opts.Now()}
}

// securityGroup returns the group that a NIC must refer to: none in a network that AKS manages,
// where the subnet refers to it; elsewhere Options.SecurityGroupID or the group of the agent
// pools.
func (n *network) securityGroup(ctx context.Context, subnet subnetID) (string, error) {
	if subnet.managed(n.p.opts.NodeResourceGroup) {
		return "", nil
	}
	if id := n.p.opts.SecurityGroupID; id != "" {
		return id, nil
	}
	return remembered(ctx, n, "groups", func() memo[string] { return n.nsg }, func(m memo[string]) { n.nsg = m }, nsgTTL,
		n.readNSG)
}

func (n *network) readNSG(ctx context.Context) (string, error) {
	var found []string
	pager := n.p.clients.securityGroups.NewListPager(n.p.opts.NodeResourceGroup, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return "", wrap(err, "listing network security groups")
		}
		for _, g := range page.Value {
			if g != nil && agentNSG.MatchString(armtext.Of(g.Name)) {
				found = append(found, armtext.Of(g.ID))
			}
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("found %d network security groups named aks-agentpool-<digits>-nsg in %s, want one: name the group with --node-security-group-id", len(found), n.p.opts.NodeResourceGroup)
	}
	return found[0], nil
}

// vnetGUID returns the GUID by which the overlay identifies the virtual network.
func (n *network) vnetGUID(ctx context.Context, subnet subnetID) (string, error) {
	if n.p.opts.VNetGUID != "" && subnet.sameVNet(n.p.own) {
		return n.p.opts.VNetGUID, nil
	}
	key := strings.ToLower(subnet.group + "/" + subnet.vnet)
	return remembered(ctx, n, "network "+key, func() memo[string] { return n.guids[key] }, func(m memo[string]) { n.guids[key] = m }, guidTTL,
		func(ctx context.Context) (string, error) {
			resp, err := n.p.clients.vnets.Get(ctx, subnet.group, subnet.vnet, nil)
			if err != nil {
				return "", wrap(err, "reading virtual network %s", subnet.vnet)
			}
			if resp.Properties == nil {
				return "", nil
			}
			return armtext.Of(resp.Properties.ResourceGUID), nil
		})
}
