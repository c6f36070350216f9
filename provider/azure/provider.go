// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/ctxlock"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
	"github.com/karve-dev/karve/provider/azure/internal/token"
	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// Provider launches AKS nodes. It is safe for concurrent use. Run keeps its lists of sizes,
// prices and quota fresh.
type Provider struct {
	opts    Options
	subnets nodeSubnets
	zones   zones
	ids     providerIDs
	owner   ownership
	tickets tickets
	clients clients
	decoder armlist.Decoder
	boots   bootstrap.Encoder
	limits  *ratelimit.Buckets
	// credential signs requests to ARM.
	credential *token.Renewal

	prices *priceList
	memory *seenMemory
	types  *typeBuilder
	quota  *quota.Tracker
	images *image.Images
	// auxiliary holds the tokens for images that another tenant shares.
	auxiliary *token.Shared
	// encryptable is the time at which the disk encryption set was last found usable.
	encryptable atomic.Pointer[time.Time]

	network     *network.Reader
	stockouts   *stock.Stockouts
	stockProbes *stock.Probes
	evictions   *stock.Evictions
	policies    *stock.Policies
	catalogs    *catalogs

	backends     []backend // the first creates new nodes
	aks          *byAKS    // nil unless Options.AKSMachines names a pool
	machines     *armlist.List[*machine]
	nics         *armlist.List[*nicRow]
	disks        *armlist.List[*diskRow]
	inFlight     inFlights
	orphans      *orphanCollector
	updater      *updater
	bootTimes    bootTimes
	driftNotices driftNotices
	claims       *ctxlock.ByName

	tidying sync.Mutex
	tidied  time.Time // see tidy; guarded by tidying
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Drifter  = (*Provider)(nil)
	_ provider.Repairer = (*Provider)(nil)

	_ provider.Recognizer = (*Provider)(nil)
)

// New checks the options and returns a provider. It sends no request to Azure.
func New(_ context.Context, opts Options) (*Provider, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	own, err := network.ParseSubnetID(opts.VNetSubnetID)
	if err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	p := &Provider{
		opts:        opts,
		stockouts:   stock.NewStockouts(opts.Now),
		stockProbes: stock.NewProbes(opts.Now),
		evictions:   stock.NewEvictions(opts.Now),
		policies:    stock.NewPolicies(),
		memory:      &seenMemory{bytes: map[string]int64{}, share: *opts.VMMemoryOverheadPercent},
		subnets:     nodeSubnets{own: own, id: opts.VNetSubnetID, key: strings.ToLower(opts.VNetSubnetID)},
		zones:       zones(opts.Location),
		ids:         newProviderIDs(opts.SubscriptionID, opts.NodeResourceGroup),
		owner:       ownership{cluster: opts.ClusterName, additional: opts.AdditionalTags},
		inFlight:    inFlights{byName: map[string]inFlight{}},
		claims:      ctxlock.NewByName(),
	}
	if err := p.connect(); err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	return p, nil
}

// Name returns the provider's name in metrics and logs.
func (p *Provider) Name() string { return "azure" }

// clients are the clients of the Azure SDK. All share one transport.
type clients struct {
	arm            *arm.Client // for resources without a client of their own
	vms            *armcompute.VirtualMachinesClient
	disks          *armcompute.DisksClient
	encryptionSets *armcompute.DiskEncryptionSetsClient
	nics           *armnetwork.InterfacesClient
}

func (p *Provider) connect() error {
	o := &p.opts
	p.limits = ratelimit.New(ratelimit.Options{Share: o.ARMShare, Pace: o.ARMPace, Now: o.Now})
	p.tickets = tickets{p.limits}
	p.credential = token.NewRenewal(o.Credential, o.Now)
	options := limited(o.ClientOptions, p.limits, p.credential)
	compute, err := armcompute.NewClientFactory(o.SubscriptionID, p.credential, options)
	if err != nil {
		return fmt.Errorf("making compute clients: %w", err)
	}
	net, err := armnetwork.NewClientFactory(o.SubscriptionID, p.credential, options)
	if err != nil {
		return fmt.Errorf("making network clients: %w", err)
	}
	plain, err := arm.NewClient("karve", "v1.0.0", p.credential, options)
	if err != nil {
		return fmt.Errorf("making the ARM client: %w", err)
	}
	p.clients = clients{
		arm:            plain,
		vms:            compute.NewVirtualMachinesClient(),
		disks:          compute.NewDisksClient(),
		encryptionSets: compute.NewDiskEncryptionSetsClient(),
		nics:           net.NewInterfacesClient(),
	}
	p.network = network.NewReader(o.network(p.subnets.own), network.Clients{
		ARM: plain, Decoder: &p.decoder, Subnets: net.NewSubnetsClient(), VNets: net.NewVirtualNetworksClient(), SecurityGroups: net.NewSecurityGroupsClient(),
	}, o.env())
	p.images = image.New(image.Config{
		ARM: plain, Decoder: &p.decoder, Subscription: o.SubscriptionID, Location: o.Location, Shared: o.SharedGallery, Every: o.ImagesEvery, Now: o.Now, Panics: o.Panics,
	})
	p.auxiliary = token.NewShared(o.SharedGallery.TokenURL, o.ClientOptions, o.env())
	judge, err := pricing.NewJudge(o.Location)
	if err != nil {
		return err
	}
	p.openSources(options.Transport, judge)
	if err := p.openBackends(); err != nil {
		return err
	}
	p.openSharedLists()
	return nil
}

// openBackends sets the backends. A backend that may have created nodes in the past is kept,
// because it also deletes them.
func (p *Provider) openBackends() (err error) {
	p.backends = []backend{byCompute{p}}
	if p.opts.AKSMachines.Pool == "" {
		return nil
	}
	if p.aks, err = newByAKS(p); err != nil {
		return err
	}
	p.backends = append(p.backends, p.aks)
	if p.opts.AKSMachines.CreateNodes {
		slices.Reverse(p.backends)
	}
	return nil
}

func (p *Provider) openSources(transport policy.Transporter, judge *pricing.Judge) {
	o := &p.opts
	if transport == nil {
		transport = &http.Client{}
	}
	sizes := &sku.Reader{ARM: p.clients.arm, Decoder: &p.decoder, Subscription: o.SubscriptionID, Location: o.Location, Log: o.Log}
	prices := &pricing.Reader{Transport: transport, URL: o.PricesURL, Location: o.Location, Now: o.Now, Judge: judge}
	usages := &quota.Reader{ARM: p.clients.arm, Decoder: &p.decoder, Subscription: o.SubscriptionID, Location: o.Location}
	p.prices = &priceList{judge: judge, source: &cached.Source[pricing.Table]{
		Name: "prices", Load: prices.Read, Same: func(a, b pricing.Table) bool { return maps.Equal(a, b) }, Env: o.env(),
		MaybeEmpty: func(t pricing.Table) bool { return len(t) == 0 },
	}}
	p.quota = quota.NewTracker(usages.Read, p.network.Addresses, o.env())
	p.types = &typeBuilder{
		zones: p.zones, nodeGroup: o.NodeResourceGroup, kubeletIdentity: o.KubeletIdentityClientID, cni: o.cni(), subnets: p.subnets,
		builtIn: judge.BuiltIn, memory: p.memory,
	}
	p.catalogs = &catalogs{
		now: o.Now, types: p.types, prices: p.prices, quota: p.quota, stockouts: p.stockouts, classes: map[string]*catalog{},
		skus: &cached.Source[sku.Set]{Name: "VM sizes", Load: sizes.Read, Same: func(a, b sku.Set) bool { return reflect.DeepEqual(a, b) }, Doubt: sku.Doubt, Env: o.env()},
	}
}

// Run keeps sizes, prices and quota fresh until ctx ends. It returns the error of ctx.
func (p *Provider) Run(ctx context.Context) error {
	var group panics.Group
	for _, keep := range []func(context.Context){
		p.catalogs.keepSizes,
		p.prices.keep,
		p.quota.KeepRegion,
		p.quota.KeepSubnets,
	} {
		group.Go(func() error {
			return p.opts.Panics.Loop(ctx, cached.PanicsName, func(ctx context.Context) error { keep(ctx); return nil })
		})
	}
	_ = group.Wait() // always nil
	p.stopAsking()
	return ctx.Err()
}

// stopAsking cancels the requests that no caller waits for.
func (p *Provider) stopAsking() {
	p.catalogs.stop()
	p.prices.stop()
	p.quota.Stop()
	p.auxiliary.Stop()
}
