// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
)

const (
	// toleratedCount is how many missing instances count as an accident rather than an incomplete
	// list. Each of them is looked up before its claim is deleted.
	toleratedCount = 3
	// toleratedDivisor: missing instances still count as an accident while they are at most this
	// part of all instances.
	toleratedDivisor = 10
	// confirmAfter is how long an implausible list must stay so before the collector acts on it.
	confirmAfter = 10 * time.Minute
)

// reasonHalted is the reason of events about collections that are halted.
const reasonHalted = "GarbageCollectionHalted"

// errListIncomplete reports that the cloud's list seems incomplete.
var errListIncomplete = errors.New("not trusting the list")

// seemsIncomplete reports whether a list lacks more than accidents explain: all instances (of at
// least two), or more than toleratedCount and more than a tenth.
func seemsIncomplete(missing, known int) bool {
	return missing > max(toleratedCount, known/toleratedDivisor) || missing == known && known > 1
}

// checkList reports an error while the collector must not act on the list. A list that lacks too
// many instances is not acted on until it is complete again, or has not changed for so long that
// the requests to look up every missing instance are worth it. If no instance is found, the list
// was complete.
func (c *Collector) checkList(ctx context.Context, missing []*karpv1.NodeClaim, known, listed int) error {
	if !seemsIncomplete(len(missing), known) {
		c.incompleteSince = time.Time{}
		return nil
	}
	c.setHalted(true)
	if c.incompleteSince.IsZero() {
		c.incompleteSince = time.Now()
	}
	if time.Since(c.incompleteSince) >= confirmAfter {
		switch gone, err := c.allInstancesGone(ctx, missing); {
		case err != nil:
			return err
		case gone:
			c.Log.Info("the instances missing from the cloud's list are gone, garbage collection continues", "missing", len(missing), "known", known)
			return nil
		}
	}
	c.Events.Publish(events.Event{About: missing[0], Warning: true, Reason: reasonHalted, Key: "halted",
		Message: fmt.Sprintf("The cloud lists %d instances, but %d of %d known ones are missing: the list is not trusted", listed, len(missing), known)})
	return fmt.Errorf("%d of %d instances are missing from the cloud's list: %w", len(missing), known, errListIncomplete)
}

// allInstancesGone looks up one instance after the other and stops at the first that exists.
func (c *Collector) allInstancesGone(ctx context.Context, missing []*karpv1.NodeClaim) (bool, error) {
	for _, claim := range missing {
		if gone, err := c.instanceGone(ctx, claim); err != nil || !gone {
			return false, err
		}
	}
	return true, nil
}
