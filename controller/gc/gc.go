// SPDX-License-Identifier: Apache-2.0

// Package gc finds what no other controller looks for: instances without a NodeClaim, which cost
// money for ever, and NodeClaims without an instance, which promise capacity that does not exist.
//
// It deletes nothing because of an implausible list. An error, or a list that lacks more of the
// claims' instances than accidents explain, halts both directions until it is resolved. If more
// instances lack a claim than accidents explain, these instances are kept. The zero Collector is
// not usable; fields are required unless their comment says otherwise.
package gc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/control"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// Collector compares NodeClaims and instances.
type Collector struct {
	Client client.Client
	// Live reads past the cache: an instance counts as an orphan only if the API confirms it.
	Live     client.Reader
	Provider provider.Provider
	Events   *events.Recorder
	Metrics  *metrics.Set
	Log      logr.Logger
	// LeftoverCollector deletes resources that instances left behind; nil when the provider's
	// instances leave none.
	LeftoverCollector provider.LeftoverCollector
	// UnreadableLister reports which entries of the lists could not be read; nil when all can be
	// read.
	UnreadableLister provider.UnreadableLister
	// Recognizer distinguishes the cloud's provider IDs from others; nil when all count as the
	// cloud's own.
	Recognizer provider.Recognizer
	// NodeClassKind is the kind of node class that this installation serves.
	NodeClassKind schema.GroupKind
	// Pause says whether an operator has paused voluntary disruption, such as the drain of a node
	// without a NodeClaim; nil when none can.
	Pause *control.Pause
	// Every is the pause between rounds; zero means 30 s.
	Every time.Duration
	// Grace is how old an instance must be to count as an orphan: its claim may not be in the
	// cache yet. Zero means one minute.
	Grace time.Duration

	resourcesCollected time.Time                    // last time
	unreadable         map[provider.Unreadable]bool // entries that were reported already
	// incompleteSince is since when the cloud's list seems incomplete; zero while it does not.
	incompleteSince time.Time
	// claimsLostSince is since when NodeClaims seem to be lost; zero while they do not.
	claimsLostSince time.Time

	// Instances by their provider IDs, in lower case.
	ownedBefore   map[string]bool      // had a claim or a Node in the last round
	orphanedSince map[string]time.Time // since when instances that run pods have no claim
	confirmed     map[string]bool      // a user confirmed that they may be terminated
}

// Start collects at once, since a crash may have left something behind, and then after every
// pause until the context ends.
func (c *Collector) Start(ctx context.Context) error {
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "garbage collection failed in part")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(orElse(c.Every, 30*time.Second)):
		}
	}
}

// Collect does one round.
func (c *Collector) Collect(ctx context.Context) error {
	instances, err := c.Provider.List(ctx)
	if err != nil {
		c.setHalted(true)
		return fmt.Errorf("listing instances: %w", err)
	}
	c.reportUnreadable(ctx)
	claims, err := c.claims(ctx) // listed after the instances: each instance is younger than its claim
	if err != nil {
		return err
	}
	own, foreign := c.splitForeign(claims)
	reportErr := c.reportForeign(ctx, foreign)
	missing, known := compare(own, instances)
	if err := c.checkList(ctx, missing, known, len(instances)); err != nil {
		return errors.Join(reportErr, err)
	}
	lost, _ := compare(foreign, nil)
	return errors.Join(reportErr, c.removeClaims(ctx, append(missing, lost...)), c.removeOrphans(ctx, instances, claims))
}

// resourcesEvery is the pause between searches for resources without an instance. Deleting an
// instance deletes its resources, so a search finds something only after an accident.
const resourcesEvery = 5 * time.Minute

// collectResources deletes resources that instances left behind.
func (c *Collector) collectResources(ctx context.Context, claims []*karpv1.NodeClaim) error {
	if c.LeftoverCollector == nil || time.Since(c.resourcesCollected) < resourcesEvery {
		return nil
	}
	c.resourcesCollected = time.Now()
	liveUIDs, liveNames := uids(claims), names(claims)
	names, err := c.LeftoverCollector.CollectLeftovers(ctx, func(name, uid string) bool { return liveUIDs[uid] || uid == "" && liveNames[name] })
	for _, name := range names {
		c.Log.Info("garbage collecting a resource without its instance", "resource", name)
	}
	if err != nil {
		return fmt.Errorf("deleting resources without their instance: %w", err)
	}
	return nil
}

func uids(claims []*karpv1.NodeClaim) map[string]bool {
	set := make(map[string]bool, len(claims))
	for _, claim := range claims {
		set[string(claim.UID)] = true
	}
	return set
}

func names(claims []*karpv1.NodeClaim) map[string]bool {
	set := make(map[string]bool, len(claims))
	for _, claim := range claims {
		set[claim.Name] = true
	}
	return set
}

// providerIDs is a set of provider IDs in lower case.
func providerIDs(claims []*karpv1.NodeClaim) map[string]bool {
	set := make(map[string]bool, len(claims))
	for _, claim := range claims {
		if claim.Status.ProviderID != "" {
			set[strings.ToLower(claim.Status.ProviderID)] = true
		}
	}
	return set
}

// setHalted sets the metric of halted collections.
func (c *Collector) setHalted(on bool) {
	if on {
		c.Metrics.GCHalted.Set(1)
		return
	}
	c.Metrics.GCHalted.Set(0)
}

func (c *Collector) claims(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing nodeclaims: %w", err)
	}
	claims := make([]*karpv1.NodeClaim, 0, len(list.Items))
	for i := range list.Items {
		if kube.OfKind(list.Items[i].Spec.NodeClassRef, c.NodeClassKind) {
			claims = append(claims, &list.Items[i])
		}
	}
	return claims, nil
}

// compare returns the claims whose instance the cloud does not list, and how many claims should
// have one.
func compare(claims []*karpv1.NodeClaim, instances []provider.Instance) (missing []*karpv1.NodeClaim, known int) {
	listed := make(map[string]bool, len(instances))
	for _, m := range instances {
		// Clouds ignore case, and the claim may have another case.
		listed[strings.ToLower(m.ProviderID)] = true
	}
	for _, claim := range claims {
		if claim.DeletionTimestamp != nil || !kube.ConditionTrue(claim, karpv1.ConditionTypeLaunched) {
			continue
		}
		known++
		if !listed[strings.ToLower(claim.Status.ProviderID)] {
			missing = append(missing, claim)
		}
	}
	return missing, known
}

// removeClaims deletes claims whose instance is certainly gone: not listed, not found, and none
// of its Nodes is ready.
func (c *Collector) removeClaims(ctx context.Context, missing []*karpv1.NodeClaim) error {
	var errs []error
	for _, claim := range missing {
		gone, err := c.instanceGone(ctx, claim)
		if err != nil || !gone {
			errs = append(errs, err)
			continue
		}
		if err := c.markInterrupted(ctx, claim); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := c.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting nodeclaim %s, whose instance is gone: %w", claim.Name, err))
			continue
		}
		c.Metrics.Disrupted(claim, "garbage_collected")
		c.Log.Info("garbage collecting nodeclaim with no cloudprovider representation", "nodeclaim", claim.Name, "provider-id", claim.Status.ProviderID)
	}
	return errors.Join(errs...)
}

// markInterrupted marks the claim as interrupted before it is deleted, so that capacity for its
// pods is launched first.
func (c *Collector) markInterrupted(ctx context.Context, claim *karpv1.NodeClaim) error {
	stored := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[kube.InterruptedAnnotation] = "Lost"
	if err := c.Client.Patch(ctx, claim, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("noting on nodeclaim %s that its instance is gone: %w", claim.Name, err)
	}
	return nil
}

// instanceGone reports whether the cloud has no such instance, and no kubelet of it reports.
func (c *Collector) instanceGone(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	_, err := c.Provider.Get(ctx, claim.Status.ProviderID)
	if err == nil {
		return false, nil
	}
	if !errors.Is(err, provider.ErrNotFound) {
		return false, fmt.Errorf("reading the instance of nodeclaim %s: %w", claim.Name, err)
	}
	nodes, err := lookup.NodesOf(ctx, c.Client, claim)
	if err != nil {
		return false, err
	}
	for i := range nodes {
		if kube.Ready(&nodes[i]) {
			return false, nil // its kubelet reports
		}
	}
	return true, nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
