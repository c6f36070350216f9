// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

const (
	maxNamedPods    = 5   // pods named in the event about a drain
	maxReasonLength = 150 // characters of the reason of each
)

// waitReason is why a pod is still on its node: a code that does not change while the reason is
// the same, and a text for events.
type waitReason struct{ code, text string }

// DescribeWaiting names the pods that delay a drain, with the reason of each; key changes when the
// reasons do.
func (e *Evictor) DescribeWaiting(pods []*corev1.Pod) (text, key string) {
	now := time.Now()
	first, codes := firstGroup(pods, now), map[string]bool{}
	var parts []string
	for _, p := range pods {
		h := e.reasonFor(p, first[p], now)
		codes[h.code] = true
		if len(parts) < maxNamedPods {
			parts = append(parts, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, shorten(h.text)))
		}
	}
	if len(pods) > maxNamedPods {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", "), strings.Join(slices.Sorted(maps.Keys(codes)), " ")
}

// firstGroup returns the pods of the first group that is not empty.
func firstGroup(pods []*corev1.Pod, now time.Time) map[*corev1.Pod]bool {
	groups, _ := groupByOrder(pods, now)
	first := map[*corev1.Pod]bool{}
	for _, group := range groups {
		for _, p := range group {
			first[p] = true
		}
		if len(group) > 0 {
			break
		}
	}
	return first
}

// reasonFor returns why a pod is still on its node.
func (e *Evictor) reasonFor(p *corev1.Pod, inFirstGroup bool, now time.Time) waitReason {
	switch {
	case p.DeletionTimestamp != nil:
		return endingReason(p, now)
	case e.deletionBackoffs.reason(p.UID) != waitReason{}:
		return e.deletionBackoffs.reason(p.UID)
	case !inFirstGroup:
		return waitReason{"later", "leaves after other pods"}
	case kube.DoNotDisrupt(p, now):
		return waitReason{"protected", "is marked " + karpv1.DoNotDisruptAnnotationKey}
	}
	if why := e.evictionBackoffs.reason(p.UID); why != (waitReason{}) {
		return why
	}
	return waitReason{"asked", "was asked to leave"}
}

// endingReason returns why a terminating pod has not ended.
func endingReason(p *corev1.Pod, now time.Time) waitReason {
	left := p.DeletionTimestamp.Sub(now) // the deletion timestamp includes the pod's grace period
	switch {
	case left > 0:
		return waitReason{"ending", fmt.Sprintf("is ending, %s of its grace are left", left.Round(time.Second))}
	case len(p.Finalizers) > 0:
		return waitReason{"finalizers", "has ended and is kept by finalizers " + strings.Join(p.Finalizers, " ")}
	}
	return waitReason{"overdue", fmt.Sprintf("should have ended %s ago", (-left).Round(time.Second))}
}

// refusalMessage returns why an eviction was refused: the API server names the
// PodDisruptionBudget.
func refusalMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return cause.Message
			}
		}
	}
	return err.Error()
}

// shorten cuts a text to maxReasonLength.
func shorten(s string) string {
	runes := []rune(s)
	if len(runes) <= maxReasonLength {
		return s
	}
	return string(runes[:maxReasonLength-1]) + "…"
}
