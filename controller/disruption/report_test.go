// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/engine/disrupt"
)

// decided is scripted, but karve decides itself.
func decided(t *testing.T, n int, change func(*disruption.Options)) *controllertest.Env {
	t.Helper()
	e, _ := scripted(t, n, disrupt.Underutilized)
	e.Disrupt = func(c *disruption.Options) {
		c.Validation = 15 * time.Second
		if change != nil {
			change(c)
		}
	}
	e.Restart()
	e.Pace = time.Second
	return e
}

// A consolidation waits until it was valid for a while, and events on all objects concerned
// report the move and its savings.
//
// Rule MOVE-6, Rule MOVE-8, Rule METRIC-1.
func TestConsolidationIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		e := decided(t, 2, func(c *disruption.Options) {
			c.Log = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		})
		nodes := e.Nodes()
		e.Pace = 10 * time.Second
		e.Until(60, "a node is chosen", func() bool { return said(e, nodes[0].Name, nodes[1].Name, "ConsolidationCandidate") })
		e.Pace = time.Second
		chosen := time.Now()
		if taintedNodes(e) > 0 {
			t.Error("a node was tainted as soon as it was chosen")
		}
		e.Until(40, "a node is tainted", func() bool { live(e, 2); return taintedNodes(e) > 0 })
		if d := time.Since(chosen); d < 5*time.Second || d > 30*time.Second {
			t.Errorf("tainted %s after it was chosen", d)
		}
		e.Pace = 5 * time.Second
		e.Until(200, "one node that runs everything", func() bool { live(e, 2); return settled(e, 2) })
		synctest.Wait()
		told := false // on the claim or its node: events of one instant have one name here
		for _, name := range e.EventNames() {
			told = told || slices.Contains(e.EventTexts(name), "DisruptionTerminating: Disrupting Node: Underutilized")
		}
		if !told {
			t.Errorf("nobody was told: %q", e.EventNames())
		}
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"disrupting node(s)"`) })
		if i < 0 || !strings.Contains(lines[i], `"reason"="underutilized"`) || !strings.Contains(lines[i], `"saves-per-month"`) {
			t.Errorf("the log does not say what is done:\n%s", strings.Join(lines, "\n"))
		}
		for _, l := range lines {
			t.Log(l)
		}
		for _, name := range []string{"karpenter_voluntary_disruption_decisions_total", "karpenter_voluntary_disruption_decisions_by_nodepool_total",
			"karpenter_consolidation_moves_total", "karpenter_pods_disruption_initiated_total"} {
			if got := e.Counter(name); got < 1 {
				t.Errorf("%s is %v", name, got)
			}
		}
		if saved := e.Counter("karve_consolidation_saved_usd_per_hour_total"); saved <= 0 {
			t.Errorf("the consolidation is said to save $%v an hour", saved)
		}
	})
}

// said reports whether an event about one of two objects begins so.
func said(e *controllertest.Env, a, b, begin string) bool {
	synctest.Wait()
	return slices.ContainsFunc(append(e.EventTexts(a), e.EventTexts(b)...), func(s string) bool { return strings.HasPrefix(s, begin) })
}

// Nodes whose pods may leave soon are left alone, and say so, as long as that costs more than it saves.
//
// Rule CONSOLIDATION-24.
func TestShortLivedPodsAreNotMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := decided(t, 2, func(c *disruption.Options) { c.Settings.ExpectedStay = 10_000 * time.Hour }) // the nodes are large
		now := metav1.Now()
		for _, p := range e.Pods() {
			p.Status.StartTime = &now
			if err := e.API.Status().Update(t.Context(), &p); err != nil {
				t.Fatal(err)
			}
		}
		e.Pace = 20 * time.Second
		e.Steps(60)
		synctest.Wait()
		nodes := e.Nodes()
		if len(nodes) != 2 || taintedNodes(e) > 0 {
			t.Fatalf("%d nodes, %d of them tainted", len(nodes), taintedNodes(e))
		}
		for _, node := range nodes {
			if texts := e.EventTexts(node.Name); !slices.ContainsFunc(texts, func(s string) bool {
				return strings.HasPrefix(s, "Unconsolidatable: Its pods may leave by themselves") && strings.Contains(s, "may be expected to stay for another")
			}) {
				t.Errorf("node %s does not say why it stays: %q", node.Name, texts)
			}
		}
		e.Disrupt = func(c *disruption.Options) { c.Settings.ExpectedStay = 0 }
		e.Restart()
		e.Pace = 5 * time.Second
		e.Until(200, "one node that runs everything", func() bool { live(e, 2); return settled(e, 2) })
	})
}

// An event on a node that is kept gives the reason and its cost; the pool's gauge adds the costs
// up.
//
// Rule MOVE-8.
func TestNodesThatStaySayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := decided(t, 2, nil)
		for i := range 2 {
			pod := controllertest.Get(e, small(i), fmt.Sprint("web-", i))
			protect(e, pod, pod.Name)
		}
		e.Pace = 20 * time.Second
		e.Steps(30)
		synctest.Wait()
		for _, node := range e.Nodes() {
			texts := e.EventTexts(node.Name)
			if !slices.ContainsFunc(texts, func(s string) bool {
				return strings.HasPrefix(s, `DisruptionBlocked: Pod has "karpenter.sh/do-not-disrupt" annotation`)
			}) {
				t.Errorf("%s says %q", node.Name, texts)
			}
			t.Logf("%q", texts)
		}
		if len(e.Nodes()) != 2 || taintedNodes(e) > 0 {
			t.Error("a protected node was touched")
		}
		if got := e.Counter("karve_nodepools_blocked_cost_usd_per_month"); got <= 0 {
			t.Errorf("what the pinned nodes cost is said to be %v", got)
		}
	})
}
