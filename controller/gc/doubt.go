// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/provider"
)

const (
	// few is how many missing instances count as an accident rather than a broken list. The cloud
	// is asked about each of them before anything is done.
	few = 3
	// many is a divisor: missing instances still count as an accident while they are at most this
	// part of all instances.
	many = 10
	// convincing is how long a doubted list must stay the same before the collector acts on it.
	convincing = 10 * time.Minute
)

// reasonHalted is the reason of events about collections that are halted.
const reasonHalted = "GarbageCollectionHalted"

// errDoubted reports a list that is not acted on.
var errDoubted = errors.New("not trusting the list")

// doubtful reports whether a list lacks more than accidents explain: all instances (of at least
// two), or more than few and more than a tenth.
func doubtful(missing, known int) bool {
	return missing > max(few, known/many) || missing == known && known > 1
}

// trust reports an error while the collector must not act on the list. A list that lacks too many
// instances is not acted on until it is complete again, or has not changed for so long that the
// requests to look up every missing instance are worth it. If no instance is found, the list was
// right.
func (c *Collector) trust(ctx context.Context, missing []*karpv1.NodeClaim, known, listed int) error {
	if !doubtful(len(missing), known) {
		c.doubted = time.Time{}
		return nil
	}
	c.halt(true)
	if c.doubted.IsZero() {
		c.doubted = time.Now()
	}
	if time.Since(c.doubted) >= convincing {
		switch gone, err := c.allGone(ctx, missing); {
		case err != nil:
			return err
		case gone:
			c.Log.Info("the instances missing from the cloud's list are gone, garbage collection continues", "missing", len(missing), "known", known)
			return nil
		}
	}
	c.Events.Publish(events.Event{About: missing[0], Warning: true, Reason: reasonHalted, Key: "halted",
		Message: fmt.Sprintf("The cloud lists %d instances, but %d of %d known ones are missing: the list is not trusted", listed, len(missing), known)})
	return fmt.Errorf("%d of %d instances are missing from the cloud's list: %w", len(missing), known, errDoubted)
}

// allGone asks about one instance after the other and stops at the first that exists.
func (c *Collector) allGone(ctx context.Context, missing []*karpv1.NodeClaim) (bool, error) {
	for _, claim := range missing {
		if gone, err := c.gone(ctx, claim); err != nil || !gone {
			return false, err
		}
	}
	return true, nil
}

// tellUnreadable logs which entries of the cloud's lists were skipped, each once while it is
// there, and publishes an event on the NodeClaim.
func (c *Collector) tellUnreadable(ctx context.Context) {
	if c.UnreadableLister == nil {
		return
	}
	now := map[provider.Unreadable]bool{}
	for _, row := range c.UnreadableLister.Unreadable() {
		if now[row] = true; c.unreadable[row] {
			continue
		}
		c.Log.Error(errors.New(row.Why), "passing over what the cloud's list says, as it makes no sense", "list", row.Kind, "name", row.Name, "nodeclaim", row.Claim)
		c.tellClaim(ctx, row)
	}
	c.unreadable = now
	c.Metrics.GCUnreadable.Set(float64(len(now)))
}

func (c *Collector) tellClaim(ctx context.Context, row provider.Unreadable) {
	if row.Claim == "" {
		return
	}
	claim := &karpv1.NodeClaim{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: row.Claim}, claim); err != nil {
		if !apierrors.IsNotFound(err) {
			c.Log.Error(err, "cannot publish an event about the instance on its nodeclaim", "nodeclaim", row.Claim)
		}
		return
	}
	c.Events.Publish(events.Event{About: claim, Warning: true, Reason: "InstanceUnreadable",
		Message: fmt.Sprintf("What the list of %s says about %s makes no sense: it is left alone (%s)", row.Kind, row.Name, row.Why)})
}
