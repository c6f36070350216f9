package emptiness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/engine/empty"
	"github.com/karve-dev/karve/kube"
)

const (
	writers = 20
	// stampEvery bounds how often a busy node's last pod event is written down.
	stampEvery = 10 * time.Second
)

// act moves every node one step: those to take are tainted, or deleted when the
// taint was seen in place and they are still empty; others lose a taint that was begun.
func (c *Controller) act(ctx context.Context, v empty.Verdict, machines map[string]kube.Machine) error {
	var errs []error
	for _, key := range v.Take {
		m := machines[key]
		if !tainted(m.Node) {
			errs = append(errs, c.begin(ctx, m))
			continue
		}
		errs = append(errs, c.finish(ctx, m))
	}
	for _, left := range v.Left {
		m := machines[left.Key]
		if !m.World.Leaving && tainted(m.Node) {
			errs = append(errs, c.undo(ctx, m, string(left.Because)+": "+left.Detail))
		}
	}
	return errors.Join(errs...)
}

// begin keeps new pods away from the node.
func (c *Controller) begin(ctx context.Context, m kube.Machine) error {
	return c.setTaint(ctx, m.Node, true)
}

// finish looks again, past the cache, and deletes the claim of a node that is
// still empty.
func (c *Controller) finish(ctx context.Context, m kube.Machine) error {
	found, err := c.lookAgain(ctx, m.Node)
	if err != nil {
		return err
	}
	if found != "" {
		c.Metrics.DisruptionFailedValidates.WithLabelValues("empty").Inc()
		return c.undo(ctx, m, found)
	}
	if err := c.choose(ctx, m); err != nil {
		return err
	}
	err = c.Client.Delete(ctx, m.Claim.DeepCopy(), client.Preconditions{UID: &m.Claim.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting nodeclaim %s of an empty node: %w", m.Claim.Name, err)
	}
	c.tell(m)
	return nil
}

func (c *Controller) lookAgain(ctx context.Context, n *corev1.Node) (found string, err error) {
	pods, err := lookup.PodsOn(ctx, c.Live, n.Name)
	if err != nil {
		return "", fmt.Errorf("looking again: %w", err)
	}
	now := time.Now()
	if count := homeless(pods, now); count > 0 {
		return fmt.Sprintf("%d pods arrived meanwhile", count), nil
	}
	return podProtection(pods, now), nil
}

// choose marks the claim as chosen, for people who look at it while it drains.
func (c *Controller) choose(ctx context.Context, m kube.Machine) error {
	return c.patch(ctx, m.Claim, func(claim *karpv1.NodeClaim) {
		claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, string(karpv1.DisruptionReasonEmpty), "")
	})
}

func (c *Controller) tell(m kube.Machine) {
	for _, about := range []client.Object{m.Claim, m.Node} {
		c.Events.Publish(events.Event{About: about, Reason: "DisruptionTerminating", Message: "Disrupting Node: Empty"})
	}
	c.Metrics.Disrupted(m.Claim, "empty")
	c.Metrics.DisruptionDecisions.WithLabelValues("delete", "empty", "empty").Inc()
	c.Log.Info("disrupting node(s)", "reason", "empty", "decision", "delete", "disrupted-node-count", 1,
		"replacement-node-count", 0, "pod-count", 0, "nodeclaim", m.Claim.Name, "node", m.Node.Name,
		"price", m.World.Price.USD())
}

// undo gives the node back to the scheduler.
func (c *Controller) undo(ctx context.Context, m kube.Machine, why string) error {
	if err := c.setTaint(ctx, m.Node, false); err != nil {
		return err
	}
	c.Log.Info("untainted node", "node", m.Node.Name, "reason", why)
	return c.patch(ctx, m.Claim, func(claim *karpv1.NodeClaim) {
		_ = claim.StatusConditions().Clear(karpv1.ConditionTypeDisruptionReason) // fails for dependents only
	})
}

func (c *Controller) setTaint(ctx context.Context, n *corev1.Node, on bool) error {
	changed := n.DeepCopy()
	changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isDisrupted)
	if on {
		changed.Spec.Taints = append(changed.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	}
	patch := client.MergeFromWithOptions(n, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // the next round sees the newer node
		}
		return fmt.Errorf("changing the taints of node %s: %w", n.Name, err)
	}
	if on {
		c.Log.Info("tainted node", "node", n.Name, "taint", karpv1.DisruptedTaintKey)
	}
	return nil
}

// mark keeps what others read up to date: when a pod last came or went, and
// whether the node has been quiet for long enough.
func (c *Controller) mark(ctx context.Context, machines map[string]kube.Machine, nodes []empty.Node, pools []empty.Pool, now time.Time) error {
	byName := map[string]empty.Pool{}
	for _, p := range pools {
		byName[p.Name] = p
	}
	var group errgroup.Group
	group.SetLimit(writers)
	for _, n := range nodes {
		pool, ok := byName[n.Pool]
		if !ok || n.Leaving {
			continue
		}
		_, quiet := empty.Quiet(n, pool, now)
		m := machines[n.Key]
		stamp := dueStamp(m, now)
		if stamp.IsZero() && quiet == kube.ConditionTrue(m.Claim, karpv1.ConditionTypeConsolidatable) {
			continue
		}
		group.Go(func() error {
			return c.patch(ctx, m.Claim, func(claim *karpv1.NodeClaim) { note(claim, stamp, quiet) })
		})
	}
	return group.Wait()
}

// dueStamp is the pod event to write down, zero when there is none to be written yet.
func dueStamp(m kube.Machine, now time.Time) time.Time {
	written := m.Claim.Status.LastPodEventTime.Time
	seen := m.Activity.Truncate(time.Second) // all the API keeps
	if !seen.After(written) || seen.Sub(written) < stampEvery && now.Sub(seen) < stampEvery {
		return time.Time{}
	}
	return seen
}

func note(claim *karpv1.NodeClaim, stamp time.Time, quiet bool) {
	if !stamp.IsZero() {
		claim.Status.LastPodEventTime = metav1.NewTime(stamp)
	}
	if quiet {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeConsolidatable)
		return
	}
	_ = claim.StatusConditions().Clear(karpv1.ConditionTypeConsolidatable) // fails for dependents only
}

func (c *Controller) patch(ctx context.Context, stored *karpv1.NodeClaim, change func(*karpv1.NodeClaim)) error {
	claim := stored.DeepCopy()
	change(claim)
	return write.Calm(write.Status(ctx, c.Client, claim, stored)) // the next round sees the newer claim
}
