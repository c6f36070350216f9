// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

const (
	name = "provisioner" // in metrics and logs
	// retry is how often pods that fitted nowhere are tried again.
	retry = 10 * time.Second
	// unsynced is the pause before looking again while the mirror is not synced.
	unsynced = 200 * time.Millisecond
	// writers bounds how many NodeClaims are created at once.
	writers = 50
)

// Provisioner turns pods that need capacity into NodeClaims.
type Provisioner struct {
	Client  client.Client
	Mirror  *state.Mirror
	Catalog *catalog.Keeper
	Batches *Batcher
	Events  *events.Recorder
	Metrics *metrics.Set
	Log     logr.Logger
	// Buffers records where the capacity for CapacityBuffers is; nil when they are not used.
	Buffers *buffer.Keeper

	// What was last logged about pods and catalog, so that it is logged once.
	waiting    int
	incomplete string
}

// Start provisions batch after batch until the context ends.
func (p *Provisioner) Start(ctx context.Context) error {
	for p.Batches.Wait(ctx, retry) {
		if err := p.Provision(ctx); err != nil && ctx.Err() == nil {
			p.Log.Error(err, "provisioning failed in part")
		}
	}
	return nil
}

// Provision handles one batch: read, decide, act, record. Pods whose claim could not be created
// remain pending and are in the next batch again.
func (p *Provisioner) Provision(ctx context.Context) error {
	err := p.read(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.logIncomplete(err)
	plan, took := p.decide()
	err = p.act(ctx, plan)
	p.record(plan, took)
	return errors.Join(err, p.Buffers.Report(ctx, plan))
}

func (p *Provisioner) read(ctx context.Context) error {
	for !p.Mirror.Synced() { // an incomplete Snapshot would launch nodes that exist already
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(unsynced):
		}
	}
	p.Mirror.Expire()
	n := p.Mirror.CountWaiting()
	if n > 0 && n != p.waiting {
		p.Log.Info("found provisionable pod(s)", "pods", n)
	}
	p.waiting = n
	return p.Catalog.Refresh(ctx)
}

// logIncomplete logs what the catalog lacks when that changes: pods that fit nowhere cause a
// batch every few seconds.
func (p *Provisioner) logIncomplete(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != p.incomplete {
		p.Log.Error(err, "catalog incomplete, going on with the rest")
	}
	p.incomplete = text
}

func (p *Provisioner) decide() (plan schedule.Plan, took time.Duration) {
	p.Mirror.View(func(w *cluster.Snapshot) {
		start := time.Now()
		plan = schedule.Solve(w)
		took = time.Since(start)
	})
	return plan, took
}

func (p *Provisioner) act(ctx context.Context, plan schedule.Plan) error {
	p.Buffers.Decided(plan.Nominations)
	for _, n := range plan.Nominations {
		pods := p.Buffers.Real(n.Pods)
		if len(pods) == 0 {
			continue
		}
		p.Mirror.Nominate(n.Node, pods)
		p.publishNominated(pods, n.Node)
	}
	if len(plan.Launches) == 0 {
		return nil
	}
	p.Log.Info("computed new nodeclaim(s) to fit pod(s)", append([]any{"nodeclaims", len(plan.Launches), "pods", podCount(plan),
		"price", plan.Price().USD(), "price-lower-bound", plan.LowerBound.USD()}, preferences(plan.Preferences)...)...)
	return p.launch(ctx, plan.Launches)
}

func podCount(plan schedule.Plan) int {
	n := 0
	for _, l := range plan.Launches {
		n += len(l.Pods)
	}
	return n
}

// launch creates the claims concurrently. A claim that is refused must not delay the others.
func (p *Provisioner) launch(ctx context.Context, launches []schedule.Launch) error {
	var (
		group panics.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(writers)
	for _, l := range launches {
		group.Go(func() error {
			if err := p.create(ctx, l); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil; errs has the errors
	return errors.Join(errs...)
}

func (p *Provisioner) create(ctx context.Context, l schedule.Launch) error {
	pool := p.Mirror.Pool(l.Pool)
	if pool == nil {
		return fmt.Errorf("creating a nodeclaim: nodepool %q was deleted meanwhile", l.Pool)
	}
	urgent := p.Mirror.AnyInterrupted(l.Pods)
	claim, err := Create(ctx, p.Client, func() *karpv1.NodeClaim {
		claim := Draft(p.Catalog, l, pool)
		if urgent {
			claim.Annotations[kube.UrgentAnnotation] = "true"
		}
		return claim
	})
	if err != nil {
		for _, pod := range l.Pods {
			p.Batches.Trigger(pod.UID)
		}
		return fmt.Errorf("creating a nodeclaim for %d pods in nodepool %q: %w", len(l.Pods), l.Pool, err)
	}
	p.Buffers.Launched(claim.Name, l.Pods)
	p.Mirror.Launched(claim, l.Offerings, l.Pods)
	p.Metrics.ClaimsCreated.WithLabelValues("provisioned", l.Pool, strconv.FormatBool(len(l.Relaxed) > 0)).Inc()
	p.Log.Info("created nodeclaim", append([]any{"nodepool", l.Pool, "nodeclaim", claim.Name, "pods", len(l.Pods),
		"requests", l.Requests, "offerings", len(l.Offerings)}, offeringValues(l)...)...)
	p.publishNominated(l.Pods, claim.Name)
	return nil
}

// Create creates a claim, drafted again until its name is free.
func Create(ctx context.Context, c client.Client, draft func() *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	for {
		claim := draft()
		err := c.Create(ctx, claim)
		if !apierrors.IsAlreadyExists(err) {
			return claim, err
		}
	}
}

// Draft is the claim of a launch, under a name that is probably free.
func Draft(k *catalog.Keeper, l schedule.Launch, pool *karpv1.NodePool) *karpv1.NodeClaim {
	claim := kube.Claim(l, pool, pool.Name+"-"+rand.String(5))
	keepVariety(claim, pool, l.Relaxed)
	noteOverlays(claim, k, l)
	return claim
}

// noteOverlays annotates a claim whose offerings NodeOverlays changed.
func noteOverlays(claim *karpv1.NodeClaim, k *catalog.Keeper, l schedule.Launch) {
	price, capacity := k.Touched(kube.ClassOf(claim.Spec.NodeClassRef), l.Offerings)
	if price {
		claim.Annotations[karpv1alpha1.PriceOverlayAppliedAnnotationKey] = "true"
	}
	if capacity {
		claim.Annotations[karpv1alpha1.CapacityOverlayAppliedAnnotationKey] = "true"
	}
}

// preferences returns the log values about the pods' preferences; none when no pod has any.
func preferences(p schedule.Preferences) []any {
	if p.Asked == 0 {
		return nil
	}
	return []any{"preferences-asked", p.Asked, "preferences-honoured", p.Honoured, "preferences-cost", p.Cost.USD()}
}

// offeringValues returns the log values about the offering that is tried first, and those that
// would be tried instead.
func offeringValues(l schedule.Launch) []any {
	first := l.Offerings[0]
	words := []any{"instance-type", first.Type, "zone", first.Zone, "capacity-type", first.CapacityType, "price", first.Price.USD()}
	if i := slices.IndexFunc(l.Offerings, func(c offering.Ref) bool { return c.Type != first.Type }); i >= 0 {
		words = append(words, "runner-up", l.Offerings[i].Type, "runner-up-price", l.Offerings[i].Price.USD())
	}
	if len(l.RunnersUp) == 0 {
		return words
	}
	others := make([]string, 0, len(l.RunnersUp))
	for _, r := range l.RunnersUp {
		others = append(others, fmt.Sprintf("%s in %s (%s): %+.4f/h, %s: %s", r.Type, r.Zone, r.CapacityType, r.More.USD(), r.Because, r.Why))
	}
	return append(words, "runners-up", others)
}

// publishNominated publishes on each pod the node where it should be scheduled.
func (p *Provisioner) publishNominated(pods []cluster.PodRef, node string) {
	landing := p.Mirror.DescribeNode(node)
	for _, ref := range pods {
		if pod := p.Mirror.Pod(ref.UID); pod != nil {
			p.Events.Publish(events.Event{About: pod, Reason: "Nominated", Message: "Pod should schedule on: " + landing})
		}
	}
}

func (p *Provisioner) record(plan schedule.Plan, took time.Duration) {
	unplaced, ignored := 0, 0
	for _, u := range plan.Unplaced {
		if u.Pods = p.Buffers.Real(u.Pods); len(u.Pods) == 0 {
			continue
		}
		if silent(u.Because) {
			ignored += len(u.Pods)
			continue
		}
		unplaced += len(u.Pods)
		p.explain(u)
	}
	p.Metrics.Scheduling.WithLabelValues(name).Observe(took.Seconds())
	p.Metrics.UnschedulablePods.WithLabelValues(name).Set(float64(unplaced))
	p.Metrics.IgnoredPods.Set(float64(ignored))
	if len(plan.Launches) > 0 {
		p.Metrics.PlanPrice.Set(plan.Price().USD())
		p.Metrics.PlanBound.Set(plan.LowerBound.USD())
	}
}

// explain publishes on each pod of the group why no node can run it.
func (p *Provisioner) explain(u schedule.Unplaced) {
	text := "Failed to schedule pod, " + Explain(u)
	data := map[string]string{}
	if funnels := funnelData(u.Funnels); funnels != "" {
		data[FunnelAnnotation] = funnels
	}
	if facts := factData(u.Facts); facts != "" {
		data[FactsAnnotation] = facts
	}
	for _, ref := range u.Pods {
		pod := p.Mirror.Pod(ref.UID)
		if pod == nil {
			continue
		}
		p.Events.Publish(events.Event{
			About: pod, Warning: true, Reason: "FailedScheduling", Message: text,
			Key: eventKey(u), Every: 5 * time.Minute, Annotations: data,
		})
	}
	p.Log.V(1).Info("could not schedule pod(s)", "pods", len(u.Pods), "sample", u.Pods[0].Namespace+"/"+u.Pods[0].Name, "reason", text)
	p.explainPools(u.Funnels)
}

// explainPools publishes on a pool that its own requirements leave no instance type.
func (p *Provisioner) explainPools(funnels []reason.Funnel) {
	for _, f := range funnels {
		text := noInstanceTypes(f)
		pool := p.Mirror.Pool(f.Pool)
		if text == "" || pool == nil {
			continue
		}
		p.Events.Publish(events.Event{About: pool, Warning: true, Reason: "NoCompatibleInstanceTypes", Message: text, Every: time.Minute})
	}
}
