// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/provider"
)

// pollEvery is how often the provider is asked, from memory, which instances have changed.
const pollEvery = 10 * time.Second

// listener queues claims as soon as the provider notices that their instances have
// changed, and not at the next round.
type listener struct {
	provider provider.DriftNotifier
	wake     chan event.GenericEvent
}

// listen works until ctx ends.
func (l listener) listen(ctx context.Context) error {
	for {
		for _, name := range l.provider.DriftChanged() {
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
			select {
			case l.wake <- event.GenericEvent{Object: claim}:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollEvery):
		}
	}
}
