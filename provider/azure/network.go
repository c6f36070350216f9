package azure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
)

// A networkConfig says what network the cluster's nodes are in.
type networkConfig struct {
	subscription string // of the nodes
	group        string // node resource group
	own          subnetID
	// vnetGUID is the GUID of the virtual network of own; empty means that it is read.
	vnetGUID string
	// securityGroup is the ID of the network security group of nodes in networks that AKS does
	// not manage; empty means the one in group that has the name AKS gives.
	securityGroup string
	// loadBalancers are the names of those in group that nodes join.
	loadBalancers []string
	cni           cni
}

// networkClients are the clients of the SDK for what a network interface refers to.
type networkClients struct {
	arm            *arm.Client
	decoder        *armlist.Decoder
	subnets        *armnetwork.SubnetsClient
	vnets          *armnetwork.VirtualNetworksClient
	securityGroups *armnetwork.SecurityGroupsClient
}

// How long facts about the network are cached. A resource that was deleted is noticed at once by
// the launch that refers to it; see forget.
const (
	poolsTTL = 2 * time.Hour
	nsgTTL   = 12 * time.Hour
	guidTTL  = 12 * time.Hour
	// deniedTTL is how long a node class waits for a missing role before it is tried again.
	deniedTTL = 5 * time.Minute
)

// A network reads the resources that a network interface refers to, and caches them.
type network struct {
	config  networkConfig
	clients networkClients
	now     func() time.Time

	pools  cached.Table[backendPools] // of the load balancers
	groups cached.Table[string]       // network security group of the agent pools
	guids  cached.Table[string]       // of virtual networks, by lower-case group/name
	dual   cached.Table[bool]         // whether subnets have IPv6 ranges too, by subnetID.key

	mu sync.Mutex
	// denied is why virtual machines could not join a subnet, by subnetID.key.
	denied map[string]joinDenial
}

type joinDenial struct {
	advice string
	at     time.Time
}

func newNetwork(config networkConfig, clients networkClients, e cached.Env) *network {
	return &network{
		config: config, clients: clients, now: e.Now,
		// An empty list of pools is ignored if there were some before: virtual machines without
		// them may have no outbound connection, and never join the cluster.
		pools:  cached.Table[backendPools]{Name: "the load balancer pools", TTL: poolsTTL, Env: e, MaybeEmpty: backendPools.none},
		groups: cached.Table[string]{Name: "the network security groups", TTL: nsgTTL, Env: e},
		guids:  cached.Table[string]{Name: "virtual network", TTL: guidTTL, Env: e},
		dual:   cached.Table[bool]{Name: "the address families of subnet", TTL: guidTTL, Env: e},
		denied: map[string]joinDenial{},
	}
}

// forget makes the next launch read again everything that a virtual machine refers to: Azure
// names what it does not find only in the text of the error.
func (n *network) forget() {
	n.pools.Forget()
	n.groups.Forget()
	n.guids.Forget()
	n.dual.Forget()
}

// tidy drops expired entries that were not read again: they are unused.
func (n *network) tidy(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.denied, func(_ string, known joinDenial) bool { return now.Sub(known.at) >= deniedTTL })
	n.guids.ForgetOlder(now.Add(-2 * guidTTL))
	n.dual.ForgetOlder(now.Add(-2 * guidTTL))
}

// backendPools are the IDs of the load balancer pools that nodes join with their IPv4 and IPv6
// address.
type backendPools struct{ four, six []string }

func (b backendPools) none() bool { return len(b.four)+len(b.six) == 0 }

// balancerShelf has the API version of the SDK's client.
var balancerShelf = armlist.Resource{What: "load balancers", Provider: "Microsoft.Network/loadBalancers", Version: "2025-03-01"}

// backendPools returns the pools that nodes join. Azure refuses deleted pools by name; see forget.
func (n *network) backendPools(ctx context.Context) (backendPools, error) {
	return n.pools.Get(ctx, "", n.readPools)
}

func (n *network) readPools(ctx context.Context) (backendPools, error) {
	var b backendPools
	list, odd, err := armlist.All[armnetwork.LoadBalancer](ctx, n.clients.arm, n.clients.decoder, balancerShelf.URL(n.clients.arm, n.config.subscription, n.config.group, ""))
	if err != nil {
		return b, armerr.Wrap(err, "listing load balancers")
	}
	for _, row := range odd {
		if name := armlist.NameIn(row); n.balances(name) {
			return b, fmt.Errorf("listing load balancers: %s cannot be read", name)
		}
	}
	for _, lb := range list {
		if n.balances(armtext.Of(lb.Name)) {
			b.add(lb)
		}
	}
	slices.Sort(b.four)
	slices.Sort(b.six)
	return b, nil
}

// balances reports whether nodes join the load balancer of that name.
func (n *network) balances(name string) bool {
	return slices.ContainsFunc(n.config.loadBalancers, func(ours string) bool { return strings.EqualFold(ours, name) })
}

// add adds the pools whose members are NICs. Pools of IP addresses are not joined through NICs.
func (b *backendPools) add(lb *armnetwork.LoadBalancer) {
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
	if n.config.cni.podsInSubnet() {
		return false, nil
	}
	return n.dual.Get(ctx, s.key(), func(ctx context.Context) (bool, error) {
		resp, err := n.clients.subnets.Get(ctx, s.group, s.vnet, s.subnet, nil)
		if err != nil {
			return false, armerr.Wrap(err, "reading subnet %s", s.subnet)
		}
		return hasSix(resp.Properties), nil
	})
}

// addresses reads how many addresses a subnet has and how many are in use.
func (n *network) addresses(ctx context.Context, s subnetID) (size, used int64, err error) {
	resp, err := n.clients.subnets.Get(ctx, s.group, s.vnet, s.subnet, nil)
	if err != nil {
		return 0, 0, armerr.Wrap(err, "reading the subnet")
	}
	if size = addressesIn(resp.Properties); size == 0 {
		return 0, 0, errors.New("the answer of Azure has no range of it")
	}
	n.dual.Put(s.key(), hasSix(resp.Properties)) // so that launches need not read it
	return size, taken(resp.Properties), nil
}

var agentNSG = regexp.MustCompile(`(?i)^aks-agentpool-\d{8}-nsg$`)

// securityGroup returns the group that an interface must refer to: none in a network that AKS
// manages, where the subnet refers to it; elsewhere the configured one, or the group of the agent
// pools.
func (n *network) securityGroup(ctx context.Context, subnet subnetID) (string, error) {
	if subnet.managed(n.config.group) {
		return "", nil
	}
	if id := n.config.securityGroup; id != "" {
		return id, nil
	}
	return n.groups.Get(ctx, "", n.readNSG)
}

func (n *network) readNSG(ctx context.Context) (string, error) {
	var found []string
	pager := n.clients.securityGroups.NewListPager(n.config.group, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return "", armerr.Wrap(err, "listing network security groups")
		}
		for _, g := range page.Value {
			if g != nil && agentNSG.MatchString(armtext.Of(g.Name)) {
				found = append(found, armtext.Of(g.ID))
			}
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("found %d network security groups named aks-agentpool-<digits>-nsg in %s, want one: name the group with --node-security-group-id", len(found), n.config.group)
	}
	return found[0], nil
}

// vnetGUID returns the GUID by which the overlay identifies the virtual network.
func (n *network) vnetGUID(ctx context.Context, subnet subnetID) (string, error) {
	if n.config.vnetGUID != "" && subnet.sameVNet(n.config.own) {
		return n.config.vnetGUID, nil
	}
	return n.guids.Get(ctx, strings.ToLower(subnet.group+"/"+subnet.vnet), func(ctx context.Context) (string, error) {
		resp, err := n.clients.vnets.Get(ctx, subnet.group, subnet.vnet, nil)
		if err != nil {
			return "", armerr.Wrap(err, "reading virtual network %s", subnet.vnet)
		}
		if resp.Properties == nil {
			return "", nil
		}
		return armtext.Of(resp.Properties.ResourceGUID), nil
	})
}
