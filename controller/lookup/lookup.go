// SPDX-License-Identifier: Apache-2.0

// Package lookup follows the relations between NodeClaims, Nodes and pods through the
// indexes of kube.Indexes, the same way for every controller.
//
// It does not choose: if a relation that should be to one object is to several, it returns
// all of them.
package lookup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// NodesOf lists the Nodes of the claim's instance (see kube.IsNodeOf), several only while the name of
// its node is not known; none while the claim has no provider ID.
func NodesOf(ctx context.Context, c client.Reader, claim *karpv1.NodeClaim) ([]corev1.Node, error) {
	nodes, err := NodesOfInstance(ctx, c, claim.Status.ProviderID)
	if err != nil {
		return nil, fmt.Errorf("looking for the nodes of nodeclaim %s: %w", claim.Name, err)
	}
	return slices.DeleteFunc(nodes, func(n corev1.Node) bool { return !kube.IsNodeOf(&n, claim) }), nil
}

// NodesOfInstance lists the Nodes with the provider ID, whichever kubelet made them; none if it is
// empty.
func NodesOfInstance(ctx context.Context, c client.Reader, providerID string) ([]corev1.Node, error) {
	if providerID == "" {
		return nil, nil
	}
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes, client.MatchingFields{kube.IndexNodeProviderID: providerID}); err != nil {
		return nil, err
	}
	return nodes.Items, nil
}

// ClaimsOf lists the NodeClaims of the Node's instance; none while the Node has no provider ID, or has
// one of an instance that registers as another node.
func ClaimsOf(ctx context.Context, c client.Reader, node *corev1.Node) ([]karpv1.NodeClaim, error) {
	claims, err := ClaimsOfInstance(ctx, c, node.Spec.ProviderID)
	if err != nil {
		return nil, fmt.Errorf("looking for the nodeclaim of node %s: %w", node.Name, err)
	}
	return slices.DeleteFunc(claims, func(claim karpv1.NodeClaim) bool { return !kube.IsNodeOf(node, &claim) }), nil
}

// ClaimsOfInstance lists the NodeClaims with the provider ID; none if it is empty.
func ClaimsOfInstance(ctx context.Context, c client.Reader, providerID string) ([]karpv1.NodeClaim, error) {
	if providerID == "" {
		return nil, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims, client.MatchingFields{kube.IndexClaimProviderID: providerID}); err != nil {
		return nil, err
	}
	return claims.Items, nil
}

// PodsOn lists the pods bound to a node, of whatever phase.
func PodsOn(ctx context.Context, c client.Reader, node string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.List(ctx, list, client.MatchingFields{kube.IndexPodNode: node}); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// EnqueuePoolOfClaim has the NodePool of a claim reconciled when the claim changes.
func EnqueuePoolOfClaim() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, claim client.Object) []reconcile.Request {
		pool := claim.GetLabels()[karpv1.NodePoolLabelKey]
		if pool == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: pool}}}
	})
}

// EnqueueClaimsOfNode has the claims with a Node's provider ID reconciled when the Node changes.
func EnqueueClaimsOfNode(c client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return nil
		}
		claims, err := ClaimsOfInstance(ctx, c, node.Spec.ProviderID)
		if err != nil {
			return nil // only a cache that is stopping fails
		}
		requests := make([]reconcile.Request, 0, len(claims))
		for i := range claims {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims[i])})
		}
		return requests
	})
}

// EnqueueClaimsOfPool has the claims of a NodePool reconciled when the pool changes.
func EnqueueClaimsOfPool(c client.Reader) handler.EventHandler {
	return EnqueueClaimsWhere(c, func(claim *karpv1.NodeClaim, pool string) bool { return claim.Labels[karpv1.NodePoolLabelKey] == pool })
}

// EnqueueClaimsWhere has the claims reconciled that belong to an object, by its name,
// when the object changes.
func EnqueueClaimsWhere(c client.Reader, belongs func(claim *karpv1.NodeClaim, name string) bool) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, of client.Object) []reconcile.Request {
		claims := &karpv1.NodeClaimList{}
		if err := c.List(ctx, claims); err != nil {
			return nil // only a cache that is stopping fails
		}
		var requests []reconcile.Request
		for i := range claims.Items {
			if belongs(&claims.Items[i], of.GetName()) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[i])})
			}
		}
		return requests
	})
}
