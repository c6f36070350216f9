// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/provider"
)

// reportUnreadable logs which entries of the cloud's lists were skipped, each once while it is
// there, and publishes an event on the NodeClaim.
func (c *Collector) reportUnreadable(ctx context.Context) {
	if c.UnreadableLister == nil {
		return
	}
	current := map[provider.Unreadable]bool{}
	for _, entry := range c.UnreadableLister.Unreadable() {
		if current[entry] = true; c.unreadable[entry] {
			continue
		}
		c.Log.Error(errors.New(entry.Why), "skipping a malformed entry of the cloud's list", "list", entry.Kind, "name", entry.Name, "nodeclaim", entry.Claim)
		c.reportUnreadableInstance(ctx, entry)
	}
	c.unreadable = current
	c.Metrics.GCUnreadable.Set(float64(len(current)))
}

// reportUnreadableInstance publishes an event on the NodeClaim of a skipped entry.
func (c *Collector) reportUnreadableInstance(ctx context.Context, entry provider.Unreadable) {
	if entry.Claim == "" {
		return
	}
	claim := &karpv1.NodeClaim{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: entry.Claim}, claim); err != nil {
		if !apierrors.IsNotFound(err) {
			c.Log.Error(err, "cannot publish an event about the instance on its nodeclaim", "nodeclaim", entry.Claim)
		}
		return
	}
	c.Events.Publish(events.Event{About: claim, Warning: true, Reason: "InstanceUnreadable",
		Message: fmt.Sprintf("The entry of %s in the list of %s is malformed: it is left alone (%s)", entry.Name, entry.Kind, entry.Why)})
}
