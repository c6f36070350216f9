// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// writers is how many objects are written at a time.
const writers = 32

// forEach calls f for the numbers below n, many at a time. A request that is lost or refused for the
// moment is repeated.
func forEach(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return insist(ctx, func() error { return f(ctx, i) }) })
	}
	return group.Wait()
}

// insist repeats what a busy API server refuses.
func insist(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		busy := apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) || errors.Is(err, context.DeadlineExceeded)
		if !busy || try == 10 || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(try) * 200 * time.Millisecond):
		}
	}
}

// filler writes objects.
type filler struct{ client client.Client }

func exists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// pods creates pods with their status.
func (f filler) pods(ctx context.Context, n int, pod func(int) *corev1.Pod, status func(*corev1.Pod) corev1.PodStatus) error {
	return forEach(ctx, n, func(ctx context.Context, i int) error { return f.pod(ctx, pod(i), status) })
}

func (f filler) pod(ctx context.Context, p *corev1.Pod, status func(*corev1.Pod) corev1.PodStatus) error {
	name := p.Name
	err := f.client.Create(ctx, p)
	if apierrors.IsAlreadyExists(err) { // the response of the first try was lost
		err = f.client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, p)
	}
	if err != nil {
		return fmt.Errorf("creating pod %s: %w", name, err)
	}
	p.Status = status(p)
	if err := f.client.Status().Update(ctx, p); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the status of pod %s: %w", name, err)
	}
	return nil
}

// deletePods deletes the pods of a kind at once.
func (f filler) deletePods(ctx context.Context, kind string) error {
	return insist(ctx, func() error {
		return f.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{kindLabel: kind}, client.GracePeriodSeconds(0))
	})
}

// nodes creates NodePools, NodeClaims and Nodes. made is called with each NodeClaim before its Node.
func (f filler) nodes(ctx context.Context, n int, o origin, made func(context.Context, *karpv1.NodeClaim, string) error) error {
	for _, p := range []*karpv1.NodePool{o.pool(mainPool), o.pool(probePool, karpv1.NodeSelectorRequirementWithMinValues{Key: probeLabel, Operator: corev1.NodeSelectorOpExists})} {
		if err := f.client.Create(ctx, p); err != nil {
			return fmt.Errorf("creating NodePool %s: %w", p.Name, err)
		}
	}
	return forEach(ctx, n, func(ctx context.Context, i int) error {
		c := o.claim(i)
		if err := exists(f.client.Create(ctx, c)); err != nil {
			return fmt.Errorf("creating NodeClaim %s: %w", claimName(i), err)
		}
		if err := f.client.Get(ctx, types.NamespacedName{Name: claimName(i)}, c); err != nil {
			return fmt.Errorf("reading NodeClaim %s: %w", claimName(i), err)
		}
		c.Status = o.claimStatus(i)
		if err := f.client.Status().Update(ctx, c); err != nil {
			return fmt.Errorf("writing the status of NodeClaim %s: %w", c.Name, err)
		}
		if err := made(ctx, c, nodeName(i)); err != nil {
			return err
		}
		return f.node(ctx, o.node(i))
	})
}

// node creates a Node without the taint that the API server gives to new ones.
func (f filler) node(ctx context.Context, n *corev1.Node) error {
	name := n.Name
	if err := exists(f.client.Create(ctx, n)); err != nil {
		return fmt.Errorf("creating Node %s: %w", name, err)
	}
	untainted := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":null}}`))
	if err := f.client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, untainted); err != nil {
		return fmt.Errorf("removing the taints of Node %s: %w", name, err)
	}
	return nil
}

// deleteNodes deletes NodePools, NodeClaims and Nodes without waiting for their finalizers.
func (f filler) deleteNodes(ctx context.Context) error {
	var pools karpv1.NodePoolList
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	var all []client.Object
	for _, list := range []client.ObjectList{&pools, &claims, &nodes} {
		if err := f.client.List(ctx, list); err != nil {
			return fmt.Errorf("listing what is to be deleted: %w", err)
		}
	}
	for i := range pools.Items {
		all = append(all, &pools.Items[i])
	}
	for i := range claims.Items {
		all = append(all, &claims.Items[i])
	}
	for i := range nodes.Items {
		all = append(all, &nodes.Items[i])
	}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return forEach(ctx, len(all), func(ctx context.Context, i int) error {
		if err := f.client.Patch(ctx, all[i], free); client.IgnoreNotFound(err) != nil {
			return err
		}
		return client.IgnoreNotFound(f.client.Delete(ctx, all[i]))
	})
}
