// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
)

// Budgets allow what Karpenter's own arithmetic allows, at any time of the year in any time zone,
// and change only at the time they announce.
//
// Rule CONSOLIDATION-1, Rule BUDGET-1.
func TestBudgetsAgreeWithKarpenter(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 4000 {
		pool, now, nodes := randomPool(random), randomMoment(t, random), random.IntN(40)
		got, _ := DisruptionPool(pool, now)
		for cause, asked := range map[disrupt.Cause]karpv1.DisruptionReason{disrupt.Empty: karpv1.DisruptionReasonEmpty,
			disrupt.Underutilized: karpv1.DisruptionReasonUnderutilized, disrupt.Drifted: karpv1.DisruptionReasonDrifted, disrupt.Expired: karpv1.DisruptionReasonDrifted} {
			allowed, until := disrupt.MaxDown(&got, nodes, cause)
			if want := oracle(pool, now, nodes, asked); allowed != want {
				t.Fatalf("seed %d, case %d, at %s: %d of %d nodes for %s, Karpenter allows %d, by %s", seed, i, now, allowed, nodes, cause, want, printed(pool))
			}
			if until.IsZero() {
				continue
			}
			for range 3 {
				then := now.Add(time.Duration(random.Int64N(int64(until.Sub(now)))))
				if want := oracle(pool, then, nodes, asked); allowed != want {
					t.Fatalf("seed %d, case %d: %d from %s until %s, but Karpenter allows %d at %s, by %s", seed, i, allowed, now, until, want, then, printed(pool))
				}
			}
		}
	}
}

func oracle(p *karpv1.NodePool, now time.Time, nodes int, cause karpv1.DisruptionReason) int {
	return p.MustGetAllowedDisruptions(clocktesting.NewFakeClock(now), nodes, cause)
}

func randomPool(random *rand.Rand) *karpv1.NodePool {
	p := &karpv1.NodePool{}
	for range random.IntN(4) {
		b := karpv1.Budget{Nodes: pick(random, "0", "1", "7", "0%", "3%", "10%", "50%", "100%", "10%", "33%")}
		if random.IntN(2) == 0 {
			b.Reasons = [][]karpv1.DisruptionReason{{}, {karpv1.DisruptionReasonEmpty}, {karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonUnderutilized}}[random.IntN(3)]
		}
		if random.IntN(3) > 0 {
			schedule := randomSchedule(random)
			b.Schedule = &schedule
			b.Duration = &metav1.Duration{Duration: time.Duration(random.IntN(60*30)) * time.Minute}
		}
		if b.Schedule == nil && random.IntN(20) == 0 {
			b.Nodes = pick(random, "", "x%", "ten", "99999999999999999999")
		}
		p.Spec.Disruption.Budgets = append(p.Spec.Disruption.Budgets, b)
	}
	return p
}

func randomSchedule(random *rand.Rand) string {
	if random.IntN(30) == 0 {
		return pick(random, "TZ=Asia/Tokyo 0 9 * * *", "61 * * * *", "", "never")
	}
	if random.IntN(4) == 0 {
		return pick(random, "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "0 0 29 2 *", "0 0 30 2 *", "@every 90m")
	}
	return strings.Join([]string{
		pick(random, "0", "30", "*/7", "*", "59"), pick(random, "2", "*", "9-17", "23", "*/5"), pick(random, "*", "1", "28-31", "*"),
		pick(random, "*", "2", "3,10", "*"), pick(random, "*", "*", "sun", "mon-fri"),
	}, " ")
}

func pick(random *rand.Rand, of ...string) string { return of[random.IntN(len(of))] }

// randomMoment is often near a leap day or a change of the clocks.
func randomMoment(t *testing.T, random *rand.Rand) time.Time {
	zone, err := time.LoadLocation(pick(random, "UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"))
	if err != nil {
		t.Fatal(err)
	}
	day := []time.Time{
		time.Date(2028, 2, 28, 22, 0, 0, 0, zone), time.Date(2026, 3, 8, 1, 0, 0, 0, zone), time.Date(2026, 11, 1, 0, 30, 0, 0, zone),
		time.Date(2026, 12, 31, 20, 0, 0, 0, zone), time.Date(2026, 1+time.Month(random.IntN(24)), 1+random.IntN(31), 0, 0, 0, 0, zone),
	}[random.IntN(5)]
	at := day.Add(time.Duration(random.Int64N(int64(30 * time.Hour))))
	if random.IntN(3) == 0 {
		return at.Truncate(time.Minute) // exactly on the minute
	}
	return at
}

func printed(p *karpv1.NodePool) string {
	out := ""
	for _, b := range p.Spec.Disruption.Budgets {
		schedule := "always"
		if b.Schedule != nil {
			schedule = fmt.Sprintf("%q for %s", *b.Schedule, b.Duration.Duration)
		}
		out += fmt.Sprintf("[%s %s %q] ", b.Nodes, schedule, b.Reasons)
	}
	return out
}

// Rule CONSOLIDATION-5, Rule CONSOLIDATION-16, Rule BUDGET-3: the settings in annotations, and
// the errors for annotations that cannot be read.
func TestDisruptionPoolAnnotations(t *testing.T) {
	money := func(usd float64) *disrupt.MinSavings {
		p, err := offering.USDPerHour(usd)
		if err != nil {
			t.Fatal(err)
		}
		return &disrupt.MinSavings{PerHour: p}
	}
	for _, tc := range []struct {
		key, value string
		want       disrupt.Pool
		problem    string
	}{
		{"", "", disrupt.Pool{MinAge: -1}, ""},
		{MinSavingsAnnotation, "5%", disrupt.Pool{MinAge: -1, MinSavings: &disrupt.MinSavings{Share: 0.05}}, ""},
		{MinSavingsAnnotation, " 12.5 % ", disrupt.Pool{MinAge: -1, MinSavings: &disrupt.MinSavings{Share: 0.125}}, ""},
		{MinSavingsAnnotation, "$0.02/h", disrupt.Pool{MinAge: -1, MinSavings: money(0.02)}, ""},
		{MinSavingsAnnotation, "0.02", disrupt.Pool{MinAge: -1, MinSavings: money(0.02)}, ""},
		{MinSavingsAnnotation, "0", disrupt.Pool{MinAge: -1, MinSavings: money(0)}, ""},
		{MinSavingsAnnotation, "120%", disrupt.Pool{MinAge: -1}, `annotation karve.dev/min-savings, which is ignored: "120%" is not a percentage from 0% to 100%`},
		{MinSavingsAnnotation, "-1", disrupt.Pool{MinAge: -1},
			`annotation karve.dev/min-savings, which is ignored: "-1" is neither a percentage such as 5% nor dollars per hour such as $0.02/h`},
		{MinSavingsAnnotation, "NaN", disrupt.Pool{MinAge: -1},
			`annotation karve.dev/min-savings, which is ignored: "NaN" is neither a percentage such as 5% nor dollars per hour such as $0.02/h`},
		{MinSavingsAnnotation, "much", disrupt.Pool{MinAge: -1},
			`annotation karve.dev/min-savings, which is ignored: "much" is neither a percentage such as 5% nor dollars per hour such as $0.02/h`},
		{MinNodeAgeAnnotation, "90s", disrupt.Pool{MinAge: 90 * time.Second}, ""},
		{MinNodeAgeAnnotation, "0s", disrupt.Pool{}, ""},
		{MinNodeAgeAnnotation, "-5m", disrupt.Pool{MinAge: -1}, `annotation karve.dev/min-node-age, which is ignored: "-5m" is not a duration such as 10m`},
		{MinNodeAgeAnnotation, "old", disrupt.Pool{MinAge: -1}, `annotation karve.dev/min-node-age, which is ignored: "old" is not a duration such as 10m`},
		{SoftExpiryAnnotation, "yes", disrupt.Pool{MinAge: -1}, `annotation karve.dev/soft-expiry, which is ignored: "yes" is neither true nor false`},
		{BurstableCPUAnnotation, "baseline", disrupt.Pool{MinAge: -1}, ""},
		{BurstableCPUAnnotation, "all", disrupt.Pool{MinAge: -1}, `annotation karve.dev/burstable-cpu, which is ignored: "all" is neither full nor baseline`},
		{RepairAnnotation, "soft", disrupt.Pool{MinAge: -1}, `annotation karve.dev/repair, which is ignored: "soft" is neither graceful nor forceful`},
	} {
		p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{tc.key: tc.value}}}
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("30s")
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyBalanced
		tc.want.Name, tc.want.ConsolidateAfter, tc.want.Policy = "p", 30*time.Second, disrupt.Balanced
		got, problems := DisruptionPool(p, time.Now())
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s=%q: %s", tc.key, tc.value, diff)
		}
		said := ""
		if len(problems) > 0 {
			said = problems[0].Error()
		}
		if said != tc.problem {
			t.Errorf("%s=%q: said %q, want %q", tc.key, tc.value, said, tc.problem)
		}
	}
}

// Rule BUDGET-3.
func TestUnreadableBudgetsAreSaid(t *testing.T) {
	p := &karpv1.NodePool{}
	schedule := "whenever"
	p.Spec.Replicas = new(int64)
	p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}, {Nodes: "some"}, {Nodes: "2", Schedule: &schedule, Duration: &metav1.Duration{Duration: time.Hour}}}
	got, problems := DisruptionPool(p, time.Now())
	if !got.Static || !got.ConsolidationDisabled || len(got.Budgets) != 3 || got.Budgets[0].Invalid || !got.Budgets[1].Invalid || !got.Budgets[2].Invalid {
		t.Errorf("%+v", got)
	}
	want := []string{
		`spec.disruption.budgets[1], which allows nothing while it cannot be read: "some" is neither a number of nodes nor a percentage such as 10%`,
		`spec.disruption.budgets[2], which allows nothing while it cannot be read: reading schedule "whenever": expected exactly 5 fields, found 1: [whenever]`,
	}
	var said []string
	for _, problem := range problems {
		said = append(said, problem.Error())
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}
