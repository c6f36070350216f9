// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"fmt"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// Provider launches AKS nodes. It is safe for concurrent use. Run keeps its lists of SKUs,
// prices and quota fresh. Each method asks the part that owns the subject.
type Provider struct {
	limits  *ratelimit.Buckets
	cni     network.CNI
	ids     providerIDs
	sources *sources
	network *network.Reader
	images  *image.Images
	prices  *priceList
	memory  *observedMemory

	failures *failures
	reclaims *stock.SpotReclaims
	catalogs *catalogCache
	cleanup  *cleanup

	lists      resourceLists
	instances  *instanceReader
	launcher   *launcher
	terminator *terminator
	leftovers  *leftoverCollector
	updater    *updater
	drift      *driftChecker
	encryption *diskEncryption
}

var (
	_ provider.Provider          = (*Provider)(nil)
	_ provider.CapacityObserver  = (*Provider)(nil)
	_ provider.DriftNotifier     = (*Provider)(nil)
	_ provider.Drifter           = (*Provider)(nil)
	_ provider.SpotObserver      = (*Provider)(nil)
	_ provider.FailureObserver   = (*Provider)(nil)
	_ provider.LeftoverCollector = (*Provider)(nil)
	_ provider.PriceReporter     = (*Provider)(nil)
	_ provider.Recognizer        = (*Provider)(nil)
	_ provider.Repairer          = (*Provider)(nil)
	_ provider.RequestReporter   = (*Provider)(nil)
	_ provider.UnreadableLister  = (*Provider)(nil)
	_ provider.Updater           = (*Provider)(nil)
)

// New checks the options and returns a provider. It sends no request to Azure.
func New(_ context.Context, opts Options) (*Provider, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	p, err := assemble(&opts)
	if err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	return p, nil
}

// Name returns the provider's name in metrics and logs.
func (p *Provider) Name() string { return "azure" }

// Run keeps SKUs, prices and quota fresh until ctx ends. It returns the error of ctx.
func (p *Provider) Run(ctx context.Context) error { return p.sources.run(ctx) }

// Catalog returns the instance types of a node class. The first call reads the region's SKUs,
// prices and quota; later calls answer from memory.
func (p *Provider) Catalog(ctx context.Context, class string) (*provider.Catalog, error) {
	c, err := p.catalogs.catalog(ctx, class)
	if err == nil {
		p.cleanup.run()
	}
	return c, err
}

// Launch advances the claim's node by one step: it creates a virtual machine if there is none,
// reports the state of an existing one, and deletes one that failed.
func (p *Provider) Launch(ctx context.Context, claim provider.Claim) (provider.Instance, error) {
	in, err := p.launcher.launch(ctx, claim)
	return in, withReason(err)
}

// Get reads one virtual machine, with its power state. One that exists without this cluster's
// tags is an error other than ErrNotFound.
func (p *Provider) Get(ctx context.Context, id string) (provider.Instance, error) {
	return p.instances.get(ctx, id)
}

// List returns every virtual machine of this cluster. The list has no power state, so a
// deallocated one looks running here; Get reads the power state.
func (p *Provider) List(ctx context.Context) ([]provider.Instance, error) {
	return p.instances.list(ctx)
}

// Unreadable returns the rows of the last lists that could not be decoded.
func (p *Provider) Unreadable() []provider.Unreadable { return p.lists.unreadable() }

// Recognizes reports whether a provider ID names any virtual machine of Azure, of this cluster
// or not.
func (p *Provider) Recognizes(id string) bool { return p.ids.recognizes(id) }

// Terminate deletes a node's virtual machine, one step per call: it deletes the virtual machine
// and, once that does not exist any more, an interface or disk that is left. ErrNotFound means
// that nothing is left.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	return p.terminator.terminate(ctx, id)
}

// TerminateByClaim deletes all resources of a claim.
func (p *Provider) TerminateByClaim(ctx context.Context, claim provider.Claim) error {
	return p.terminator.terminateByClaim(ctx, claim)
}

// Leftovers lists the interfaces and disks of this cluster whose virtual machine does not exist.
func (p *Provider) Leftovers(ctx context.Context) ([]Leftover, error) { return p.leftovers.list(ctx) }

// CollectLeftovers deletes the leftovers of claims that do not exist any more.
func (p *Provider) CollectLeftovers(ctx context.Context, claimed func(name, uid string) bool) ([]string, error) {
	return p.leftovers.collect(ctx, claimed)
}

// Update changes the tags and identities of a virtual machine, and the tags of its interface, to
// what the node class and the options say now.
func (p *Provider) Update(ctx context.Context, m provider.LaunchedNode) (provider.Update, error) {
	return p.updater.update(ctx, m)
}

// TagKeys returns the keys of all tags that the node class gives to virtual machines and, by its
// annotation, ever gave.
func (p *Provider) TagKeys(class *v1beta1.AKSNodeClass) []string { return p.updater.tagKeys(class) }

// Drift compares a node with the status of its AKSNodeClass; it sends no request to Azure.
// Status that is out of date for the class's spec causes no drift: the error is then a
// provider.NotReadyError, unless another check finds drift.
func (p *Provider) Drift(ctx context.Context, m provider.LaunchedNode) (provider.Drift, error) {
	return p.drift.check(ctx, m)
}

// DriftChanged returns the claims whose machine AKS has come to recreate, or no longer to
// recreate, and those whose VM size changed, since the last call. It returns each change once.
func (p *Provider) DriftChanged() []string { return p.drift.takeChanged() }

// RepairPolicies returns AKS's policies: a kubelet that is not ready, and the condition of the
// node's problem detector.
func (p *Provider) RepairPolicies() []provider.RepairPolicy { return repairPolicies() }

// ObserveCapacity records the memory of an instance type, as a node reports it.
func (p *Provider) ObserveCapacity(ctx context.Context, node provider.ObservedCapacity) error {
	return p.memory.observe(ctx, node)
}

// SpotReclaimed puts the offering last for ten minutes.
func (p *Provider) SpotReclaimed(c offering.Ref) {
	if c.CapacityType == offering.Spot {
		p.reclaims.Record(c)
	}
}

// NodeUnusable blocks the instance type for an hour, for that node class.
func (p *Provider) NodeUnusable(class string, c offering.Ref, lacks string) {
	p.failures.nodeUnusable(class, c, lacks)
}

// ClassPause says why no node of a node class is launched now, and what to do about it; the
// reason is empty when launches are allowed.
func (p *Provider) ClassPause(class string) (reason, detail string) {
	return p.failures.classPause(class)
}

// PolicyDenial describes the last refusal by a policy of the subscription for a node class, and
// what to do about it; empty when there is none, or a node was launched since.
func (p *Provider) PolicyDenial(class string) string { return p.failures.policyDenial(class) }

// Images returns one image of every definition that the node class can use, in the version it
// wants, preferred definitions first. Definitions without such a version are left out;
// ErrNoImages means that none is left.
func (p *Provider) Images(ctx context.Context, wish ImageSelection) ([]v1beta1.NodeImage, error) {
	return p.images.Pick(ctx, wish)
}

// CheckSubnet reports whether nodes can join the subnet of a node class: a *SubnetError when
// they cannot, another error when the check failed. An empty id means the cluster's own subnet,
// and maxPods zero AKS's default.
func (p *Provider) CheckSubnet(ctx context.Context, id string, maxPods int64) error {
	return p.network.CheckSubnet(ctx, id, maxPods)
}

// CheckDiskEncryptionSet reports whether karve may use the configured disk encryption set, with
// a *DiskEncryptionSetError when it may not. Without a set there is nothing to check.
func (p *Provider) CheckDiskEncryptionSet(ctx context.Context) error { return p.encryption.check(ctx) }

// WithoutLocalDNS describes why nodes of a node class do not run the DNS cache in mode
// Preferred, by versions and network settings; empty when they do.
func (p *Provider) WithoutLocalDNS(class *v1beta1.AKSNodeClass) string {
	return withoutLocalDNS(class, p.cni)
}

// RejectedPrices returns the prices of the last list that were not used, for sizes of the region
// that nodes can have and for disks, sorted by name.
func (p *Provider) RejectedPrices() []RejectedPrice { return p.prices.rejected() }

// PricesProblem describes why the price list could not be read; empty when it could.
func (p *Provider) PricesProblem() string { return p.prices.problem() }

// PricesUnlisted says that the price list was read and lacks the region; empty when the list has
// the region.
func (p *Provider) PricesUnlisted() string { return p.prices.unlisted() }

// PriceStats counts the VM sizes that have a price, and the rejected prices.
func (p *Provider) PriceStats() provider.PriceStats { return p.prices.stats() }

// RequestStats counts the requests to Azure since New.
func (p *Provider) RequestStats() provider.RequestStats { return p.limits.RequestStats() }
