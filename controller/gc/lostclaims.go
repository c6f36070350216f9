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

const reasonOrphaned = "OrphanedMachines"

// errClaimsLost reports that instances are kept because their claims may be lost.
var errClaimsLost = errors.New("not trusting the list of nodeclaims")

// lost reports whether more instances have no claim than accidents explain: more than few and
// more than a tenth, or all of them while one of them works.
func lost(orphans []orphan, machines int) bool {
	return len(orphans) > max(few, machines/many) || len(orphans) == machines && slices.ContainsFunc(orphans, orphan.works)
}

// trustClaims returns the orphans that may be terminated. When claims were lost (for example by a
// restore of etcd), or belong to another cluster of the same name, no orphan is terminated until
// that is resolved: the claims are back, the instances run nothing in this cluster any more, or a
// user confirms it.
func (c *Collector) trustClaims(ctx context.Context, orphans []orphan, machines int) ([]orphan, error) {
	confirmed, open := c.byConfirmation(orphans)
	if !lost(open, machines) {
		c.lostSince = time.Time{}
		_, err := c.confirmation(ctx, "")
		return orphans, errors.Join(err, c.tellPools(ctx, nil))
	}
	if c.lostSince.IsZero() {
		c.lostSince = time.Now()
	}
	halt := halted{open, machines, markOf(open, c.lostSince)}
	yes, err := c.confirmation(ctx, halt.mark)
	if yes {
		c.confirm(open)
	}
	if yes || time.Since(c.lostSince) >= convincing && !slices.ContainsFunc(open, func(o orphan) bool { return !o.over() }) {
		c.Log.Info("terminating instances without a nodeclaim", "instances", len(open), "confirmed", yes)
		return orphans, errors.Join(err, c.tellPools(ctx, nil))
	}
	return confirmed, errors.Join(err, c.tellPools(ctx, &halt), fmt.Errorf("%d of %d instances have no nodeclaim: %w", len(open), machines, errClaimsLost))
}

// byConfirmation separates the orphans that a user has confirmed from the others. A confirmation
// ends once the instance has a claim.
func (c *Collector) byConfirmation(orphans []orphan) (confirmed, open []orphan) {
	still := map[string]bool{}
	for _, o := range orphans {
		if c.confirmed[o.id()] {
			still[o.id()] = true
			confirmed = append(confirmed, o)
			continue
		}
		open = append(open, o)
	}
	c.confirmed = still
	return confirmed, open
}

func (c *Collector) confirm(orphans []orphan) {
	for _, o := range orphans {
		c.confirmed[o.id()] = true
	}
}

// markOf is a name for these instances in this halt, so that a confirmation applies to no others.
func markOf(orphans []orphan, since time.Time) string {
	var ids []string
	for _, o := range orphans {
		ids = append(ids, o.id())
	}
	slices.Sort(ids)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", since.UnixNano(), strings.Join(ids, " ")))
	return fmt.Sprintf("%d-%x", len(orphans), sum[:6])
}

// confirmation reports whether a NodePool's annotation has the mark as its value. It removes
// every such annotation before anything is done, so that none applies to a later halt.
func (c *Collector) confirmation(ctx context.Context, mark string) (yes bool, err error) {
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
			errs = append(errs, fmt.Errorf("taking the confirmation off nodepool %s: %w", stored.Name, err))
			continue
		}
		right := mark != "" && value == mark
		yes = yes || right
		c.tellConfirmation(pool, value, right)
	}
	return yes, errors.Join(errs...)
}

func (c *Collector) tellConfirmation(pool *karpv1.NodePool, value string, right bool) {
	e := events.Event{About: pool, Reason: "OrphanedInstancesConfirmed", Message: "The instances without a NodeClaim are terminated, because " + value + " confirms"}
	if !right {
		e.Warning, e.Reason = true, "ConfirmationIgnored"
		e.Message = fmt.Sprintf("The annotation %s=%s confirms nothing that is held back now. What the condition %s says, if it is there, has the value to use",
			kube.CollectOrphansAnnotation, value, kube.ConditionInstancesClaimed)
	}
	c.Events.Publish(e)
}

// halted is a collection that keeps instances without a claim.
type halted struct {
	orphans  []orphan
	machines int
	mark     string
}

func (h *halted) text(pool string) string {
	var names []string
	working := 0
	for _, o := range h.orphans {
		if len(names) < few {
			names = append(names, o.machine.Name)
		}
		if o.works() {
			working++
		}
	}
	return fmt.Sprintf("%d of %d instances have no NodeClaim, and the Nodes of %d of them are ready (%s, …): NodeClaims may be lost, or another cluster has the same name. "+
		"These instances are kept. Restore the NodeClaims, or terminate all these instances with: kubectl annotate nodepool %s %s=%s",
		len(h.orphans), h.machines, working, strings.Join(names, ", "), pool, kube.CollectOrphansAnnotation, h.mark)
}

// tellPools sets the condition on all NodePools that instances are kept, and why; nil clears it.
func (c *Collector) tellPools(ctx context.Context, h *halted) error {
	c.Metrics.OrphanedInstances.Set(0)
	if h != nil {
		c.Metrics.OrphanedInstances.Set(float64(len(h.orphans)))
	}
	pools, err := c.pools(ctx)
	errs := []error{err}
	for _, pool := range pools {
		stored := pool.DeepCopy()
		if h == nil {
			// Fails for conditions that Ready depends on.
			_ = pool.StatusConditions().Clear(kube.ConditionInstancesClaimed)
		} else {
			text := h.text(pool.Name)
			pool.StatusConditions().SetFalse(kube.ConditionInstancesClaimed, reasonOrphaned, text)
			c.Events.Publish(events.Event{About: pool, Warning: true, Reason: reasonHalted, Key: "orphans", Every: convincing, Message: text})
		}
		errs = append(errs, write.Calm(write.Status(ctx, c.Client, pool, stored)))
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
		if kube.OfKind(list.Items[i].Spec.Template.Spec.NodeClassRef, c.Class) {
			pools = append(pools, &list.Items[i])
		}
	}
	return pools, nil
}
