// SPDX-License-Identifier: Apache-2.0

// Package static keeps as many nodes as a NodePool with spec.replicas asks for.
//
// It never exceeds limits.nodes, does not look at pods when it launches nodes, and does not count
// from a cache: two leaders in sequence would each launch the
// difference. The zero Reconciler is not usable; fields are required unless their comment says otherwise.
package static

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/control"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/provision"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

const (
	// retryEvery is how often a pool is counted anyway, retryWhenShort how soon when it has too
	// few.
	retryEvery     = time.Minute
	retryWhenShort = 30 * time.Second
	// unsynced is how soon to look again while the cluster is not known completely.
	unsynced = time.Second
	writers  = 50
)

// Reconciler keeps the nodes of static pools.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache: the number of claims decides how many are launched.
	Live    client.Reader
	Mirror  *state.Mirror
	Catalog *catalog.Keeper
	Metrics *metrics.Set
	Log     logr.Logger
	// NodeClassKind is the kind of node class that this installation serves.
	NodeClassKind schema.GroupKind
	// Pause says whether an operator has paused voluntary disruption; nil when none can.
	Pause *control.Pause
	// Guards limit creations and deletions; the zero value limits none.
	Guards guard.Guards
	// Choose decides which nodes to launch; nil means schedule.StaticLaunches.
	Choose func(snapshot *cluster.Snapshot, pool string, n int) []schedule.Launch
}

// Reconcile brings one pool nearer to its number.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &karpv1.NodePool{}
	if err := r.Live.Get(ctx, req.NamespacedName, pool); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pool.Spec.Replicas == nil || pool.DeletionTimestamp != nil || !kube.OfKind(pool.Spec.Template.Spec.NodeClassRef, r.NodeClassKind) {
		return reconcile.Result{}, nil
	}
	if !r.Mirror.Synced() {
		return reconcile.Result{RequeueAfter: unsynced}, nil
	}
	held, err := r.count(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	surplus := int64(len(held.staying)) - *pool.Spec.Replicas
	if surplus > 0 && r.Pause.Why() != "" {
		return reconcile.Result{RequeueAfter: retryEvery}, nil
	}
	if surplus > 0 {
		return reconcile.Result{RequeueAfter: retryEvery}, r.deleteSurplus(ctx, pool, held.staying, int(surplus))
	}
	if lacking := -surplus - held.expected; lacking > 0 {
		return r.launchMissing(ctx, pool, held, lacking)
	}
	return reconcile.Result{RequeueAfter: retryEvery}, nil
}

func (r *Reconciler) count(ctx context.Context, pool *karpv1.NodePool) (poolClaims, error) {
	list := &karpv1.NodeClaimList{}
	if err := r.Live.List(ctx, list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool.Name}); err != nil {
		return poolClaims{}, fmt.Errorf("counting the nodeclaims of nodepool %s: %w", pool.Name, err)
	}
	return poolClaimsOf(list.Items), nil
}

// launchMissing launches the missing nodes, as far as limits.nodes, quota and stock allow.
func (r *Reconciler) launchMissing(ctx context.Context, pool *karpv1.NodePool, h poolClaims, lacking int64) (reconcile.Result, error) {
	n := lacking
	if limit, ok := pool.Spec.Limits["nodes"]; ok {
		n = min(n, max(0, limit.Value()-h.all-h.expected))
	}
	if n < lacking {
		r.Log.Info("nodepool node limit reached", "nodepool", pool.Name, "nodes", h.all, "replicas", *pool.Spec.Replicas)
	}
	if n == 0 {
		return reconcile.Result{RequeueAfter: retryWhenShort}, nil
	}
	launches := r.decide(ctx, pool, int(n))
	if len(launches) > 0 {
		r.Log.Info("provisioning static nodes", "nodepool", pool.Name, "current", len(h.staying), "desired", *pool.Spec.Replicas, "provision-count", len(launches))
	}
	if err := r.createAll(ctx, pool, launches); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: retryWhenShort}, nil
}

// decide chooses from the newest catalog: an offering that had no capacity a moment ago must not
// be requested again at once.
func (r *Reconciler) decide(ctx context.Context, pool *karpv1.NodePool, n int) (launches []schedule.Launch) {
	if err := r.Catalog.Refresh(ctx); err != nil {
		r.Log.V(1).Info("catalog incomplete, going on with the rest", "error", err.Error())
	}
	choose := r.Choose
	if choose == nil {
		choose = schedule.StaticLaunches
	}
	r.Mirror.View(func(snapshot *cluster.Snapshot) { launches = choose(snapshot, pool.Name, n) })
	if !provision.PoolExists(r.Mirror.Pool(pool.Name)) {
		return nil // it was deleted meanwhile
	}
	return launches
}

func (r *Reconciler) createAll(ctx context.Context, pool *karpv1.NodePool, launches []schedule.Launch) error {
	var group panics.Group
	group.SetLimit(writers)
	errs := make([]error, len(launches))
	for i, l := range launches {
		group.Go(func() error { errs[i] = r.create(ctx, pool, l); return nil })
	}
	_ = group.Wait() // the functions return nil; errs has it all
	return errors.Join(errs...)
}

func (r *Reconciler) create(ctx context.Context, pool *karpv1.NodePool, l schedule.Launch) error {
	creator := provision.Creator{Client: r.Client, Mirror: r.Mirror, Guard: r.Guards.Creations}
	claim, err := creator.Create(ctx, l, func() *karpv1.NodeClaim { return provision.NewClaim(r.Catalog, l, pool) })
	if limit := (*state.LimitError)(nil); errors.As(err, &limit) {
		r.Log.Info("no nodeclaim created, its nodepool reached a limit meanwhile", "nodepool", pool.Name, "limit", limit.Limit)
		return nil
	}
	if held := (*guard.Error)(nil); errors.As(err, &held) {
		return nil // the guard logs it; the pool is counted again
	}
	if err != nil {
		return fmt.Errorf("creating a nodeclaim of static nodepool %s: %w", pool.Name, err)
	}
	r.Metrics.ClaimsCreated.WithLabelValues("provisioned", pool.Name, "false").Inc()
	r.Log.Info("created nodeclaim", "nodepool", pool.Name, "nodeclaim", claim.Name, "offerings", len(l.Offerings))
	return nil
}

// deleteSurplus deletes surplus nodes. Budgets do not apply: a user asked for fewer.
func (r *Reconciler) deleteSurplus(ctx context.Context, pool *karpv1.NodePool, staying []karpv1.NodeClaim, n int) error {
	nodes := make([]kube.ManagedNode, 0, len(staying))
	for i := range staying {
		m, _ := r.Mirror.ManagedNode(staying[i].Name)
		m.Claim = &staying[i]
		nodes = append(nodes, m)
	}
	r.Log.Info("deprovisioning static nodes", "nodepool", pool.Name, "current", len(staying), "desired", *pool.Spec.Replicas, "deprovision-count", n)
	var errs []error
	for _, m := range surplusNodes(nodes, n, time.Now()) {
		if r.Guards.Deletions.Take(1) != nil {
			break // the guard logs it; the pool is counted again
		}
		err := r.Client.Delete(ctx, m.Claim.DeepCopy(), client.Preconditions{UID: &m.Claim.UID})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting nodeclaim %s, one too many: %w", m.Claim.Name, err))
			continue
		}
		r.Log.Info("deleted nodeclaim", "nodepool", pool.Name, "nodeclaim", m.Claim.Name, "reason", "one too many")
	}
	return errors.Join(errs...)
}

// Register adds the reconciler to a manager. Pools are woken by their claims.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodepool.static").
		For(&karpv1.NodePool{}).
		Watches(&karpv1.NodeClaim{}, lookup.EnqueuePoolOfClaim()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(r)
}
