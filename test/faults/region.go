// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/test/scarcity"
)

const className = "fault"

// newRun makes a region with enough of everything, at Azure's own pace and limits, with
// resources of others in it, and a provider that creates VMs there.
func newRun(ctx context.Context, o Options) (*run, error) {
	t := &run{options: o, noneNeeded: make(chan struct{}), claims: newClaims()}
	guest := &nodes{claims: t.claims}
	var err error
	t.region, err = azureemulator.New(ctx, azureemulator.Options{
		TimeScale: 1, Throttle: true, Seed: o.Seed, SubnetPrefix: "10.0.0.0/16",
		DefaultFamilyCores: 100_000, RegionalCores: 100_000, LowPriorityCores: 100_000,
		Sizes: sizes(), Guest: guest,
	})
	if err != nil {
		return nil, err
	}
	credential, err := t.region.FederatedCredential()
	if err != nil {
		return nil, err
	}
	guest.region, t.others = t.region, newOthers(t.region)
	if err := t.others.create(ctx); err != nil {
		return nil, fmt.Errorf("creating what others have there: %w", err)
	}
	subnet, err := t.subnet()
	if err != nil {
		return nil, fmt.Errorf("making its network: %w", err)
	}
	authority, err := scarcity.Authority()
	if err != nil {
		return nil, err
	}
	options := t.region.ClientOptions()
	t.transport = newTransport(options.Transport, t.others)
	options.Transport = t.transport
	version := "1.36.3"
	class := &v1beta1.AKSNodeClass{Status: v1beta1.AKSNodeClassStatus{KubernetesVersion: &version}}
	class.Name = className
	p, err := azure.New(ctx, azure.Options{
		AKSMachines: t.pool(),
		Credential:  &slowCredential{credential, make(chan struct{}, 1)}, ClientOptions: options,
		SubscriptionID: t.region.SubscriptionID(), Location: t.region.Location(), ClusterName: clusterName,
		ClusterEndpoint: "https://karve.example:443", CABundle: authority,
		NodeResourceGroup: t.region.NodeResourceGroup(), VNetSubnetID: subnet,
		SSHPublicKey: "ssh-ed25519 AAAA fault", PricesURL: t.region.URL() + "/api/retail/prices", ARMShare: 1,
		BootstrapToken: func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes:        azure.ClassesFunc(func(context.Context, string) (*v1beta1.AKSNodeClass, error) { return class, nil }),
	})
	if err != nil {
		return nil, err
	}
	t.catalog = &catalog{provider: p}
	t.controllers = &controllers{claims: t.claims, catalog: t.catalog, seed: o.Seed, dismissed: t.noneNeeded}
	t.collector = &collector{claims: t.claims, catalog: t.catalog}
	return t, nil
}

// pool is where AKS creates VMs, in batches; none where Compute does.
func (t *run) pool() azure.AKSMachines {
	if !t.options.AKS {
		return azure.AKSMachines{}
	}
	return azure.AKSMachines{
		Pool: t.region.MachinesPool(), ResourceGroup: t.region.ClusterResourceGroup(), CreateNodes: true,
		Batching: azure.Batching{Idle: time.Second, MaxWait: 5 * time.Second, Size: azure.MostInBatch},
	}
}

// subnet is where VMs go: AKS's own, but for two faults. Only who is in another network
// looks for a security group, and addresses that linger are missed where there are few more
// than VMs.
func (t *run) subnet() (id string, err error) {
	prefix := 16
	if slices.Contains(t.options.Faults, addressesLinger) {
		const azures = 5 // addresses of each subnet
		prefix = 32 - bits.Len(uint(t.options.VMs+azures))
	} else if !slices.Contains(t.options.Faults, "NoSecurityGroups") {
		return t.region.SubnetID(), nil
	}
	return t.region.Network.AddSubnet("network", "network", "nodes", fmt.Sprintf("10.1.0.0/%d", prefix))
}

const addressesLinger = "AddressesLinger"

const clusterName = "karve"

// sizes are what the region offers.
func sizes() []string {
	return []string{"Standard_D4s_v5", "Standard_D4as_v5", "Standard_D4ds_v5", "Standard_D4ads_v5", "Standard_D8s_v5", "Standard_E4s_v5"}
}

// cheapest is the size that is launched before all others.
const cheapest = "Standard_D4as_v5"

// slowCredential lets one at a time ask for a token. The SDK does so too, with a mutex, and time
// stands still in a bubble while a goroutine waits for one.
type slowCredential struct {
	azcore.TokenCredential
	gate chan struct{}
}

// GetToken waits for its turn.
func (c *slowCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	select {
	case c.gate <- struct{}{}:
	case <-ctx.Done():
		return azcore.AccessToken{}, ctx.Err()
	}
	defer func() { <-c.gate }()
	return c.TokenCredential.GetToken(ctx, o)
}

// makeScarce has the cheapest size out of stock in one zone, whatever else happens, so that
// there are always some launches that fail late.
func (t *run) makeScarce() {
	if err := t.region.Capacity.AddStockout(azureemulator.Stockout{Size: cheapest, Zone: "1"}); err != nil {
		panic(err) // only a mode or a pattern can be wrong, and there is none
	}
}
