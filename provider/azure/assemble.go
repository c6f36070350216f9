// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"time"

	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/ctxlock"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// An assembly holds the parts that others are made from, while New runs.
type assembly struct {
	opts     *Options
	conn     *connection
	limiter  rateLimiter
	subnets  nodeSubnets
	region   regionName
	ids      providerIDs
	owner    ownership
	classes  classReader
	sources  *sources
	memory   *observedMemory
	inFlight *inFlights
	claims   *ctxlock.ByName
	failures *failures
	catalogs *catalogCache
	pool     *aksPool
	lists    resourceLists
	backends *backends
}

// assemble makes a provider from its parts, each of which gets what it needs.
func assemble(o *Options) (*Provider, error) {
	a, err := newAssembly(o)
	if err != nil {
		return nil, err
	}
	instances, leftovers, probes, reclaims := a.instances(), a.leftovers(), stock.NewProbes(o.Now), stock.NewSpotReclaims(o.Now)
	terminator := &terminator{
		claims: a.claims, vms: a.lists.vms, backends: a.backends, ids: a.ids, owner: a.owner, inFlight: a.inFlight, limiter: a.limiter,
		leftovers: leftovers, quota: a.sources.quota, instances: instances, failures: a.failures, now: o.Now,
	}
	creator := &vmCreator{
		catalogs: a.catalogs, quota: a.sources.quota, probes: probes, reclaims: reclaims, failures: a.failures, images: a.sources.images,
		inFlight: a.inFlight, limiter: a.limiter, ids: a.ids, now: o.Now, log: o.Log,
	}
	progress := &launchProgress{
		conn: a.conn, instances: instances, inFlight: a.inFlight, probes: probes, failures: a.failures, terminator: terminator,
		limiter: a.limiter, region: a.region, now: o.Now, log: o.Log,
	}
	return &Provider{
		limits: a.conn.limits, cni: o.cni(), ids: a.ids, sources: a.sources, network: a.sources.network, images: a.sources.images,
		prices: a.sources.prices, memory: a.memory, failures: a.failures, reclaims: reclaims, catalogs: a.catalogs, cleanup: a.cleanup(),
		lists: a.lists, instances: instances, launcher: a.launcher(creator, progress), terminator: terminator, leftovers: leftovers,
		updater: a.updater(), drift: a.drift(), encryption: a.encryption(),
	}, nil
}

func newAssembly(o *Options) (*assembly, error) {
	a := &assembly{
		opts: o, region: regionName(o.Location), ids: newProviderIDs(o.SubscriptionID, o.NodeResourceGroup),
		owner:   ownership{cluster: o.ClusterName, clusterUID: o.ClusterUID, additional: o.AdditionalTags},
		classes: classReader{o.Classes}, inFlight: newInFlights(o.Now), claims: ctxlock.NewByName(),
	}
	var err error
	if a.subnets, err = newNodeSubnets(o.VNetSubnetID); err != nil {
		return nil, err
	}
	if a.conn, err = connect(o); err != nil {
		return nil, err
	}
	a.limiter = rateLimiter{a.conn.limits}
	if a.sources, err = newSources(o, a.conn, a.subnets.own); err != nil {
		return nil, err
	}
	a.memory = newObservedMemory(o, a.sources.skus)
	a.failures = &failures{
		unavailable: stock.NewUnavailableOfferings(o.Now), policies: stock.NewPolicies(), images: a.sources.images, network: a.sources.network,
		skus: a.sources.skus, region: a.region, now: o.Now, log: o.Log,
	}
	a.catalogs = a.newCatalogs()
	if a.pool, err = newAKSPool(a.conn, o.ClusterName, o.AKSMachines); err != nil {
		return nil, err
	}
	a.lists = newResourceLists(a.conn, o.PollEvery, a.owner, a.pool)
	a.backends = a.newBackends()
	return a, nil
}

func (a *assembly) newCatalogs() *catalogCache {
	types := &typeBuilder{
		region: a.region, nodeGroup: a.opts.NodeResourceGroup, kubeletIdentity: a.opts.KubeletIdentityClientID, cni: a.opts.cni(), subnets: a.subnets,
		builtInPrices: a.sources.prices.vms.validator.BuiltIn, builtInDisks: a.sources.prices.disks.validator.BuiltIn,
		nodeFee: pricing.PerMonth(a.opts.NodeFeePerMonth), memory: a.memory,
	}
	return &catalogCache{
		now: a.opts.Now, nodeClasses: a.classes, types: types, memory: a.memory, region: a.region, skus: a.sources.skus,
		prices: a.sources.prices, quota: a.sources.quota, unavailable: a.failures.unavailable, byClass: map[string]*classCatalog{},
	}
}

func (a *assembly) newBackends() *backends {
	compute := &computeBackend{
		conn: a.conn, vms: a.conn.compute.NewVirtualMachinesClient(), network: a.sources.network, region: a.region,
		settings: requestSettings{
			opts: a.opts, subnets: a.subnets, region: a.region, owner: a.owner, network: a.sources.network, encoder: &bootstrap.Encoder{},
		},
		sharedToken: a.sources.sharedToken, inFlight: a.inFlight, limiter: a.limiter, now: a.opts.Now,
	}
	if a.pool == nil {
		return &backends{compute: compute, all: []backend{compute}}
	}
	aks := &aksBackend{
		pool: a.pool, vms: a.lists.vms, compute: compute, unavailable: a.failures.unavailable, inFlight: a.inFlight,
		subnets: a.subnets, region: a.region, owner: a.owner, now: a.opts.Now,
	}
	aks.batch(a.opts.AKSMachines.Batching, a.opts.Panics)
	all := []backend{compute, aks}
	if a.opts.AKSMachines.CreateNodes {
		all = []backend{aks, compute}
	}
	return &backends{compute: compute, aks: aks, pool: a.pool, all: all}
}

func (a *assembly) instances() *instanceReader {
	return &instanceReader{
		ids: a.ids, region: a.region, owner: a.owner, pool: a.pool, backends: a.backends, vms: a.lists.vms,
		classes: a.classes, catalogs: a.catalogs, skus: a.sources.skus, now: a.opts.Now,
	}
}

func (a *assembly) launcher(creator *vmCreator, progress *launchProgress) *launcher {
	finder := &vmFinder{vms: a.lists.vms, backends: a.backends, inFlight: a.inFlight, owner: a.owner, quota: a.sources.quota, now: a.opts.Now}
	return &launcher{
		claims: a.claims, classes: a.classes, catalogs: a.catalogs, subnets: a.subnets, vms: a.lists.vms,
		finder: finder, creator: creator, progress: progress, failures: a.failures,
	}
}

func (a *assembly) leftovers() *leftoverCollector {
	return &leftoverCollector{
		vms: a.lists.vms, nics: a.lists.nics, disks: a.lists.disks, limiter: a.limiter, group: a.opts.NodeResourceGroup,
		nicClient: a.conn.network.NewInterfacesClient(), diskClient: a.conn.compute.NewDisksClient(), now: a.opts.Now,
	}
}

func (a *assembly) updater() *updater {
	return &updater{
		owner: a.owner, identities: a.opts.NodeIdentities, ids: a.ids, classes: a.classes, backends: a.backends, pool: a.pool,
		vmList: a.lists.vms, nicList: a.lists.nics, limiter: a.limiter, group: a.opts.NodeResourceGroup,
		vms: a.conn.compute.NewVirtualMachinesClient(), nics: a.conn.network.NewInterfacesClient(), now: a.opts.Now,
	}
}

func (a *assembly) drift() *driftChecker {
	return &driftChecker{
		classes: a.classes, vms: a.lists.vms, backends: a.backends, ids: a.ids, owner: a.owner, region: a.region,
		kubeletIdentity: a.opts.KubeletIdentityClientID,
	}
}

func (a *assembly) encryption() *diskEncryption {
	return &diskEncryption{setID: a.opts.DiskEncryptionSetID, sets: a.conn.compute.NewDiskEncryptionSetsClient(), now: a.opts.Now}
}

func (a *assembly) cleanup() *cleanup {
	return &cleanup{now: a.opts.Now, remove: []func(time.Time){
		a.catalogs.removeUnused, a.sources.quota.DropUnused, a.failures.unavailable.DropExpired, a.failures.policies.DropExpired, a.sources.network.DropExpired, a.inFlight.removeOld,
	}}
}
