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
		for _, f := range c.Watch.Faults[seen:] {
			if rule := os.Getenv("LIFE_RULE"); rule == "" || rule == f.Rule {
				t.Logf("%s\n  %s", f, strings.Join(c.diary[max(0, len(c.diary)-30):], "\n  "))
			}
		}
		seen = len(c.Watch.Faults)
	}
	t.Logf("%s, %+v", c.Bill(), c.Stats)
	for _, l := range c.mind.Search(c.view.world(), c.facts(nil)).Kept {
		m := c.machine(l.Key)
		var pods []string
		for _, p := range m.pods {
			pods = append(pods, p.uid)
		}
		t.Logf("%s %v %s: %s %s, %s; %v", l.Key, m.deal, c.market.price(m.deal), l.Because, l.Detail, l.Costs, pods)
	}
	for _, m := range c.machines {
		if m.move != nil || m.deleting || m.notReady || m.initialized.IsZero() {
			t.Logf("%s: move %v, deleting %v, not ready %v, initialized %s", m.key, m.move != nil, m.deleting, m.notReady, m.initialized)
		}
	}
	t.Log(strings.Join(c.diary[max(0, len(c.diary)-30):], "\n  "))
	for _, w := range c.workloads {
		t.Logf("%s x%d %dm %dMi pool=%q on-demand=%v spread=%v apart=%v down=%d", w.Name, w.Replicas, w.Milli, w.MiB, w.Pool, w.OnDemand, w.Spread, w.Apart, w.MaxDown)
	}
	for _, p := range c.Pools {
		t.Logf("%+v", *p)
	}
}
