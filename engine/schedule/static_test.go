// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

func static(t *testing.T, script, pool string, n int) []schedule.Launch {
	t.Helper()
	s, err := enginetest.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	return schedule.StaticLaunches(s.Snapshot(), pool, n)
}

// types lists the first offerings' types and, in parentheses, how many offerings there are.
func types(launches []schedule.Launch) []string {
	var out []string
	for _, l := range launches {
		out = append(out, fmt.Sprintf("%s (%d)", l.Offerings[0].Type, len(l.Offerings)))
	}
	return out
}

// Rule STATIC-3: the cheapest available nodes that have capacity for the DaemonSets, as far
// as quota and limits last.
func TestStaticPlans(t *testing.T) {
	const catalog = `
type D8 cpu=8 mem=32Gi price=0.4 zones=1,2 quota:cores=8
type D4 cpu=4 mem=16Gi price=0.2 zones=1,2 quota:cores=4
type tiny cpu=1 mem=2Gi price=0.1
type gone cpu=4 mem=16Gi price=0.05 unavailable=sold-out
type spotty cpu=4 mem=16Gi spot=0.02 quota:cores=4
daemon agent cpu=1500m
pods web x3 cpu=1
`
	for name, c := range map[string]struct {
		pool string
		n    int
		want []string
	}{
		"the cheapest":          {"pool fixed static", 3, []string{"spotty (5)", "spotty (5)", "spotty (5)"}},
		"requirements":          {"pool fixed static require:capacity-type=In:on-demand require:zone=In:2", 2, []string{"D4 (2)", "D4 (2)"}},
		"limits":                {"pool fixed static require:capacity-type=In:on-demand limit:nodes=2", 5, []string{"D4 (4)", "D4 (4)"}},
		"limits of cores":       {"pool fixed static require:capacity-type=In:on-demand limit:cpu=9", 5, []string{"D4 (2)", "D4 (2)"}},
		"quota":                 {"quota cores left=13\npool fixed static require:capacity-type=In:on-demand", 5, []string{"D4 (2)", "D4 (2)", "D4 (2)"}},
		"quota, then more":      {"quota cores left=3\npool fixed static\ntype Z cpu=2 mem=8Gi price=9", 1, []string{"Z (1)"}},
		"minValues":             {"pool fixed static min-values:type=3", 9, []string{"spotty (5)", "spotty (5)", "spotty (5)", "spotty (5)", "spotty (5)", "spotty (5)", "spotty (5)", "spotty (5)", "spotty (5)"}},
		"too few values":        {"pool fixed static min-values:type=4", 2, nil},
		"minValues of zones":    {"pool fixed static min-values:zone=3", 2, nil},
		"minValues until quota": {"quota cores left=13\npool fixed static require:capacity-type=In:on-demand min-values:type=2", 5, []string{"D4 (4)", "D4 (4)"}},
		"none":                  {"pool fixed static", 0, nil},
		"negative":              {"pool fixed static", -3, nil},
		"blocked":               {"pool fixed static blocked=not-ready", 2, nil},
		"unknown":               {"pool other static", 2, nil},
		"nothing fits":          {"pool fixed static require:type=In:tiny|gone", 2, nil},
	} {
		if diff := cmp.Diff(c.want, types(static(t, catalog+c.pool, "fixed", c.n))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Rule STATIC-3: where it is allowed, nodes with fewer values than minValues ask for are
// launched, and the launch lists the labels.
func TestStaticRelaxesMinValues(t *testing.T) {
	launches := static(t, `
settings relax-min-values
type D4 cpu=4 mem=16Gi price=0.2 zones=1,2
type D8 cpu=8 mem=32Gi price=0.4 zones=1
pool fixed static min-values:type=3 min-values:zone=2 min-values:capacity-type=2`, "fixed", 1)
	if len(launches) != 1 {
		t.Fatalf("%d launches", len(launches))
	}
	if diff := cmp.Diff([]string{"karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"}, launches[0].Relaxed); diff != "" {
		t.Error(diff)
	}
}

// A label that only the pool sets gets one value, and no pods are planned for the node.
func TestStaticLaunchesAreComplete(t *testing.T) {
	launches := static(t, `
type D4 cpu=4 mem=16Gi price=0.2
daemon agent cpu=1500m tolerate:dedicated=web:NoSchedule
pool fixed static require:team=In:red|blue label:tier=web taint:dedicated=web:NoSchedule
pods web x3 cpu=1`, "fixed", 1)
	if len(launches) != 1 {
		t.Fatalf("%d launches", len(launches))
	}
	l := launches[0]
	if len(l.Pods) != 0 || l.Requests["cpu"] != 1500 || l.Labels["tier"] != "web" || !slices.Contains([]string{"red", "blue"}, l.Labels["team"]) || len(l.Taints) != 1 {
		t.Errorf("%+v", l)
	}
	for _, r := range l.Rules {
		if strings.HasSuffix(r.Key, "hostname") || len(r.Values) == 0 {
			t.Errorf("rule %s", r)
		}
	}
}

// Each of the offerings may be launched in the end. Whichever it is, quota and limits hold if
// the other launches become their cheapest.
func TestStaticLaunchesInRandomClusters(t *testing.T) {
	for seed := range uint64(100) {
		script := enginetest.RandomFull(seed, 10)
		snapshot := script.Snapshot()
		for _, p := range script.Pools {
			had := fmt.Sprintf("%v", snapshot.QuotaLeft)
			launches := schedule.StaticLaunches(snapshot, p.Name, 4)
			if len(launches) > 4 || p.Blocked != "" && len(launches) > 0 {
				t.Fatalf("seed %d: %d launches for pool %s", seed, len(launches), p.Name)
			}
			if got := fmt.Sprintf("%v", snapshot.QuotaLeft); got != had {
				t.Fatalf("seed %d: the Snapshot's own quotas became %s, they were %s", seed, got, had)
			}
			for i, l := range launches {
				if !slices.IsSortedFunc(l.Offerings, func(a, b offering.Ref) int { return int(a.Price - b.Price) }) {
					t.Errorf("seed %d: choices out of order: %v", seed, l.Offerings)
				}
				if i > 0 && l.Offerings[0].Price < launches[i-1].Offerings[0].Price {
					t.Errorf("seed %d: launch %d is cheaper than the one before", seed, i)
				}
			}
			if diff := cmp.Diff(launches, schedule.StaticLaunches(script.Snapshot(), p.Name, 4)); diff != "" {
				t.Errorf("seed %d: another answer for the same Snapshot:\n%s", seed, diff)
			}
		}
	}
}
