// SPDX-License-Identifier: Apache-2.0

package drift_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// A release that drifts every node at once is rolled out within the budget and
// outside of the hours that the pool excludes, at every instant.
//
// Rule DRIFT-12.
func TestReleaseKeepsToBudgetAndWindow(t *testing.T) {
	const nodes, tenth, lasts = 43, 5, 25 * time.Minute // a tenth is rounded up; how long a node is down
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	workday, twelve := "0 8 * * mon-fri", metav1.Duration{Duration: 12 * time.Hour}
	drifted := []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}
	pool.Spec.Disruption.Budgets = []karpv1.Budget{
		{Nodes: "10%", Reasons: drifted},
		{Nodes: "0", Reasons: drifted, Schedule: &workday, Duration: &twelve},
		{Nodes: "50%", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonEmpty}},
	}
	start := time.Date(2026, 3, 5, 6, 0, 0, 0, time.UTC) // a Thursday
	back := make([]time.Time, nodes)                     // when its replacement is done, zero before
	begun := map[string]int{}
	var done time.Time
	for now := start; now.Before(start.Add(7 * 24 * time.Hour)); now = now.Add(5 * time.Minute) {
		p, problems := kube.DisruptionPool(pool, now)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		var all []disrupt.Node
		left, down := 0, 0
		for i := range back {
			n := disrupt.Node{Key: fmt.Sprint("node-", i), Pool: "web", Created: start, Initialized: start, Ready: true}
			switch {
			case back[i].IsZero():
				left++
				n.Due = []disrupt.DueCause{{Cause: disrupt.Drifted, Detail: "ImageDrift", Since: start}}
			case now.Before(back[i]):
				down++
				n.MarkedForDeletion = true
			}
			all = append(all, n)
		}
		if down > tenth {
			t.Fatalf("%s: %d nodes are down, %d may be", now, down, tenth)
		}
		if left == 0 && done.IsZero() {
			done = now
		}
		allowed, _ := disrupt.AllowedDisruptions(&p, disrupt.CountNodes(&disrupt.Input{Now: now, Nodes: all})["web"], disrupt.Drifted)
		for i := range back {
			if allowed > 0 && back[i].IsZero() {
				back[i] = now.Add(lasts)
				begun[now.Weekday().String()[:3]]++
				allowed--
				if h := now.Hour(); h >= 8 && h < 20 && now.Weekday() != time.Saturday && now.Weekday() != time.Sunday {
					t.Fatalf("a node went on %s", now)
				}
			}
		}
	}
	// Two hours are left that Thursday morning: five batches of 25 minutes; the rest follows after
	// 20:00.
	if begun["Thu"] != nodes || done.Sub(start) > 16*time.Hour {
		t.Errorf("nodes began on %v and were through at %s", begun, done)
	}
}
