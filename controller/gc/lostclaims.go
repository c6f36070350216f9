// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
)

const reasonOrphaned = "OrphanedInstances"

// errClaimsLost reports that instances are kept because their claims may be lost.
var errClaimsLost = errors.New("not trusting the list of nodeclaims")

// seemLost reports whether more instances have no claim than accidents explain: more than
// toleratedCount and more than a tenth, or all of them while one of them may run pods.
func seemLost(orphans []orphan, instances int) bool {
	return len(orphans) > max(toleratedCount, instances/toleratedDivisor) || len(orphans) == instances && slices.ContainsFunc(orphans, orphan.mayRunPods)
}

// approveOrphans returns the orphans that may be terminated. It says on all NodePools what it keeps
// back. When claims were lost (for
// example by a restore of etcd), or belong to another cluster of the same name, no orphan is
// terminated until that is resolved: the claims are back, the instances run nothing in this
// cluster any more, or a user confirms it.
func (c *Collector) approveOrphans(ctx context.Context, orphans []orphan, instances int) ([]orphan, error) {
	confirmed, unconfirmed := c.splitConfirmed(orphans)
	if !seemLost(unconfirmed, instances) {
		c.claimsLostSince = time.Time{}
		_, err := c.takeConfirmations(ctx, "")
		return orphans, errors.Join(err, c.reportOnPools(ctx, nil))
	}
	if c.claimsLostSince.IsZero() {
		c.claimsLostSince = time.Now()
	}
	lost := lostClaims{unconfirmed, instances, confirmationToken(unconfirmed, c.claimsLostSince)}
	approved, err := c.takeConfirmations(ctx, lost.token)
	if approved {
		c.confirm(unconfirmed)
	}
	if approved || time.Since(c.claimsLostSince) >= confirmAfter && !slices.ContainsFunc(unconfirmed, func(o orphan) bool { return !o.runsNothing() }) {
		c.Log.Info("terminating instances without a nodeclaim", "instances", len(unconfirmed), "confirmed", approved)
		return orphans, errors.Join(err, c.reportOnPools(ctx, nil))
	}
	return confirmed, errors.Join(err, c.reportOnPools(ctx, &lost), fmt.Errorf("%d of %d instances have no nodeclaim: %w", len(unconfirmed), instances, errClaimsLost))
}

// splitConfirmed separates the orphans that a user has confirmed from the others. A confirmation
// ends once the instance has a claim.
func (c *Collector) splitConfirmed(orphans []orphan) (confirmed, unconfirmed []orphan) {
	still := map[string]bool{}
	for _, o := range orphans {
		if c.confirmed[o.id()] {
			still[o.id()] = true
			confirmed = append(confirmed, o)
			continue
		}
		unconfirmed = append(unconfirmed, o)
	}
	c.confirmed = still
	return confirmed, unconfirmed
}

func (c *Collector) confirm(orphans []orphan) {
	for _, o := range orphans {
		c.confirmed[o.id()] = true
	}
}

// confirmationToken identifies these instances and when their claims were lost, so that a
// confirmation applies to no others.
func confirmationToken(orphans []orphan, since time.Time) string {
	var ids []string
	for _, o := range orphans {
		ids = append(ids, o.id())
	}
	slices.Sort(ids)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", since.UnixNano(), strings.Join(ids, " ")))
	return fmt.Sprintf("%d-%x", len(orphans), sum[:6])
}

// takeConfirmations removes the confirming annotation from every NodePool and reports whether one
// had the token as its value. It does so before anything is terminated, so that no annotation
// applies to a later halt.
func (c *Collector) takeConfirmations(ctx context.Context, token string) (approved bool, err error) {
	pools, err := c.pools(ctx)
	if err != nil {
		return false, err
	}
	var errs []error
	for _, pool := range pools {
		value, has := pool.Annotations[kube.CollectOrphansAnnotation]
		if !has {
			continue
		}
		stored := pool.DeepCopy()
		delete(pool.Annotations, kube.CollectOrphansAnnotation)
		if err := c.Client.Patch(ctx, pool, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})); err != nil {
			errs = append(errs, fmt.Errorf("removing the confirmation from nodepool %s: %w", stored.Name, err))
			continue
		}
		applies := token != "" && value == token
		approved = approved || applies
		c.reportConfirmation(pool, value, applies)
	}
	return approved, errors.Join(errs...)
}

func (c *Collector) reportConfirmation(pool *karpv1.NodePool, value string, applies bool) {
	e := events.Event{About: pool, Reason: "OrphanedInstancesConfirmed", Message: "The instances without a NodeClaim are terminated, because " + value + " confirms"}
	if !applies {
		e.Warning, e.Reason = true, "ConfirmationIgnored"
		e.Message = fmt.Sprintf("The annotation %s=%s confirms nothing that is held back now. What the condition %s says, if it is there, has the value to use",
			kube.CollectOrphansAnnotation, value, kube.ConditionInstancesClaimed)
	}
	c.Events.Publish(e)
}

// lostClaims describes the instances that are kept although they have no claim. token is what a
// user confirms.
type lostClaims struct {
	orphans   []orphan
	instances int
	token     string
}

// text describes the kept instances on a NodePool, and what to do about them.
func (l *lostClaims) text(pool string) string {
	var names []string
	mayRunPods := 0
	for _, o := range l.orphans {
		if len(names) < toleratedCount {
			names = append(names, o.instance.Name)
		}
		if o.mayRunPods() {
			mayRunPods++
		}
	}
	return fmt.Sprintf("%d of %d instances have no NodeClaim, and the Nodes of %d of them are ready (%s, …): NodeClaims may be lost, or another cluster has the same name. "+
		"These instances are kept. Restore the NodeClaims, or terminate all these instances with: kubectl annotate nodepool %s %s=%s",
		len(l.orphans), l.instances, mayRunPods, strings.Join(names, ", "), pool, kube.CollectOrphansAnnotation, l.token)
}

// reportOnPools sets the condition on all NodePools that instances are kept, and why; nil clears
// it.
func (c *Collector) reportOnPools(ctx context.Context, lost *lostClaims) error {
	c.Metrics.OrphanedInstances.Set(0)
	if lost != nil {
		c.Metrics.OrphanedInstances.Set(float64(len(lost.orphans)))
	}
	pools, err := c.pools(ctx)
	errs := []error{err}
	for _, pool := range pools {
		stored := pool.DeepCopy()
		if lost == nil {
			// Fails for conditions that Ready depends on.
			_ = pool.StatusConditions().Clear(kube.ConditionInstancesClaimed)
		} else {
			text := lost.text(pool.Name)
			pool.StatusConditions().SetFalse(kube.ConditionInstancesClaimed, reasonOrphaned, text)
			c.Events.Publish(events.Event{About: pool, Warning: true, Reason: reasonHalted, Key: "orphans", Every: confirmAfter, Message: text})
		}
		errs = append(errs, write.IgnoreConflict(write.Status(ctx, c.Client, pool, stored)))
	}
	return errors.Join(errs...)
}

// pools lists the NodePools of this installation's kind of node class.
func (c *Collector) pools(ctx context.Context) ([]*karpv1.NodePool, error) {
	list := &karpv1.NodePoolList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing nodepools: %w", err)
	}
	var pools []*karpv1.NodePool
	for i := range list.Items {
		if kube.OfKind(list.Items[i].Spec.Template.Spec.NodeClassRef, c.NodeClassKind) {
			pools = append(pools, &list.Items[i])
		}
	}
	return pools, nil
}
