// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/controller/events"
)

// repeatRefusal is how often a pod is told again of what the API server refuses.
const repeatRefusal = 10 * time.Minute

// A removal is what the API server is asked for to have a pod leave.
type removal struct{ noun, reason string }

var (
	eviction = removal{"eviction", "EvictionRefused"}
	deletion = removal{"deletion", "DeletionRefused"}
)

// refuse notes that the API server does not let the pod leave, for another reason than a
// disruption budget: a webhook, a policy or a missing permission. That is the pod's matter,
// and no failure of its node's drain: other pods leave meanwhile, and it is asked again.
func (e *Evictor) refuse(p *corev1.Pod, what removal, err error) {
	asked, why := &e.held, holdup{"refused", "its " + what.noun + " is refused: " + refusal(err)}
	if what == deletion {
		asked = &e.undeletable
		e.metrics.DeletionsRefused.WithLabelValues(code(err)).Inc()
	}
	if asked.hold(p.UID, why) {
		e.log.Info("the API server refuses to let a pod leave", "pod", p.Namespace+"/"+p.Name, "node", p.Spec.NodeName, "request", what.noun, "reason", err.Error())
	}
	e.events.Publish(events.Event{About: p, Warning: true, Reason: what.reason, Key: what.noun, Every: repeatRefusal,
		Message: fmt.Sprintf("The API server refuses the %s of the pod, whose node %s is being removed: %s. "+
			"Have the webhook or policy that denies it allow it, apply what `karve rbac` prints if a permission is missing, or delete the pod yourself. It is tried again",
			what.noun, p.Spec.NodeName, refusal(err))})
}

// split tells the pods that the node waits for from those that it goes without: past its
// deadline, pods whose deletion the API server refuses. A zero deadline never comes.
func (e *Evictor) split(pods []*corev1.Pod, deadline time.Time) (counted, without []*corev1.Pod) {
	if deadline.IsZero() || time.Now().Before(deadline) {
		return pods, nil
	}
	refused := func(p *corev1.Pod) bool { return e.undeletable.why(p.UID) != holdup{} }
	for _, p := range pods {
		if refused(p) {
			without = append(without, p)
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), refused), without
}
