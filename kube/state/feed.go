// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Attach feeds the Mirror from a cache's informers. Call it once, before the
// cache starts.
func (m *Mirror) Attach(ctx context.Context, informers cache.Informers) error {
	p := &m.parts // restore replaces the contents of parts, never parts itself
	for _, f := range []*feed{
		feedOf(m, &corev1.Pod{}, p.setPod, p.removePod),
		feedOf(m, &corev1.Node{}, ignoreListed(p.setNode), p.removeNode),
		feedOf(m, &karpv1.NodeClaim{}, ignoreListed(p.setClaim), p.removeClaim),
		feedOf(m, &karpv1.NodePool{}, ignoreListed(m.setPool), p.removePool),
		feedOf(m, &corev1.Namespace{}, ignoreListed(p.setNamespace), p.removeNamespace),
		feedOf(m, &corev1.PersistentVolumeClaim{}, ignoreListed(p.setPVC), p.removePVC),
		feedOf(m, &corev1.PersistentVolume{}, ignoreListed(p.setVolume), p.removeVolume),
		feedOf(m, &storagev1.StorageClass{}, ignoreListed(p.setStorageClass), p.removeStorageClass),
		feedOf(m, &storagev1.CSINode{}, ignoreListed(p.setCSINode), p.removeCSINode),
		feedOf(m, &policyv1.PodDisruptionBudget{}, ignoreListed(p.setPDB), p.removePDB),
		feedOf(m, &appsv1.DaemonSet{}, ignoreListed(p.setDaemon), p.removeDaemon),
		feedOf(m, &appsv1.ReplicaSet{}, ignoreListed(p.setReplicaSet), func(s *appsv1.ReplicaSet) wakeups { return p.removeOwner(s.UID) }),
		feedOf(m, &appsv1.StatefulSet{}, ignoreListed(p.setStatefulSet), func(s *appsv1.StatefulSet) wakeups { return p.removeOwner(s.UID) }),
		feedOf(m, &batchv1.Job{}, ignoreListed(p.setJob), func(j *batchv1.Job) wakeups { return p.removeOwner(j.UID) }),
	} {
		informer, err := informers.GetInformer(ctx, f.of, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", f.of, err)
		}
		registration, err := informer.AddEventHandler(f.handler())
		if err != nil {
			return fmt.Errorf("following %T: %w", f.of, err)
		}
		f.registration = registration
		if stored, ok := informer.(interface{ GetStore() toolscache.Store }); ok {
			f.store = stored.GetStore()
		}
		m.feeds = append(m.feeds, f)
	}
	return nil
}

// Synced reports whether every object that existed when the watches began has been recorded. Make
// no decision before.
func (m *Mirror) Synced() bool {
	for _, f := range m.feeds {
		if !f.registration.HasSynced() {
			return false
		}
	}
	return len(m.feeds) > 0
}

// feed passes the objects of one kind to the Mirror.
type feed struct {
	mirror       *Mirror
	of           client.Object
	registration interface{ HasSynced() bool }
	// store is the informer's store; nil when the informer does not expose it.
	store toolscache.Store
	// set adds or replaces an object, remove forgets it. Callers hold the Mirror's lock.
	set    func(o any, listed bool) wakeups
	remove func(o any) wakeups
}

// feedOf returns the feed of objects of of's type.
func feedOf[T client.Object](m *Mirror, of T, set func(T, bool) wakeups, remove func(T) wakeups) *feed {
	return &feed{mirror: m, of: of,
		set:    func(o any, listed bool) wakeups { return set(o.(T), listed) },
		remove: func(o any) wakeups { return remove(o.(T)) },
	}
}

func ignoreListed[T any](set func(T) wakeups) func(T, bool) wakeups {
	return func(x T, _ bool) wakeups { return set(x) }
}

func (f *feed) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, listed bool) {
			f.setWith(o.(client.Object), func() wakeups { return f.set(o, listed) })
		},
		UpdateFunc: func(old, now any) {
			f.update(old.(client.Object), now.(client.Object))
		},
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			f.end(o.(client.Object))
		},
	}
}

// AssumeSynced declares that the owner calls the Set and Remove methods instead of Attach: Synced
// reports true from then on.
func (m *Mirror) AssumeSynced() { m.feeds = append(m.feeds, &feed{registration: alwaysSynced{}}) }

type alwaysSynced struct{}

func (alwaysSynced) HasSynced() bool { return true }
