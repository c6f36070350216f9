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

// tolerablePercent is how many nodes of a pool may be broken for any to be
// repaired; Karpenter's number.
const tolerablePercent = 20

// tolerable is that share of n nodes, rounded up.
func tolerable(n int) int { return (n*tolerablePercent + 99) / 100 }

// An ailment is a condition of a node that is not tolerated for ever.
type ailment struct {
	condition, status string
	since, due        time.Time // when it began, when it is not tolerated any more
}

// diagnose returns the unhealthy condition of a node, of several the one that is due first,
// whether it is due yet or not.
func diagnose(n *corev1.Node, policies []provider.RepairPolicy) (worst ailment, ill bool) {
	for _, p := range policies {
		for _, c := range n.Status.Conditions {
			if string(c.Type) != p.Condition || string(c.Status) != p.Status {
				continue
			}
			a := ailment{p.Condition, p.Status, c.LastTransitionTime.Time, c.LastTransitionTime.Add(p.Tolerate)}
			if !ill || a.due.Before(worst.due) {
				worst, ill = a, true
			}
		}
	}
	return worst, ill
}

func (a ailment) String() string {
	return fmt.Sprintf("condition %s is %s since %s", a.condition, a.status, a.since.UTC().Format(time.RFC3339))
}

// word returns the ailment as a condition's reason: NodeHealthyFalse.
func (a ailment) word() string {
	return a.condition[strings.LastIndex(a.condition, "/")+1:] + a.status
}

// snake is the condition as metrics have it: kubernetes.azure.com/node_healthy.
func (a ailment) snake() string {
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
