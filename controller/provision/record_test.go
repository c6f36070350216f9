// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

func TestChoiceNamesRunnersUp(t *testing.T) {
	l := schedule.Launch{
		Offerings: []offering.Ref{{Type: "D4", Zone: "1", CapacityType: "spot", Price: 2e8}},
		RunnersUp: []schedule.RunnerUp{
			{Ref: offering.Ref{Type: "D8", Zone: "2", CapacityType: "spot", Price: 3e8}, More: 1e8, Because: reason.HigherPrice, Why: "higher price"},
			{Ref: offering.Ref{Type: "D2", Zone: "1", CapacityType: "spot", Price: 1e8}, More: -1e8, Because: reason.Quota, Why: "quota familyD has 0 left"},
		},
	}
	words := offeringValues(l)
	want := []string{"D8 in 2 (spot): +0.1000/h, HigherPrice: higher price", "D2 in 1 (spot): -0.1000/h, Quota: quota familyD has 0 left"}
	if diff := cmp.Diff(any(want), words[len(words)-1]); diff != "" {
		t.Error(diff)
	}
}

func TestPreferencesAreLeftOutWhenNobodyHasAny(t *testing.T) {
	if words := preferences(schedule.Preferences{}); words != nil {
		t.Errorf("says %v", words)
	}
	want := []any{"preferences-asked", 3, "preferences-honoured", 2, "preferences-cost", 0.5}
	if diff := cmp.Diff(want, preferences(schedule.Preferences{Asked: 3, Honoured: 2, Cost: 5e8})); diff != "" {
		t.Error(diff)
	}
}

// Rule PRICE-6: what a plan costs is logged as the whole price and by list, as is each launch.
func TestPlanIsReportedByWholeAndListPrice(t *testing.T) {
	lines := ""
	set := metrics.New(prometheus.NewRegistry())
	r := reporter{metrics: set, log: funcr.New(func(_, line string) { lines += line + "\n" }, funcr.Options{})}
	launch := schedule.Launch{Offerings: []offering.Ref{{Type: "D4", Price: 25e7, Extras: 5e7}}}
	plan := schedule.Plan{Launches: []schedule.Launch{launch, launch}}
	r.decided(plan)
	r.finished(plan, 0)
	if !strings.Contains(lines, `"price"=0.5 "list-price"=0.4 `) {
		t.Errorf("logs %s", lines)
	}
	if whole, list := testutil.ToFloat64(set.PlanPrice), testutil.ToFloat64(set.PlanListPrice); whole != 0.5 || list != 0.4 {
		t.Errorf("metrics say %v and %v", whole, list)
	}
	words := offeringValues(launch)
	if diff := cmp.Diff([]any{"price", 0.25, "list-price", 0.2}, words[len(words)-4:]); diff != "" {
		t.Error(diff)
	}
}

// Rule PLAN-9: plans whose searches were cut short are logged as such, and counted.
func TestCutShortPlansAreReported(t *testing.T) {
	if words := cutShort(nil); words != nil {
		t.Errorf("says %v", words)
	}
	cuts := []schedule.CutShort{{Search: schedule.Retry, Unexamined: 12}, {Search: schedule.Rounds, Unexamined: 1}}
	if diff := cmp.Diff([]any{"cut-short", cuts}, cutShort(cuts)); diff != "" {
		t.Error(diff)
	}
	set := metrics.New(prometheus.NewRegistry())
	r := reporter{metrics: set}
	r.finished(schedule.Plan{CutShort: cuts}, 0)
	r.finished(schedule.Plan{CutShort: cuts[:1]}, 0)
	for search, want := range map[schedule.Search]float64{schedule.Retry: 2, schedule.Rounds: 1} {
		if got := testutil.ToFloat64(set.PlanCutShort.WithLabelValues(string(search))); got != want {
			t.Errorf("%s: %v, want %v", search, got, want)
		}
	}
}

func TestFunnelDataIsBounded(t *testing.T) {
	want := `[{"Pool":"web","Offerings":2,"Cuts":[{"By":"Resources","Removed":2,"Detail":"","Facts":{"largest":8}}],"Blocked":"","Detail":""}]`
	few := []reason.Funnel{{Pool: "web", Offerings: 2, Cuts: []reason.Cut{{By: reason.Resources, Removed: 2, Facts: reason.Facts{{Name: "largest", Value: int64(8)}}}}}}
	if diff := cmp.Diff(want, funnelData(few)); diff != "" {
		t.Error(diff)
	}
	if data := funnelData(make([]reason.Funnel, 1000)); data != "" {
		t.Errorf("%d bytes for one event", len(data))
	}
}

// Rule MIN-VALUES-3: a claim that cannot have all values of minValues requires those it has.
func TestMinValuesAreCopied(t *testing.T) {
	three, two := 3, 2
	pool := &karpv1.NodePool{}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: "beta.kubernetes.io/instance-type", Operator: corev1.NodeSelectorOpExists, MinValues: &three},
		{Key: "family", Operator: corev1.NodeSelectorOpExists, MinValues: &two},
		{Key: "arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
	}
	claim := func() *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{}
		c.Annotations = map[string]string{karpv1.NodeClaimMinValuesRelaxedAnnotationKey: "false"}
		c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"D4", "D8"}},
		}
		return c
	}
	got := claim()
	copyMinValues(got, pool, []string{corev1.LabelInstanceTypeStable})
	want := []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"D4", "D8"}, MinValues: &two},
		{Key: "family", Operator: corev1.NodeSelectorOpExists, MinValues: &two},
	}
	if diff := cmp.Diff(want, got.Spec.Requirements); diff != "" {
		t.Error(diff)
	}
	if got.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] != "true" {
		t.Error("the claim does not say that minValues were relaxed")
	}
	strict := claim()
	copyMinValues(strict, pool, nil)
	if strict.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] != "false" {
		t.Error("the claim says that minValues were relaxed")
	}
}

func TestPoolsWithoutInstanceTypes(t *testing.T) {
	own := reason.Funnel{Offerings: 3, Cuts: []reason.Cut{{By: reason.Requirements, Removed: 3, Detail: ownRequirements}}}
	asked := reason.Funnel{Offerings: 3, Cuts: []reason.Cut{{By: reason.Requirements, Removed: 3, Detail: "team In [a]"}}}
	if noInstanceTypes(own) == "" || noInstanceTypes(asked) != "" {
		t.Error("only the pool's own requirements are the pool's news")
	}
}
