// Package gc finds what nobody else looks for any more: machines without a claim,
// which cost money for ever, and claims without a machine, which promise room
// that does not exist.
//
// It refuses to act on a list it cannot trust. An error, or a list that lacks more
// of the machines that claims say exist than accidents take, halts both directions
// until it is explained. A list of claims that lacks those of more machines than
// accidents leave has the machines kept. The zero Collector is not usable; all fields are required
// but those that say so.
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

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// Collector compares claims and machines.
type Collector struct {
	Client client.Client
	// Live reads past the cache: a machine is nobody's only when the API says so now.
	Live     client.Reader
	Provider provider.Provider
	Events   *events.Recorder
	Metrics  *metrics.Set
	Log      logr.Logger
	// Tidier gives back what machines left behind; nil when the provider's machines
	// leave nothing.
	Tidier provider.OrphanCollector
	// Candid says what of the lists could not be read; nil when nothing ever is.
	Candid provider.UnreadableLister
	// Recognizer tells the cloud's provider IDs from others'; nil when all are taken for its own.
	Recognizer provider.Recognizer
	// Class is the kind of node class whose claims are ours.
	Class schema.GroupKind
	// Every is the pause between rounds; zero means 30 s.
	Every time.Duration
	// Grace is how old a machine must be to be nobody's: its claim may still be on
	// its way into the cache. Zero means one minute.
	Grace time.Duration

	tidied     time.Time                    // last
	doubted    time.Time                    // since when lists lack too much; zero when they do not
	unreadable map[provider.Unreadable]bool // told of

	// Machines are known by their provider IDs, in lower case.
	seen      map[string]bool      // with a claim or a Node, of those listed last
	busy      map[string]time.Time // since when machines that work have no claim
	confirmed map[string]bool      // a person said that they may go
	lostSince time.Time            // since when claims seem to be lost; zero when they do not
}

// Start collects at once, since a crash may have left something, and then again
// and again until the context ends.
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
	machines, err := c.Provider.List(ctx)
	if err != nil {
		c.halt(true)
		return fmt.Errorf("listing machines: %w", err)
	}
	c.tellUnreadable(ctx)
	claims, err := c.claims(ctx) // after the machines: each one's claim is older than itself
	if err != nil {
		return err
	}
	own, foreign := c.split(claims)
	told := c.tellForeign(ctx, foreign)
	missing, known := compare(own, machines)
	if err := c.trust(ctx, missing, known, len(machines)); err != nil {
		return errors.Join(told, err)
	}
	without, _ := compare(foreign, nil)
	return errors.Join(told, c.removeClaims(ctx, append(missing, without...)), c.removeOrphans(ctx, machines, claims))
}

// tidyEvery is the pause between looks for parts without a machine. Machines take
// theirs along when they go, so this finds something only after an accident.
const tidyEvery = 5 * time.Minute

func (c *Collector) tidy(ctx context.Context, claims []*karpv1.NodeClaim) error {
	if c.Tidier == nil || time.Since(c.tidied) < tidyEvery {
		return nil
	}
	c.tidied = time.Now()
	live, named := uids(claims), names(claims)
	names, err := c.Tidier.CollectOrphans(ctx, func(name, uid string) bool { return live[uid] || uid == "" && named[name] })
	for _, name := range names {
		c.Log.Info("garbage collecting what a machine left behind", "resource", name)
	}
	if err != nil {
		return fmt.Errorf("giving back what machines left behind: %w", err)
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

// providerIDs are in lower case.
func providerIDs(claims []*karpv1.NodeClaim) map[string]bool {
	set := make(map[string]bool, len(claims))
	for _, claim := range claims {
		if claim.Status.ProviderID != "" {
			set[strings.ToLower(claim.Status.ProviderID)] = true
		}
	}
	return set
}

func (c *Collector) halt(on bool) {
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
		if kube.OfKind(list.Items[i].Spec.NodeClassRef, c.Class) {
			claims = append(claims, &list.Items[i])
		}
	}
	return claims, nil
}

// compare lists the claims whose machine the cloud does not list, of how many
// that should have one.
func compare(claims []*karpv1.NodeClaim, machines []provider.Instance) (missing []*karpv1.NodeClaim, known int) {
	listed := make(map[string]bool, len(machines))
	for _, m := range machines {
		listed[strings.ToLower(m.ProviderID)] = true // clouds do not care about case, and claims may be another's
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

// removeClaims deletes claims whose machine is gone for certain: not listed, not
// found, and no node of it that works.
func (c *Collector) removeClaims(ctx context.Context, missing []*karpv1.NodeClaim) error {
	var errs []error
	for _, claim := range missing {
		gone, err := c.gone(ctx, claim)
		if err != nil || !gone {
			errs = append(errs, err)
			continue
		}
		if err := c.stampLost(ctx, claim); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := c.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting nodeclaim %s, whose machine is gone: %w", claim.Name, err))
			continue
		}
		c.Metrics.Disrupted(claim, "garbage_collected")
		c.Log.Info("garbage collecting nodeclaim with no cloudprovider representation", "nodeclaim", claim.Name, "provider-id", claim.Status.ProviderID)
	}
	return errors.Join(errs...)
}

// stampLost notes on the claim why it ends, so that room for its pods is bought first.
func (c *Collector) stampLost(ctx context.Context, claim *karpv1.NodeClaim) error {
	stored := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[kube.InterruptedAnnotation] = "Lost"
	if err := c.Client.Patch(ctx, claim, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("noting on nodeclaim %s that its machine is gone: %w", claim.Name, err)
	}
	return nil
}

func (c *Collector) gone(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	_, err := c.Provider.Get(ctx, claim.Status.ProviderID)
	if err == nil {
		return false, nil
	}
	if !errors.Is(err, provider.ErrNotFound) {
		return false, fmt.Errorf("asking about the machine of nodeclaim %s: %w", claim.Name, err)
	}
	nodes, err := lookup.NodesOf(ctx, c.Client, claim)
	if err != nil {
		return false, err
	}
	for i := range nodes {
		if kube.Ready(&nodes[i]) {
			return false, nil // a kubelet that reports runs somewhere
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
