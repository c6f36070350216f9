// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	storagev1listers "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// Options configure a Driver.
type Options struct {
	// Client may write volumes, claims, attachments and events. Required.
	Client kubernetes.Interface
	// ResourceGroupID is the ARM id of the group in the handles of volumes.
	ResourceGroupID string
	// Delay is how long attaching and detaching a disk takes, to the second: the API
	// keeps no finer time. Zero means no time at all.
	Delay time.Duration
	// Log receives one line per volume made or deleted and per failure. Nil: nothing
	// is logged.
	Log *slog.Logger
}

// Driver provisions, attaches, detaches and deletes volumes.
type Driver struct {
	options     Options
	claims      corev1listers.PersistentVolumeClaimLister
	volumes     corev1listers.PersistentVolumeLister
	nodes       corev1listers.NodeLister
	classes     storagev1listers.StorageClassLister
	attachments storagev1listers.VolumeAttachmentLister
	queue       workqueue.TypedRateLimitingInterface[task]
	events      record.EventRecorder
}

// task is an object to look at: a kind, and a namespace where the kind has one.
type task struct {
	kind            kind
	namespace, name string
}

type kind string

const (
	kindClaim      kind = "claim"
	kindVolume     kind = "volume"
	kindAttachment kind = "attachment"
)

// New checks the options; Run does the work.
func New(o Options) (*Driver, error) {
	if o.Client == nil {
		return nil, errors.New("a storage driver needs a Client")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{options: o}, nil
}

// workers is how many objects are dealt with at once: each takes a few writes.
const workers = 4

// Run serves claims and attachments until ctx ends, and returns when every worker
// has stopped. It may be called once.
func (d *Driver) Run(ctx context.Context) error {
	d.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[task](100*time.Millisecond, 10*time.Second))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: d.options.Client.CoreV1().Events("")})
	d.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: DriverName})

	factory := informers.NewSharedInformerFactory(d.options.Client, 0)
	if err := d.watch(factory); err != nil {
		return fmt.Errorf("watching volumes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return context.Cause(ctx)
		}
	}
	d.work(ctx)
	return nil
}

// watch feeds the queue. Nodes and classes are only read: claims that wait for one
// are tried again.
func (d *Driver) watch(factory informers.SharedInformerFactory) error {
	core, storage := factory.Core().V1(), factory.Storage().V1()
	d.claims, d.volumes, d.nodes = core.PersistentVolumeClaims().Lister(), core.PersistentVolumes().Lister(), core.Nodes().Lister()
	d.classes, d.attachments = storage.StorageClasses().Lister(), storage.VolumeAttachments().Lister()
	for _, source := range []struct {
		informer cache.SharedIndexInformer
		kind     kind
	}{
		{core.PersistentVolumeClaims().Informer(), kindClaim},
		{core.PersistentVolumes().Informer(), kindVolume},
		{storage.VolumeAttachments().Informer(), kindAttachment},
	} {
		if _, err := source.informer.AddEventHandler(d.observe(source.kind)); err != nil {
			return err
		}
	}
	core.Nodes().Informer()
	storage.StorageClasses().Informer()
	return nil
}

func (d *Driver) observe(k kind) cache.ResourceEventHandler {
	add := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			d.queue.Add(task{k, name.Namespace, name.Name})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, updated any) { add(updated) },
		DeleteFunc: d.detached,
	}
}

// detached queues a volume again whose deletion may have waited for this.
func (d *Driver) detached(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if a, ok := obj.(*storagev1.VolumeAttachment); ok && a.Spec.Source.PersistentVolumeName != nil {
		d.queue.Add(task{kind: kindVolume, name: *a.Spec.Source.PersistentVolumeName})
	}
}

// work runs the workers until ctx ends.
func (d *Driver) work(ctx context.Context) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for d.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	d.queue.ShutDown()
	running.Wait()
}

func (d *Driver) next(ctx context.Context) bool {
	t, shutdown := d.queue.Get()
	if shutdown {
		return false
	}
	defer d.queue.Done(t)
	again, err := d.reconcile(ctx, t)
	switch {
	case ctx.Err() != nil:
	case apierrors.IsConflict(err):
		d.queue.AddRateLimited(t) // a conflict with another write; nothing is wrong
	case err != nil:
		d.options.Log.Warn("storage driver will try again", "kind", t.kind, "namespace", t.namespace, "name", t.name, "error", err)
		d.queue.AddRateLimited(t)
	default:
		d.queue.Forget(t)
		if again > 0 {
			d.queue.AddAfter(t, again)
		}
	}
	return true
}

// reconcile brings one object forward; again asks for another look that much later.
func (d *Driver) reconcile(ctx context.Context, t task) (again time.Duration, err error) {
	switch t.kind {
	case kindClaim:
		err = d.provision(ctx, t.namespace, t.name)
	case kindVolume:
		err = d.reclaim(ctx, t.name)
	case kindAttachment:
		again, err = d.attach(ctx, t.name)
	}
	if apierrors.IsNotFound(err) {
		return 0, nil // it went while we looked
	}
	return again, err
}
