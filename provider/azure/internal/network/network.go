// SPDX-License-Identifier: Apache-2.0

// Package network reads from Azure, and caches, the virtual network that nodes join: the subnets
// and their addresses, and the resources that a network interface refers to. Package quota counts
// the addresses that launches have reserved.
package network

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

// A Config says what network the cluster's nodes are in.
type Config struct {
	Subscription  string // of the nodes
	Group         string // node resource group
	ClusterSubnet SubnetID
	// VNetGUID is the GUID of the virtual network of ClusterSubnet; empty means that it is read.
	VNetGUID string
	// SecurityGroup is the ID of the network security group of nodes in networks that AKS does
	// not manage; empty means the one in Group that has the name AKS gives.
	SecurityGroup string
	// LoadBalancers are the names of the load balancers in Group that nodes join.
	LoadBalancers []string
	CNI           CNI
}

// Clients are the clients of the SDK for what a network interface refers to.
type Clients struct {
	ARM            *arm.Client
	Decoder        *armlist.Decoder
	Subnets        *armnetwork.SubnetsClient
	VNets          *armnetwork.VirtualNetworksClient
	SecurityGroups *armnetwork.SecurityGroupsClient
}

// How long facts about the network are cached. A launch that refers to a deleted resource notices
// that at once; see Reader.Clear.
const (
	poolsTTL = 2 * time.Hour
	nsgTTL   = 12 * time.Hour
	guidTTL  = 12 * time.Hour
	// DeniedTTL is how long a node class waits for a missing role before it is tried again.
	DeniedTTL = 5 * time.Minute
)

// A Reader reads the resources that a network interface refers to, and caches them.
type Reader struct {
	config  Config
	clients Clients
	now     func() time.Time

	pools  cached.Table[BackendPools] // of the load balancers
	groups cached.Table[string]       // network security group of the agent pools
	guids  cached.Table[string]       // of virtual networks, by lower-case group/name
	dual   cached.Table[bool]         // whether subnets have IPv6 ranges too, by SubnetID.Key

	mu sync.Mutex
	// denied is why virtual machines could not join a subnet, by SubnetID.Key.
	denied map[string]joinDenial
}

type joinDenial struct {
	advice string
	at     time.Time
}

func NewReader(config Config, clients Clients, e cached.Env) *Reader {
	return &Reader{
		config: config, clients: clients, now: e.Now,
		// An empty list of pools is ignored if there were some before: virtual machines without
		// them may have no outbound connection, and never join the cluster.
		pools:  cached.Table[BackendPools]{Name: "the load balancer pools", TTL: poolsTTL, Env: e, MaybeEmpty: BackendPools.none},
		groups: cached.Table[string]{Name: "the network security groups", TTL: nsgTTL, Env: e},
		guids:  cached.Table[string]{Name: "virtual network", TTL: guidTTL, Env: e},
		dual:   cached.Table[bool]{Name: "the address families of subnet", TTL: guidTTL, Env: e},
		denied: map[string]joinDenial{},
	}
}

// Clear makes the next launch read again everything that a virtual machine refers to: Azure
// names what it does not find only in the text of the error.
func (n *Reader) Clear() {
	n.pools.Clear()
	n.groups.Clear()
	n.guids.Clear()
	n.dual.Clear()
}

// DropExpired drops expired entries that were not read again: they are unused.
func (n *Reader) DropExpired(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.denied, func(_ string, known joinDenial) bool { return now.Sub(known.at) >= DeniedTTL })
	n.guids.DropOlder(now.Add(-2 * guidTTL))
	n.dual.DropOlder(now.Add(-2 * guidTTL))
}

// BackendPools are the IDs of the load balancer pools that nodes join with their IPv4 and IPv6
// address.
type BackendPools struct{ IPv4, IPv6 []string }

func (b BackendPools) none() bool { return len(b.IPv4)+len(b.IPv6) == 0 }

// loadBalancers has the API version of the SDK's client.
var loadBalancers = armlist.Resource{Kind: "load balancers", Provider: "Microsoft.Network/loadBalancers", Version: "2025-03-01"}

// BackendPools returns the pools that nodes join. Azure refuses deleted pools by name; see
// Clear.
func (n *Reader) BackendPools(ctx context.Context) (BackendPools, error) {
	return n.pools.Get(ctx, "", n.readPools)
}

func (n *Reader) readPools(ctx context.Context) (BackendPools, error) {
	var b BackendPools
	list, malformed, err := armlist.All[armnetwork.LoadBalancer](ctx, n.clients.ARM, n.clients.Decoder, loadBalancers.URL(n.clients.ARM, n.config.Subscription, n.config.Group, ""))
	if err != nil {
		return b, armerr.Wrap(err, "listing load balancers")
	}
	for _, row := range malformed {
		if name := armlist.NameIn(row); n.isConfigured(name) {
			return b, fmt.Errorf("listing load balancers: %s cannot be read", name)
		}
	}
	for _, lb := range list {
		if n.isConfigured(armtext.Of(lb.Name)) {
			b.add(lb)
		}
	}
	slices.Sort(b.IPv4)
	slices.Sort(b.IPv6)
	return b, nil
}

// isConfigured reports whether nodes join the load balancer of that name.
func (n *Reader) isConfigured(name string) bool {
	return slices.ContainsFunc(n.config.LoadBalancers, func(ours string) bool { return strings.EqualFold(ours, name) })
}

// add adds the pools whose members are NICs. Pools of IP addresses are not joined through NICs.
func (b *BackendPools) add(lb *armnetwork.LoadBalancer) {
	if lb.Properties == nil {
		return
	}
	for _, pool := range lb.Properties.BackendAddressPools {
		if pool == nil || armtext.Of(pool.ID) == "" || byAddress(pool) {
			continue
		}
		if strings.HasSuffix(strings.ToLower(armtext.Of(pool.Name)), "-ipv6") {
			b.IPv6 = append(b.IPv6, armtext.Of(pool.ID))
			continue
		}
		b.IPv4 = append(b.IPv4, armtext.Of(pool.ID))
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

// DualStack reports whether a node gets an IPv6 address too: it does where its subnet has an
// IPv6 range, unless its pods get addresses from the subnet as well, which Azure's plugin
// supports for IPv4 only.
func (n *Reader) DualStack(ctx context.Context, s SubnetID) (bool, error) {
	if n.config.CNI.PodsInSubnet() {
		return false, nil
	}
	return n.dual.Get(ctx, s.Key(), func(ctx context.Context) (bool, error) {
		resp, err := n.clients.Subnets.Get(ctx, s.Group, s.VNet, s.Name, nil)
		if err != nil {
			return false, armerr.Wrap(err, "reading subnet %s", s.Name)
		}
		return hasIPv6(resp.Properties), nil
	})
}

// Addresses reads how many addresses a subnet has and how many are in use.
func (n *Reader) Addresses(ctx context.Context, s SubnetID) (size, used int64, err error) {
	resp, err := n.clients.Subnets.Get(ctx, s.Group, s.VNet, s.Name, nil)
	if err != nil {
		return 0, 0, armerr.Wrap(err, "reading the subnet")
	}
	if size = addressesIn(resp.Properties); size == 0 {
		return 0, 0, errors.New("the answer of Azure has no range of it")
	}
	n.dual.Put(s.Key(), hasIPv6(resp.Properties)) // so that launches need not read it
	return size, usedAddresses(resp.Properties), nil
}

var agentNSG = regexp.MustCompile(`(?i)^aks-agentpool-\d{8}-nsg$`)

// SecurityGroup returns the group that an interface must refer to: none in a network that AKS
// manages, where the subnet refers to it; elsewhere the configured one, or the group of the agent
// pools.
func (n *Reader) SecurityGroup(ctx context.Context, subnet SubnetID) (string, error) {
	if subnet.Managed(n.config.Group) {
		return "", nil
	}
	if id := n.config.SecurityGroup; id != "" {
		return id, nil
	}
	return n.groups.Get(ctx, "", n.readNSG)
}

func (n *Reader) readNSG(ctx context.Context) (string, error) {
	var found []string
	pager := n.clients.SecurityGroups.NewListPager(n.config.Group, nil)
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
		return "", fmt.Errorf("found %d network security groups named aks-agentpool-<digits>-nsg in %s, want one: name the group with --node-security-group-id", len(found), n.config.Group)
	}
	return found[0], nil
}

// VNetGUID returns the GUID by which the overlay identifies the virtual network.
func (n *Reader) VNetGUID(ctx context.Context, subnet SubnetID) (string, error) {
	if n.config.VNetGUID != "" && subnet.sameVNet(n.config.ClusterSubnet) {
		return n.config.VNetGUID, nil
	}
	return n.guids.Get(ctx, strings.ToLower(subnet.Group+"/"+subnet.VNet), func(ctx context.Context) (string, error) {
		resp, err := n.clients.VNets.Get(ctx, subnet.Group, subnet.VNet, nil)
		if err != nil {
			return "", armerr.Wrap(err, "reading virtual network %s", subnet.VNet)
		}
		if resp.Properties == nil {
			return "", nil
		}
		return armtext.Of(resp.Properties.ResourceGUID), nil
	})
}
