// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/registrationhealth"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/provider"
)

// Name is the controller's name in metrics and logs.
const Name = "nodeclaim.lifecycle"

const (
	// launchTimeout and registrationTimeout are how long a claim may take to launch, and its node
	// to register, before another claim is tried.
	launchTimeout       = 5 * time.Minute
	registrationTimeout = 15 * time.Minute
	// resourceTimeout is how long a node that has joined may take to show the resources it was
	// launched for. Operators that build drivers on the node need ten minutes.
	resourceTimeout = 20 * time.Minute
	// defaultRetry is when to ask again about an instance if the provider does not say when.
	defaultRetry = time.Second
)

// Reconciler drives NodeClaims of one kind of node class.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache: a node class is missing only if the API says so now.
	Live     client.Reader
	Mirror   *state.Mirror
	Catalog  *catalog.Keeper
	Provider provider.Provider
	Events   *events.Recorder
	Metrics  *metrics.Set
	Log      logr.Logger
	// Clock is the API server's.
	Clock *kube.ServerClock
	// Health records how launches ended, by pool; nil when it is not needed.
	Health *registrationhealth.Ledger
	// FailureObserver is notified of offerings whose nodes were unusable, SpotObserver of
	// offerings whose instances were lost before they joined; nil when they are not needed.
	FailureObserver provider.FailureObserver
	SpotObserver    provider.SpotObserver
	// NodeClassGVK is the kind of node class that this installation serves, in the version to read;
	// others belong to other installations.
	NodeClassGVK schema.GroupVersionKind
	// Terminator reconciles claims that are being deleted. It shares this controller's queue, so
	// that the launch and the termination of one claim never overlap.
	Terminator reconcile.Reconciler

	// missingResourceSince is since when the node of a claim, by name, is ready except for a
	// resource that it was launched for. A restart forgets it and so gives more time.
	missingResourceSince sync.Map
	// countdowns say how long claims may still take to launch and their nodes to register.
	countdowns countdowns
	refusals   refusals
}

// Reconcile takes one claim as far as it can be taken now.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !kube.OfKind(claim.Spec.NodeClassRef, r.NodeClassGVK.GroupKind()) {
		return reconcile.Result{}, nil
	}
	if claim.DeletionTimestamp != nil {
		r.forget(req.Name)
		return r.Terminator.Reconcile(ctx, req)
	}
	if err := r.addFinalizer(ctx, claim); err != nil {
		return write.RetryConflict(reconcile.Result{}, err)
	}
	s := &pass{Reconciler: r, claim: claim, stored: claim.DeepCopy()}
	s.StatusConditions() // sets missing conditions to Unknown, so that timeouts begin to count
	for _, phase := range []func(context.Context) error{s.launch, s.register, s.deleteUnjoined, s.initialize, s.replaceWithoutResource, s.deleteTimedOut} {
		if err := phase(ctx); err != nil || s.done {
			return write.RetryConflict(s.result(), s.save(ctx, err))
		}
	}
	return write.RetryConflict(s.result(), s.save(ctx, nil))
}

// forget drops what is remembered of a claim that will not be launched any further.
func (r *Reconciler) forget(claim string) {
	r.missingResourceSince.Delete(claim)
	r.countdowns.forget(claim)
	r.refusals.forget(claim)
}

// addFinalizer adds the finalizer before anything is launched: if the claim could vanish,
// nothing would terminate its instance.
func (r *Reconciler) addFinalizer(ctx context.Context, claim *karpv1.NodeClaim) error {
	stored := claim.DeepCopy()
	if !controllerutil.AddFinalizer(claim, karpv1.TerminationFinalizer) {
		return nil
	}
	if err := r.Client.Patch(ctx, claim, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

// pass is one pass over one claim. Phases change claim.Status in memory; save
// writes it once.
type pass struct {
	*Reconciler
	claim, stored *karpv1.NodeClaim
	// node is the claim's Node once it has exactly one.
	node *corev1.Node
	// done ends the pass: the claim is being deleted, or nothing more can be determined.
	done bool
	// unobserved is set when an instance was accepted and the provider could not report its state.
	unobserved   bool
	requeueAfter time.Duration
	// afterSave is called once the status is written: a pass over a stale copy finds the same
	// again, fails to write it, and must not report it twice.
	afterSave []func()
}

// StatusConditions returns the conditions of the claim.
func (s *pass) StatusConditions() conditions { return s.claim.StatusConditions() }

// requeue asks for another pass after d, or sooner if an earlier call asked for it sooner.
func (s *pass) requeue(d time.Duration) {
	if s.requeueAfter == 0 || d < s.requeueAfter {
		s.requeueAfter = max(d, time.Millisecond)
	}
}

func (s *pass) result() reconcile.Result { return reconcile.Result{RequeueAfter: s.requeueAfter} }

// save writes the status if it changed. The optimistic lock keeps a pass over a stale copy from
// undoing what a newer pass found.
func (s *pass) save(ctx context.Context, cause error) error {
	if equality.Semantic.DeepEqual(s.stored.Status, s.claim.Status) {
		return cause
	}
	patch := client.MergeFromWithOptions(s.stored, client.MergeFromWithOptimisticLock{})
	if err := s.Client.Status().Patch(ctx, s.claim, patch); err != nil && cause == nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("writing the status of nodeclaim %s: %w", s.claim.Name, err)
	} else if err == nil {
		for _, report := range s.afterSave {
			report()
		}
	}
	return cause
}

// deleteClaim deletes the claim: its pods become pending again and another node is launched.
func (s *pass) deleteClaim(ctx context.Context, why string) error {
	s.done = true
	uid := s.claim.UID
	err := s.Client.Delete(ctx, s.claim, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting nodeclaim %s (%s): %w", s.claim.Name, why, err)
	}
	s.Metrics.Disrupted(s.claim, why)
	return nil
}
