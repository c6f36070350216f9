// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/kube"
)

// tries is how often a write is tried at once after conflicts with other writes to
// the Node.
const tries = 5

// mark writes the next event on the Node, or removes it if there is none: the taint and the time
// in one patch, so that no reader sees one without the other, and no patch when nothing changes.
func (a *Agent) mark(ctx context.Context, e Event, coming bool) error {
	var err error
	for range tries {
		if err = a.markOnce(ctx, e, coming); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("writing the VM's scheduled events on node %s: %w", a.Node, err)
	}
	return nil
}

func (a *Agent) markOnce(ctx context.Context, e Event, coming bool) error {
	stored := &corev1.Node{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Node}, stored); err != nil {
		return err
	}
	node := stored.DeepCopy()
	if coming {
		announce(node, e, time.Now())
	} else {
		unmark(node)
	}
	if equality.Semantic.DeepEqual(stored, node) {
		return nil
	}
	// Taints are one value to a patch: it insists on the version that was read.
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := a.Client.Patch(ctx, node, patch); err != nil {
		return err
	}
	a.Log.Info("wrote the VM's scheduled events on the node", "node", a.Node, "coming", coming, "kind", e.Kind, "leaves", node.Annotations[kube.NotBeforeAnnotation])
	return nil
}

// announce puts the event on the node. The time of one that has started is when it was
// to start, or now.
func announce(n *corev1.Node, e Event, now time.Time) {
	at := e.at()
	if before, err := time.Parse(time.RFC3339, n.Annotations[kube.NotBeforeAnnotation]); e.started() && err == nil && kindOf(n) == e.Kind {
		at = before
	}
	if e.started() && (at.IsZero() || at.After(now)) {
		at = now
	}
	unmark(n)
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: kube.InterruptionTaint, Value: e.Kind, Effect: corev1.TaintEffectNoSchedule})
	if at.IsZero() {
		return
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[kube.NotBeforeAnnotation] = at.UTC().Format(time.RFC3339)
}

// unmark takes off whatever announce put there.
func unmark(n *corev1.Node) {
	n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == kube.InterruptionTaint })
	delete(n.Annotations, kube.NotBeforeAnnotation)
}

func kindOf(n *corev1.Node) string {
	for _, t := range n.Spec.Taints {
		if t.Key == kube.InterruptionTaint {
			return t.Value
		}
	}
	return ""
}
