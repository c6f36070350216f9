package disruption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
)

// errLeaving says that somebody else deletes the node, or did.
var errLeaving = errors.New("the node is leaving already")

// markAll writes on every node of the move that it is to go. One that refuses ends a
// move that buys; others go on without it.
func (c *Controller) markAll(ctx context.Context, m *move) (phase, error) {
	text := m.mark().String()
	failed := c.each(m.Nodes, func(key string) error { return c.markNode(ctx, key, text, string(m.Cause)) })
	if err := ctx.Err(); err != nil {
		return marking, err
	}
	for _, key := range m.Nodes {
		switch err := failed[key]; {
		case err == nil || errors.Is(err, errLeaving):
		case m.buys():
			c.Log.Error(err, "could not mark a node", "move", m.id, "nodeclaim", key)
			return c.fail(m, err.Error()), nil
		default:
			c.Log.Error(err, "could not mark a node, going on with the others", "move", m.id, "nodeclaim", key)
			c.letStay(ctx, m, key)
		}
	}
	for key, err := range failed {
		if errors.Is(err, errLeaving) {
			m.drop(key)
		}
	}
	if len(m.Nodes) == 0 {
		return over, nil
	}
	return marked, nil
}

// each does something for every node side by side and returns what failed.
func (c *Controller) each(keys []string, do func(key string) error) map[string]error {
	var (
		group  panics.Group
		mu     sync.Mutex
		failed = map[string]error{}
	)
	group.SetLimit(writers)
	for _, key := range keys {
		group.Go(func() error {
			if err := do(key); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[key] = err
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil; failed has it all
	return failed
}

// markNode marks the claim first: whoever finds a tainted node must find out why.
func (c *Controller) markNode(ctx context.Context, key, text, cause string) error {
	claim, err := c.changeClaim(ctx, key, func(claim *karpv1.NodeClaim) error {
		if claim.DeletionTimestamp != nil {
			return errLeaving
		}
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations[kube.MoveAnnotation] = text
		return nil
	})
	if apierrors.IsNotFound(err) {
		return errLeaving
	}
	if err != nil {
		return fmt.Errorf("marking nodeclaim %s: %w", key, err)
	}
	if err := c.setTaint(ctx, claim, true); err != nil {
		return err
	}
	return c.condition(ctx, key, func(claim *karpv1.NodeClaim) {
		claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, cause, "")
	})
}

// unmark takes everything off a node again, the claim's mark last: until then whoever
// comes next knows that there is something to take off. In the same write the claim says
// how long it rests, unless that is the zero rest.
func (c *Controller) unmark(ctx context.Context, key string, r rest) error {
	claim := &karpv1.NodeClaim{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil {
		return nil // controller/termination wants the taint
	}
	if err := c.setTaint(ctx, claim, false); err != nil {
		return err
	}
	err := c.condition(ctx, key, func(claim *karpv1.NodeClaim) {
		_ = claim.StatusConditions().Clear(karpv1.ConditionTypeDisruptionReason) // fails for dependents only
	})
	if err != nil {
		return err
	}
	marked := false
	_, err = c.changeClaim(ctx, key, func(claim *karpv1.NodeClaim) error {
		_, marked = claim.Annotations[kube.MoveAnnotation]
		delete(claim.Annotations, kube.MoveAnnotation)
		r.annotate(claim)
		return nil
	})
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	if !marked { // it merely rests without saying so
		c.Log.Error(err, "could not write down that a move failed", "nodeclaim", key)
		return nil
	}
	return fmt.Errorf("taking the mark off nodeclaim %s: %w", key, err)
}

// changeClaim changes a claim's metadata over its newest version, and returns that.
func (c *Controller) changeClaim(ctx context.Context, key string, change func(*karpv1.NodeClaim) error) (*karpv1.NodeClaim, error) {
	claim := &karpv1.NodeClaim{}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
			return err
		}
		stored := claim.DeepCopy()
		if err := change(claim); err != nil {
			return err
		}
		if maps.Equal(stored.Annotations, claim.Annotations) {
			return nil
		}
		return c.Client.Patch(ctx, claim, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	})
	return claim, err
}

// condition changes a claim's status over its newest version; one that is gone has none.
func (c *Controller) condition(ctx context.Context, key string, change func(*karpv1.NodeClaim)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim := &karpv1.NodeClaim{}
		if err := c.Live.Get(ctx, client.ObjectKey{Name: key}, claim); err != nil {
			return client.IgnoreNotFound(err)
		}
		stored := claim.DeepCopy()
		change(claim)
		return unwrapConflict(write.Status(ctx, c.Client, claim, stored))
	})
}

// unwrapConflict makes a lost race known to retry, which does not look inside.
func unwrapConflict(err error) error {
	var status *apierrors.StatusError
	if apierrors.IsConflict(err) && errors.As(err, &status) {
		return status
	}
	return err
}

// setTaint keeps new pods away from the claim's nodes, or lets them in again.
func (c *Controller) setTaint(ctx context.Context, claim *karpv1.NodeClaim, on bool) error {
	nodes, err := lookup.NodesOf(ctx, c.Client, claim)
	if err != nil {
		return err
	}
	if on && len(nodes) == 0 {
		return errLeaving
	}
	for i := range nodes {
		if err := c.taintNode(ctx, nodes[i].Name, on); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) taintNode(ctx context.Context, name string, on bool) error {
	changed := false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node := &corev1.Node{}
		if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		if node.DeletionTimestamp != nil {
			return errLeaving
		}
		stored := node.DeepCopy()
		if changed = tainted(node) != on; !changed {
			return nil
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isDisrupted)
		if on {
			node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		}
		return c.Client.Patch(ctx, node, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	})
	switch {
	case apierrors.IsNotFound(err) || errors.Is(err, errLeaving):
		if on {
			return errLeaving
		}
		return nil
	case err != nil:
		return fmt.Errorf("changing the taints of node %s: %w", name, err)
	case changed && on:
		c.Log.Info("tainted node", "node", name, "taint", karpv1.DisruptedTaintKey)
	case changed:
		c.Log.Info("untainted node", "node", name, "taint", karpv1.DisruptedTaintKey)
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
