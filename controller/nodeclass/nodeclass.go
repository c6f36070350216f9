// SPDX-License-Identifier: Apache-2.0

// Package nodeclass maintains the status of an AKSNodeClass: which
// Kubernetes version and images new nodes get, whether their subnet can be
// joined, which of its fields have an effect, and whether anything can be launched
// for it.
//
// A temporary failure of Azure or of the API server does not make a working class not Ready:
// earlier results for the same spec are kept, and the condition reports that
// they could not be looked up again. The zero Reconciler is not usable; Client,
// Azure and Versions are required.
package nodeclass

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// Name is the controller's name in logs and metrics.
const Name = "nodeclass.status"

// Azure is the part of the provider that the reconciler uses.
type Azure interface {
	// Images returns the images that a class wishes for.
	Images(ctx context.Context, selection azure.ImageSelection) ([]v1beta1.NodeImage, error)
	// CheckSubnet returns a *azure.SubnetError when nodes cannot join the subnet.
	// An empty id means the cluster's own.
	CheckSubnet(ctx context.Context, id string, maxPods int64) error
	// CheckDiskEncryptionSet returns a *azure.DiskEncryptionSetError when disks cannot be
	// encrypted as configured.
	CheckDiskEncryptionSet(ctx context.Context) error
	// TagKeys returns the keys of all tags that the class ever gave to VMs.
	TagKeys(class *v1beta1.AKSNodeClass) []string
	// WithoutLocalDNS is why nodes of a class do not run a DNS cache that it prefers.
	WithoutLocalDNS(class *v1beta1.AKSNodeClass) string
	// PolicyDenial returns why a policy denied the class's last VM; empty if it did not.
	PolicyDenial(class string) string
	// ClassPause returns why no VM of a class is requested for now; the reason is empty when
	// VMs are.
	ClassPause(class string) (reason, detail string)
	// PricesProblem returns why the price list could not be read; RejectedPrices returns its
	// implausible prices.
	PricesProblem() string
	// PricesUnlisted reports that the list was read and does not have the region.
	PricesUnlisted() string
	RejectedPrices() []azure.RejectedPrice
	// Catalog returns the instance types and offerings of a class.
	Catalog(ctx context.Context, class string) (*provider.Catalog, error)
}

// Versions returns the version of the API server; a discovery client implements it.
type Versions interface {
	ServerVersion() (*version.Info, error)
}

// Window is when nodes may be maintained.
type Window interface {
	// Open reports whether the window is open now, and, when not, from when on; the zero time when
	// that is unknown. An error means that it cannot be determined.
	Open(ctx context.Context) (open bool, from time.Time, err error)
}

// Reconciler keeps AKSNodeClasses' status.
type Reconciler struct {
	Client   client.Client
	Azure    Azure
	Versions Versions
	// Window reports when classes may get newer images; nil means always.
	Window Window
	Log    logr.Logger
	// Events is made by Register when nil; without either nothing is published.
	Events *events.Recorder
	// Every is how often a class is looked at anyway. Zero means 3 min.
	Every time.Duration
	// Panics is notified of panics while its events are written; nil recovers nothing.
	Panics *panics.Reporter
}

// Every is how often a class is looked at when nothing else is asked for.
const Every = 3 * time.Minute

// retryEvery is how soon something that is missing is looked for again.
const retryEvery = 15 * time.Second

// Reconcile brings one class's annotations and status up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	class := &v1beta1.AKSNodeClass{}
	if err := r.Client.Get(ctx, req.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !class.DeletionTimestamp.IsZero() {
		return r.finish(ctx, class)
	}
	if err := r.recordHash(ctx, class); err != nil {
		return ignoreRaces(err)
	}
	stored := class.DeepCopy()
	r.assess(ctx, class)
	if err := r.save(ctx, class, stored); err != nil {
		return ignoreRaces(err)
	}
	return reconcile.Result{RequeueAfter: r.next(class)}, nil
}

// ignoreRaces has a class that changed meanwhile looked at again, quietly.
func ignoreRaces(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// save writes the status if it changed.
func (r *Reconciler) save(ctx context.Context, class, stored *v1beta1.AKSNodeClass) error {
	if err := r.saveKept(ctx, class, stored); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(stored.Status, class.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, class, patch); err != nil {
		return fmt.Errorf("writing the status of AKSNodeClass %s: %w", class.Name, err)
	}
	r.report(class, stored)
	return nil
}

// saveKept writes which images nodes may keep, before the status has others: no node must
// drift in between.
func (r *Reconciler) saveKept(ctx context.Context, class, stored *v1beta1.AKSNodeClass) error {
	const key = azure.AnnotationImagesKept
	value, has := class.Annotations[key]
	if old, had := stored.Annotations[key]; old == value && had == has {
		return nil
	}
	next := stored.DeepCopy()
	if delete(next.Annotations, key); has {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
	}
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, next, patch); err != nil {
		return fmt.Errorf("writing which images AKSNodeClass %s keeps: %w", class.Name, err)
	}
	class.ResourceVersion, stored.ResourceVersion = next.ResourceVersion, next.ResourceVersion
	return nil
}

// report logs when a class gets other images, becomes ready or stops being so.
func (r *Reconciler) report(class, stored *v1beta1.AKSNodeClass) {
	if images := class.Status.Images; len(images) > 0 && !equality.Semantic.DeepEqual(stored.Status.Images, images) {
		r.Log.Info("images changed", "AKSNodeClass", class.Name, "images", len(images), "first", images[0].ID)
	}
	now, before := class.Condition(v1beta1.ConditionTypeReady), stored.Condition(v1beta1.ConditionTypeReady)
	if now.Status != before.Status {
		r.Log.Info("node class readiness changed", "AKSNodeClass", class.Name, "ready", now.Status, "reason", now.Reason, "message", now.Message)
	}
}

// next is when to look again: soon while something is missing.
func (r *Reconciler) next(class *v1beta1.AKSNodeClass) time.Duration {
	every := r.Every
	if every == 0 {
		every = Every
	}
	if class.IsReady() {
		return every
	}
	return min(every, retryEvery)
}
