package kube

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
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
	for _, f := range []*feed{
		feedOf(m, &corev1.Pod{}, m.setPod, m.removePod),
		feedOf(m, &corev1.Node{}, unlisted(m.setNode), m.removeNode),
		feedOf(m, &karpv1.NodeClaim{}, unlisted(m.seeClaim), func(c *karpv1.NodeClaim) news { return news{woke: m.removeClaim(c)} }),
		feedOf(m, &karpv1.NodePool{}, unlisted(m.setPool), m.removePool),
		feedOf(m, &corev1.Namespace{}, unlisted(m.setNamespace), m.removeNamespace),
		feedOf(m, &corev1.PersistentVolumeClaim{}, unlisted(m.setVolumeClaim), m.removeVolumeClaim),
		feedOf(m, &corev1.PersistentVolume{}, unlisted(m.setVolume), m.removeVolume),
		feedOf(m, &storagev1.StorageClass{}, unlisted(m.setStorageClass), m.removeStorageClass),
		feedOf(m, &storagev1.CSINode{}, unlisted(m.setCSINode), m.removeCSINode),
		feedOf(m, &policyv1.PodDisruptionBudget{}, unlisted(m.setPDB), m.removePDB),
		feedOf(m, &appsv1.DaemonSet{}, unlisted(m.setDaemon), m.removeDaemon),
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
	set    func(o any, listed bool) news
	remove func(o any) news
}

// feedOf returns the feed of objects of of's type.
func feedOf[T client.Object](m *Mirror, of T, set func(T, bool) news, remove func(T) news) *feed {
	return &feed{mirror: m, of: of,
		set:    func(o any, listed bool) news { return set(o.(T), listed) },
		remove: func(o any) news { return remove(o.(T)) },
	}
}

func unlisted[T any](set func(T) news) func(T, bool) news {
	return func(x T, _ bool) news { return set(x) }
}

func (f *feed) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, listed bool) {
			f.take(o.(client.Object), func() news { return f.set(o, listed) })
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

// replace records an object in place of another one of the same name. An object that was deleted
// and recreated while the watch was interrupted arrives as an update but is another object:
// nothing recorded about the old one, also by its name, holds for it.
func (f *feed) replace(old, now client.Object) news {
	gone := f.remove(old)
	return gone.and(f.set(now, false))
}

// Fed declares that the owner shows the Mirror everything by calling the Set and Remove methods,
// instead of calling Attach.
func (m *Mirror) Fed() { m.feeds = append(m.feeds, &feed{registration: fed{}}) }

type fed struct{}

func (fed) HasSynced() bool { return true }
