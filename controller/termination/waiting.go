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
	named  = 5   // pods named in the event about a drain
	phrase = 150 // characters of the reason of each
)

// holdup is why a pod is still on its node: a word that does not change while
// the reason is the same, and a phrase.
type holdup struct{ word, phrase string }

// Waiting names the pods that delay a drain, with the reason of each; key changes when
// the reasons do.
func (e *Evictor) Waiting(pods []*corev1.Pod) (text, key string) {
	now := time.Now()
	first, words := firstGroup(pods, now), map[string]bool{}
	var parts []string
	for _, p := range pods {
		h := e.holdup(p, first[p], now)
		words[h.word] = true
		if len(parts) < named {
			parts = append(parts, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, shorten(h.phrase)))
		}
	}
	if len(pods) > named {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", "), strings.Join(slices.Sorted(maps.Keys(words)), " ")
}

// firstGroup returns the pods of the first group that is not empty.
func firstGroup(pods []*corev1.Pod, now time.Time) map[*corev1.Pod]bool {
	groups, _ := sort(pods, now)
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

func (e *Evictor) holdup(p *corev1.Pod, itsTurn bool, now time.Time) holdup {
	switch {
	case p.DeletionTimestamp != nil:
		return ending(p, now)
	case e.undeletable.why(p.UID) != holdup{}:
		return e.undeletable.why(p.UID)
	case !itsTurn:
		return holdup{"later", "leaves after other pods"}
	case kube.DoNotDisrupt(p, now):
		return holdup{"protected", "is marked " + karpv1.DoNotDisruptAnnotationKey}
	}
	if why := e.held.why(p.UID); why != (holdup{}) {
		return why
	}
	return holdup{"asked", "was asked to leave"}
}

// ending returns why a terminating pod has not ended.
func ending(p *corev1.Pod, now time.Time) holdup {
	left := p.DeletionTimestamp.Sub(now) // the deletion timestamp includes the pod's grace period
	switch {
	case left > 0:
		return holdup{"ending", fmt.Sprintf("is ending, %s of its grace are left", left.Round(time.Second))}
	case len(p.Finalizers) > 0:
		return holdup{"finalizers", "has ended and is kept by finalizers " + strings.Join(p.Finalizers, " ")}
	}
	return holdup{"overdue", fmt.Sprintf("should have ended %s ago", (-left).Round(time.Second))}
}

// refusal returns why an eviction was refused: the API server names the budget.
func refusal(err error) string {
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

func shorten(s string) string {
	runes := []rune(s)
	if len(runes) <= phrase {
		return s
	}
	return string(runes[:phrase-1]) + "…"
}
