// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDebug prints the events before each fault of the day with the seed in LIFE_SEED, and with
// LIFE_RULE only before those of that rule.
func TestDebug(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("LIFE_SEED"), 10, 64)
	if err != nil {
		t.Skip("LIFE_SEED is not set")
	}
	c := Day(seed, nil)
	seen := 0
	for range 24 * 60 {
		c.Live(time.Minute)
		for _, f := range c.Checker.Violations[seen:] {
			if rule := os.Getenv("LIFE_RULE"); rule == "" || rule == f.Rule {
				t.Logf("%s\n  %s", f, strings.Join(c.log[max(0, len(c.log)-30):], "\n  "))
			}
		}
		seen = len(c.Checker.Violations)
	}
	t.Logf("%s, %+v", c.Costs(), c.Stats)
	for _, l := range c.decider.Search(c.mirror.snapshot(), c.disruption.input(nil)).Kept {
		m := c.nodes.find(l.Key)
		var pods []string
		for _, p := range m.pods {
			pods = append(pods, p.uid)
		}
		t.Logf("%s %v %s: %s %s, %s; %v", l.Key, m.offering, c.catalog.price(m.offering), l.Because, l.Detail, l.WouldSave, pods)
	}
	for _, m := range c.nodes.list {
		if m.move != nil || m.isDeleting() || m.notReady || m.initialized.IsZero() {
			t.Logf("%s: move %v, deleting %v, not ready %v, initialized %s", m.key, m.move != nil, m.isDeleting(), m.notReady, m.initialized)
		}
	}
	t.Log(strings.Join(c.log[max(0, len(c.log)-30):], "\n  "))
	for _, w := range c.workloads.list {
		t.Logf("%s x%d %dm %dMi pool=%q on-demand=%v spread=%v apart=%v down=%d", w.Name, w.Replicas, w.Milli, w.MiB, w.Placement.Pool, w.Placement.OnDemand, w.Placement.Spread, w.Placement.OnePerNode, w.MaxUnavailable)
	}
	for _, p := range c.Pools {
		t.Logf("%+v", *p)
	}
}
