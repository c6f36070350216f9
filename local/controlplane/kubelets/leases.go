// SPDX-License-Identifier: Apache-2.0

package kubelets

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
)

// A kubelet's lease lasts 40 s and is renewed every 10 s (its defaults).
const (
	leaseSeconds = 40
	renewEvery   = 10 * time.Second
	renewJitter  = 0.04
	leaseHolder  = "karve-kwok"
)

// startLeases renews the lease of every node the client can see, from its creation
// to its deletion. It returns once the existing nodes and leases are
// listed.
func startLeases(ctx context.Context, client annotatedNodes) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	leases := factory.Coordination().V1().Leases()
	leaseLister := leases.Lister().Leases(corev1.NamespaceNodeLease)

	keeper, err := controllers.NewNodeLeaseController(controllers.NodeLeaseControllerConfig{
		Clock:                clock.RealClock{},
		TypedClient:          client,
		HolderIdentity:       leaseHolder,
		LeaseDurationSeconds: leaseSeconds,
		LeaseParallelism:     stageParallelism,
		RenewInterval:        renewEvery,
		RenewIntervalJitter:  renewJitter,
		GetLease: func(name string) (*coordinationv1.Lease, bool) {
			lease, err := leaseLister.Get(name)
			return lease, err == nil
		},
		MutateLeaseFunc: ownedByNode(nodes.Lister()),
	})
	if err != nil {
		return err
	}
	if _, err := nodes.Informer().AddEventHandler(holding(keeper)); err != nil {
		return err
	}
	leases.Informer()
	if err := keeper.Start(ctx); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("listing %v: %w", kind, ctx.Err())
		}
	}
	return nil
}

// holding starts and stops the renewal of a lease when its node is created and deleted.
func holding(keeper *controllers.NodeLeaseController) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { keeper.TryHold(o.(*corev1.Node).Name) },
		DeleteFunc: func(o any) {
			if name, err := cache.DeletionHandlingObjectToName(o); err == nil {
				keeper.ReleaseHold(name.Name)
			}
		},
	}
}

// ownedByNode makes the garbage collector remove a lease with its node, as the kubelet
// arranges it.
func ownedByNode(nodes corelisters.NodeLister) func(*coordinationv1.Lease) error {
	return func(lease *coordinationv1.Lease) error {
		node, err := nodes.Get(lease.Name)
		if err != nil {
			return fmt.Errorf("node of lease %s: %w", lease.Name, err)
		}
		lease.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		}}
		return nil
	}
}
