// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/provider"
)

// maxUnhealthyPercent is how many nodes of a pool may be unhealthy for any to be
// repaired; Karpenter's number.
const maxUnhealthyPercent = 20

// maxUnhealthy is that share of n nodes, rounded up.
func maxUnhealthy(n int) int { return (n*maxUnhealthyPercent + 99) / 100 }

// An unhealthyCondition is a condition of a node that is tolerated for a limited time.
type unhealthyCondition struct {
	condition, status string
	since, due        time.Time // when it began, when it is not tolerated any more
}

// unhealthyConditionOf returns the unhealthy condition of a node, of several the one that is due
// first, whether it is due yet or not.
func unhealthyConditionOf(n *corev1.Node, policies []provider.RepairPolicy) (worst unhealthyCondition, unhealthy bool) {
	for _, p := range policies {
		for _, c := range n.Status.Conditions {
			if string(c.Type) != p.Condition || string(c.Status) != p.Status {
				continue
			}
			a := unhealthyCondition{p.Condition, p.Status, c.LastTransitionTime.Time, c.LastTransitionTime.Add(p.Tolerate)}
			if !unhealthy || a.due.Before(worst.due) {
				worst, unhealthy = a, true
			}
		}
	}
	return worst, unhealthy
}

func (a unhealthyCondition) String() string {
	return fmt.Sprintf("condition %s is %s since %s", a.condition, a.status, a.since.UTC().Format(time.RFC3339))
}

// reason returns it as a condition's reason: NodeHealthyFalse.
func (a unhealthyCondition) reason() string {
	return a.condition[strings.LastIndex(a.condition, "/")+1:] + a.status
}

// metricLabel is the condition as metrics have it: kubernetes.azure.com/node_healthy.
func (a unhealthyCondition) metricLabel() string {
	var b strings.Builder
	var last rune
	for _, c := range a.condition {
		if unicode.IsUpper(c) && (unicode.IsLower(last) || unicode.IsDigit(last)) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
		last = c
	}
	return b.String()
}
