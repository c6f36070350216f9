// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// OfSubnet returns the quota name of a subnet's free addresses. Nodes of a cluster are in
// one virtual network, so the names of the network and the subnet are enough.
func OfSubnet(s network.SubnetID) string {
	return offering.AddressQuota + s.Key()
}

// subnetAddresses tracks the free addresses of a subnet: the last reading, and what was reserved
// or freed since.
type subnetAddresses struct {
	subnet network.SubnetID
	source *cached.Source[Usages] // the quota of this subnet only
	ledger *usageLedger
	usedAt time.Time // last use; guarded by subnets.mu
}

// subnets holds the subnets by subnet ID in lower case.
type subnets struct {
	cached.Env
	// read returns how many addresses a subnet has, and how many are in use.
	read func(context.Context, network.SubnetID) (size, used int64, err error)

	mu   sync.Mutex
	byID map[string]*subnetAddresses
}

// of returns the free addresses of a subnet; nil when the ID is malformed.
func (b *subnets) of(id string) *subnetAddresses {
	id = strings.ToLower(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if addresses, known := b.byID[id]; known {
		addresses.usedAt = b.Now()
		return addresses
	}
	subnet, err := network.ParseSubnetID(id)
	if err != nil {
		return nil
	}
	addresses := &subnetAddresses{subnet: subnet, ledger: newLedger(), usedAt: b.Now()}
	addresses.source = &cached.Source[Usages]{
		Name: "addresses of subnet " + subnet.Name, Env: b.Env,
		Load: func(ctx context.Context) (Usages, error) {
			size, used, err := b.read(ctx, subnet)
			return Usages{OfSubnet(subnet): {Limit: size, used: used}}, err
		},
		Same: Usages.sameLimits,
	}
	b.byID[id] = addresses
	return addresses
}

func (b *subnets) all() []*subnetAddresses {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*subnetAddresses
	for _, id := range slices.Sorted(maps.Keys(b.byID)) {
		all = append(all, b.byID[id])
	}
	return all
}

// left returns what remains of the subnet; nil while that is not known.
func (b *subnetAddresses) left() map[string]int64 {
	if b == nil {
		return nil
	}
	known := b.source.State()
	return b.ledger.left([]string{OfSubnet(b.subnet)}, known.Value, known.ReadAt)
}

// problem describes why the subnet could not be read; empty when it could.
func (b *subnetAddresses) problem() string {
	if b == nil {
		return ""
	}
	known := b.source.State()
	if known.Problem != "" && known.Version == 0 {
		return known.Problem + ": nodes are launched without regard to the addresses left"
	}
	return known.Problem
}

// subnetTrackedFor is how long a subnet is tracked that no node class uses any more.
const subnetTrackedFor = time.Hour

// dropUnused stops tracking subnets that no node class uses: Azure has counted their launches
// since.
func (b *subnets) dropUnused(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.byID, func(_ string, addresses *subnetAddresses) bool {
		over := now.Sub(addresses.usedAt) > subnetTrackedFor
		if over {
			addresses.source.Stop()
		}
		return over
	})
}
