// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/controller/events"
)

// repeatRefusal is the interval between events on a pod about a refused request.
const repeatRefusal = 10 * time.Minute

// A removal is the kind of request that removes a pod: its eviction or its deletion.
type removal struct{ noun, reason string }

var (
	eviction = removal{"eviction", "EvictionRefused"}
	deletion = removal{"deletion", "DeletionRefused"}
)

// recordRefusal records that the API server refused to remove the pod for another reason than a
// PodDisruptionBudget: a webhook, a policy or a missing permission. The drain of the node does not
// fail for it: other pods are removed meanwhile, and the request is repeated.
func (e *Evictor) recordRefusal(p *corev1.Pod, what removal, err error) {
	requests, why := &e.evictionBackoffs, waitReason{"refused", "its " + what.noun + " is refused: " + refusalMessage(err)}
	if what == deletion {
		requests = &e.deletionBackoffs
		e.metrics.DeletionsRefused.WithLabelValues(statusCode(err)).Inc()
	}
	if requests.delay(p.UID, why) {
		e.log.Info("the API server refuses to let a pod leave", "pod", p.Namespace+"/"+p.Name, "node", p.Spec.NodeName, "request", what.noun, "reason", err.Error())
	}
	e.events.Publish(events.Event{About: p, Warning: true, Reason: what.reason, Key: what.noun, Every: repeatRefusal,
		Message: fmt.Sprintf("The API server refuses the %s of the pod, whose node %s is being removed: %s. "+
			"Have the webhook or policy that denies it allow it, apply what `karve rbac` prints if a permission is missing, or delete the pod yourself. It is tried again",
			what.noun, p.Spec.NodeName, refusalMessage(err))})
}

// splitUndeletable separates the pods that the node waits for from the pods that it does not wait
// for: past its deadline, pods whose deletion the API server refuses. A zero deadline means that
// there is none.
func (e *Evictor) splitUndeletable(pods []*corev1.Pod, deadline time.Time) (waiting, skipped []*corev1.Pod) {
	if deadline.IsZero() || time.Now().Before(deadline) {
		return pods, nil
	}
	refused := func(p *corev1.Pod) bool { return e.deletionBackoffs.reason(p.UID) != waitReason{} }
	for _, p := range pods {
		if refused(p) {
			skipped = append(skipped, p)
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), refused), skipped
}
