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
	for _, feed := range []struct {
		of      client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Pod{}, follow(m.SetPod, m.RemovePod)},
		{&corev1.Node{}, follow(unlisted(m.SetNode), m.RemoveNode)},
		{&karpv1.NodeClaim{}, follow(unlisted(m.SetClaim), m.RemoveClaim)},
		{&karpv1.NodePool{}, follow(unlisted(m.SetPool), m.RemovePool)},
		{&corev1.Namespace{}, follow(unlisted(m.SetNamespace), m.RemoveNamespace)},
		{&corev1.PersistentVolumeClaim{}, follow(unlisted(m.SetVolumeClaim), m.RemoveVolumeClaim)},
		{&corev1.PersistentVolume{}, follow(unlisted(m.SetVolume), m.RemoveVolume)},
		{&storagev1.StorageClass{}, follow(unlisted(m.SetStorageClass), m.RemoveStorageClass)},
		{&storagev1.CSINode{}, follow(unlisted(m.SetCSINode), m.RemoveCSINode)},
		{&policyv1.PodDisruptionBudget{}, follow(unlisted(m.SetPDB), m.RemovePDB)},
		{&appsv1.DaemonSet{}, follow(unlisted(m.SetDaemon), m.RemoveDaemon)},
	} {
		informer, err := informers.GetInformer(ctx, feed.of, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", feed.of, err)
		}
		registration, err := informer.AddEventHandler(feed.handler)
		if err != nil {
			return fmt.Errorf("following %T: %w", feed.of, err)
		}
		m.feeds = append(m.feeds, registration)
	}
	return nil
}

// Synced reports whether every object that existed when the watches began has
// been taken in. Nothing may be decided before.
func (m *Mirror) Synced() bool {
	for _, f := range m.feeds {
		if !f.HasSynced() {
			return false
		}
	}
	return len(m.feeds) > 0
}

func unlisted[T any](set func(T)) func(T, bool) {
	return func(x T, _ bool) { set(x) }
}

func follow[T any](set func(T, bool), remove func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, listed bool) {
			if x, ok := obj.(T); ok {
				set(x, listed)
			}
		},
		UpdateFunc: func(_, obj any) {
			if x, ok := obj.(T); ok {
				set(x, false)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if x, ok := obj.(T); ok {
				remove(x)
			}
		},
	}
}

// Fed declares that the Mirror was shown everything by its owner, who calls the
// Set and Remove methods instead of Attach.
func (m *Mirror) Fed() { m.feeds = append(m.feeds, fed{}) }

type fed struct{}

func (fed) HasSynced() bool { return true }
