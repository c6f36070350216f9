// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
)

// errDeleting reports that the node is being deleted, or is deleted.
var errDeleting = errors.New("the node is leaving already")

// mark marks and taints every node of the move.
func (x *executor) mark(ctx context.Context, m *move) conclusion {
	mark := m.mark().String()
	errs := forEach(m.Nodes, func(key string) error { return x.marks.add(ctx, key, mark, string(m.Cause)) })
	if err := ctx.Err(); err != nil {
		return conclusion{next: marking, err: err}
	}
	return afterMarking(m, errs)
}

// afterMarking takes back a move that needs replacements if a node could not be marked; other
// moves continue without it.
func afterMarking(m *move, errs map[string]error) conclusion {
	c := conclusion{next: marked}
	for _, key := range m.Nodes {
		switch err := errs[key]; {
		case err == nil || errors.Is(err, errDeleting):
		case m.replaces():
			c = takeBack(m, err.Error())
			c.effects = slices.Insert(c.effects, 0, effect(reportMarkFailed{key: key, err: err}))
			return c
		default:
			c.effects = append(c.effects, reportMarkFailed{key: key, err: err, goesOn: true}, keepNode{key})
			m.drop(key)
		}
	}
	for key, err := range errs {
		if errors.Is(err, errDeleting) {
			m.drop(key)
		}
	}
	if len(m.Nodes) == 0 {
		c.next = ended
	}
	return c
}

// marker writes on claims and nodes that they take part in a move.
type marker struct {
	client client.Client
	live   client.Reader
	log    logr.Logger
}

// add marks the claim before it taints the node: a taint must not be found without its reason.
func (k *marker) add(ctx context.Context, key, mark, cause string) error {
	claim, err := k.changeClaim(ctx, key, func(claim *karpv1.NodeClaim) error {
		if claim.DeletionTimestamp != nil {
			return errDeleting
		}
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations[kube.MoveAnnotation] = mark
		return nil
	})
	if apierrors.IsNotFound(err) {
		return errDeleting
	}
	if err != nil {
		return fmt.Errorf("marking nodeclaim %s: %w", key, err)
	}
	if err := k.setTaint(ctx, claim, true); err != nil {
		return err
	}
	return k.changeStatus(ctx, key, func(claim *karpv1.NodeClaim) {
		claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, cause, "")
	})
}

// remove removes marks and taint from a node, the claim's mark last: until then the next leader
// finds that there is something to remove. The same write records how long the node backs off,
// unless the back-off is zero.
func (k *marker) remove(ctx context.Context, key string, b backOff) error {
	claim := &karpv1.NodeClaim{}
	if err := k.live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil {
		return nil // controller/termination needs the taint
	}
	if err := k.setTaint(ctx, claim, false); err != nil {
		return err
	}
	err := k.changeStatus(ctx, key, func(claim *karpv1.NodeClaim) {
		_ = claim.StatusConditions().Clear(karpv1.ConditionTypeDisruptionReason) // fails for dependents only
	})
	if err != nil {
		return err
	}
	marked := false
	_, err = k.changeClaim(ctx, key, func(claim *karpv1.NodeClaim) error {
		_, marked = claim.Annotations[kube.MoveAnnotation]
		delete(claim.Annotations, kube.MoveAnnotation)
		b.annotate(claim)
		return nil
	})
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	if !marked { // only the back-off is not written
		k.log.Error(err, "could not write on a nodeclaim that a move of it failed", "nodeclaim", key)
		return nil
	}
	return fmt.Errorf("taking the mark off nodeclaim %s: %w", key, err)
}

// rewrite rewrites the mark of a claim that has one.
func (k *marker) rewrite(ctx context.Context, key, mark string, b backOff) error {
	_, err := k.changeClaim(ctx, key, func(claim *karpv1.NodeClaim) error {
		if _, marked := claim.Annotations[kube.MoveAnnotation]; !marked || claim.DeletionTimestamp != nil {
			return nil
		}
		claim.Annotations[kube.MoveAnnotation] = mark
		b.annotate(claim)
		return nil
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("marking nodeclaim %s as one that stays: %w", key, err)
	}
	return nil
}

// changeClaim changes a claim's metadata over its newest version, and returns that.
func (k *marker) changeClaim(ctx context.Context, key string, change func(*karpv1.NodeClaim) error) (*karpv1.NodeClaim, error) {
	claim := &karpv1.NodeClaim{}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := k.live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
			return err
		}
		stored := claim.DeepCopy()
		if err := change(claim); err != nil {
			return err
		}
		if maps.Equal(stored.Annotations, claim.Annotations) {
			return nil
		}
		return k.client.Patch(ctx, claim, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	})
	return claim, err
}

// changeStatus changes a claim's status over its newest version; a deleted claim has none.
func (k *marker) changeStatus(ctx context.Context, key string, change func(*karpv1.NodeClaim)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim := &karpv1.NodeClaim{}
		if err := k.live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
			return client.IgnoreNotFound(err)
		}
		stored := claim.DeepCopy()
		change(claim)
		return unwrapConflict(write.Status(ctx, k.client, claim, stored))
	})
}

// unwrapConflict unwraps a conflict for package retry, which does not look inside errors.
func unwrapConflict(err error) error {
	var status *apierrors.StatusError
	if apierrors.IsConflict(err) && errors.As(err, &status) {
		return status
	}
	return err
}

// setTaint taints the claim's nodes, or untaints them.
func (k *marker) setTaint(ctx context.Context, claim *karpv1.NodeClaim, on bool) error {
	nodes, err := lookup.NodesOf(ctx, k.client, claim)
	if err != nil {
		return err
	}
	if on && len(nodes) == 0 {
		return errDeleting
	}
	for i := range nodes {
		if err := k.taintNode(ctx, nodes[i].Name, on); err != nil {
			return err
		}
	}
	return nil
}

func (k *marker) taintNode(ctx context.Context, name string, on bool) error {
	changed := false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node := &corev1.Node{}
		if err := k.live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		if node.DeletionTimestamp != nil {
			return errDeleting
		}
		stored := node.DeepCopy()
		if changed = tainted(node) != on; !changed {
			return nil
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isDisrupted)
		if on {
			node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		}
		return k.client.Patch(ctx, node, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	})
	switch {
	case apierrors.IsNotFound(err) || errors.Is(err, errDeleting):
		if on {
			return errDeleting
		}
		return nil
	case err != nil:
		return fmt.Errorf("changing the taints of node %s: %w", name, err)
	case changed && on:
		k.log.Info("tainted node", "node", name, "taint", karpv1.DisruptedTaintKey)
	case changed:
		k.log.Info("untainted node", "node", name, "taint", karpv1.DisruptedTaintKey)
	}
	return nil
}

func tainted(n *corev1.Node) bool {
	return n != nil && slices.ContainsFunc(n.Spec.Taints, isDisrupted)
}

func isDisrupted(t corev1.Taint) bool {
	disrupted := karpv1.DisruptedNoScheduleTaint
	return t.MatchTaint(&disrupted)
}
