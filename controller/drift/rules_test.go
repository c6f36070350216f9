// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// spotClaim returns a claim of a spot instance small-4 in zone-1, two hours old.
func spotClaim(more map[string]string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(noon.Add(-2 * time.Hour))}}
	c.Labels = map[string]string{
		corev1.LabelInstanceTypeStable: "small-4", corev1.LabelTopologyZone: "zone-1", karpv1.CapacityTypeLabelKey: "spot",
	}
	for key, value := range more {
		c.Labels[key] = value
	}
	return c
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func asks(rules ...karpv1.NodeSelectorRequirementWithMinValues) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	p.Spec.Template.Spec.Requirements = rules
	return p
}

func rule(key string, operator corev1.NodeSelectorOperator, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: operator, Values: values}
}

// Only labels that certainly mismatch are drift; wider requirements never are.
//
// Rule DRIFT-4, Rule DRIFT-2.
func TestRequirementsDrift(t *testing.T) {
	const family = "memory.karve.dev/family"
	catalog := &provider.Catalog{Types: memory.Types(), Taken: noon, Listed: noon}
	for name, tc := range map[string]struct {
		labels    map[string]string
		rules     []karpv1.NodeSelectorRequirementWithMinValues
		catalog   *provider.Catalog
		drift     bool
		undecided bool
	}{
		"none":                            {catalog: catalog},
		"met":                             {rules: list(rule(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "zone-1")), catalog: catalog},
		"met, nothing known":              {rules: list(rule(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "zone-1"))},
		"widened":                         {rules: list(rule(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, "spot", "on-demand")), catalog: catalog},
		"narrowed":                        {rules: list(rule(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, "on-demand")), catalog: catalog, drift: true},
		"narrowed, nothing known":         {rules: list(rule(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpNotIn, "spot")), drift: true},
		"by an old name":                  {rules: list(rule("failure-domain.beta.kubernetes.io/zone", corev1.NodeSelectorOpIn, "zone-2")), catalog: catalog, drift: true},
		"a label of the type":             {rules: list(rule(family, corev1.NodeSelectorOpIn, "small")), catalog: catalog},
		"another label of the type":       {rules: list(rule(family, corev1.NodeSelectorOpIn, "large")), catalog: catalog, drift: true},
		"a label nobody knows":            {rules: list(rule(family, corev1.NodeSelectorOpIn, "large")), undecided: true},
		"a type nobody knows":             {labels: map[string]string{corev1.LabelInstanceTypeStable: "tiny"}, rules: list(rule(family, corev1.NodeSelectorOpIn, "large")), catalog: catalog, undecided: true},
		"a number":                        {labels: map[string]string{"cores": "4"}, rules: list(rule("cores", corev1.NodeSelectorOpGt, "3")), catalog: catalog},
		"too small a number":              {labels: map[string]string{"cores": "4"}, rules: list(rule("cores", corev1.NodeSelectorOpGt, "4")), catalog: catalog, drift: true},
		"two rules on a key":              {labels: map[string]string{"cores": "4"}, rules: list(rule("cores", corev1.NodeSelectorOpGt, "3"), rule("cores", corev1.NodeSelectorOpNotIn, "4")), catalog: catalog, drift: true},
		"the pool's own label, new":       {rules: list(rule("team", corev1.NodeSelectorOpIn, "a")), catalog: catalog, drift: true},
		"the pool's own label, a choice":  {rules: list(rule("team", corev1.NodeSelectorOpIn, "a", "b")), catalog: catalog},
		"the pool's own label, any":       {rules: list(rule("team", corev1.NodeSelectorOpExists)), catalog: catalog},
		"the pool's own label, forbidden": {labels: map[string]string{"team": "a"}, rules: list(rule("team", corev1.NodeSelectorOpDoesNotExist)), catalog: catalog, drift: true},
		"a rule that cannot be read":      {rules: list(rule("cores", corev1.NodeSelectorOpGt, "many")), catalog: catalog, undecided: true},
		"certain beside unknown":          {rules: list(rule(family, corev1.NodeSelectorOpIn, "small"), rule(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "zone-2")), drift: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := requirementsDrift(spotClaim(tc.labels), asks(tc.rules...), tc.catalog)
			if (f.reason == RequirementsDrifted) != tc.drift || (f.detail != "") != tc.drift || f.undecided != tc.undecided {
				t.Errorf("%+v", f)
			}
		})
	}
}

func list(rules ...karpv1.NodeSelectorRequirementWithMinValues) []karpv1.NodeSelectorRequirementWithMinValues {
	return rules
}

// Only a template that is known to be another counts; hashes of other versions of
// the formula cannot be compared.
//
// Rule DRIFT-1, Rule DRIFT-6.
func TestTemplateDrift(t *testing.T) {
	for name, tc := range map[string]struct {
		then, now [2]string // hash, version
		drift     bool
	}{
		"same":                  {[2]string{"1", "v3"}, [2]string{"1", "v3"}, false},
		"changed":               {[2]string{"1", "v3"}, [2]string{"2", "v3"}, true},
		"another formula":       {[2]string{"1", "v2"}, [2]string{"2", "v3"}, false},
		"claim without":         {[2]string{}, [2]string{"2", "v3"}, false},
		"pool without":          {[2]string{"1", "v3"}, [2]string{}, false},
		"neither has a version": {[2]string{"1", ""}, [2]string{"2", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := spotClaim(nil), asks()
			c.Annotations, p.Annotations = stamped(tc.then), stamped(tc.now)
			if f := templateDrift(c, p); (f.reason == NodePoolDrifted) != tc.drift || f.undecided {
				t.Errorf("%+v", f)
			}
		})
	}
}

func stamped(s [2]string) map[string]string {
	return map[string]string{karpv1.NodePoolHashAnnotationKey: s[0], karpv1.NodePoolHashVersionAnnotationKey: s[1]}
}

// A type is missing when two complete answers in sequence lack it, never because of one
// that failed, is partial or is the first.
//
// Rule DRIFT-3, Rule DRIFT-2, Rule CATALOG-4.
func TestInstanceTypeNotFound(t *testing.T) {
	at := noon.Add
	without := func(taken time.Time, problem string) *provider.Catalog {
		s := &provider.Catalog{Types: memory.Types()[2:], Taken: taken, Listed: taken, Problem: problem}
		if problem == "HTTP 500" {
			s.Listed = time.Time{}
		}
		return s
	}
	with := func(taken time.Time) *provider.Catalog {
		return &provider.Catalog{Types: memory.Types(), Taken: taken, Listed: taken}
	}
	unread := func(taken time.Time, names ...string) *provider.Catalog {
		s := without(taken, "")
		s.Unread = names
		return s
	}
	unpriced := without(at(12*time.Hour), "no prices since yesterday")
	unpriced.Taken = noon.Add(-24 * time.Hour)
	soldOut := with(noon)
	for i := range soldOut.Types {
		for j := range soldOut.Types[i].Offerings {
			soldOut.Types[i].Offerings[j].Unavailable = "sold out"
		}
	}
	noSpot := with(noon.Add(time.Hour))
	noSpot.Types[1].Offerings = noSpot.Types[1].Offerings[2:] // none in zone-1
	type look struct {
		catalog *provider.Catalog
		now     time.Time
		want    string // "", "open" or "gone"
	}
	for name, looks := range map[string][]look{
		"there":                        {{with(noon), noon, ""}},
		"sold out":                     {{soldOut, noon, ""}},
		"nothing known":                {{nil, noon, "open"}, {nil, at(24 * time.Hour), "open"}},
		"nothing on sale":              {{&provider.Catalog{Taken: noon, Listed: noon}, noon, "open"}, {&provider.Catalog{Taken: at(time.Hour), Listed: at(time.Hour)}, at(time.Hour), "open"}},
		"missing once":                 {{without(noon, ""), noon, "open"}, {without(noon, ""), at(10 * time.Hour), "open"}},
		"missing twice":                {{without(noon, ""), noon, "open"}, {without(at(12*time.Hour), ""), at(12*time.Hour + 1), "gone"}},
		"read before it was missed":    {{without(noon, ""), at(time.Minute), "open"}, {without(at(time.Second), ""), at(2 * time.Minute), "open"}},
		"back between":                 {{without(noon, ""), noon, "open"}, {with(at(time.Hour)), at(time.Hour), ""}, {without(at(2*time.Hour), ""), at(2 * time.Hour), "open"}},
		"the second is not complete":   {{without(noon, ""), noon, "open"}, {without(at(time.Hour), "HTTP 500"), at(time.Hour), "open"}},
		"the first is not complete":    {{without(noon, "HTTP 500"), noon, "open"}, {without(at(time.Hour), ""), at(time.Hour), "open"}},
		"prices are not known":         {{without(noon, "no prices"), noon, "open"}, {unpriced, at(12*time.Hour + 1), "gone"}},
		"the offering is gone":         {{noSpot, noon.Add(time.Hour), "open"}, {&provider.Catalog{Types: noSpot.Types, Taken: at(2 * time.Hour), Listed: at(2 * time.Hour)}, at(2 * time.Hour), "gone"}},
		"it may be one without a name": {{unread(at(12*time.Hour), ""), noon, "open"}, {unread(at(24*time.Hour), ""), at(24 * time.Hour), "open"}},
		"it could not be read":         {{unread(at(12*time.Hour), "Small-4"), noon, "open"}, {unread(at(24*time.Hour), "Small-4"), at(24 * time.Hour), "open"}},
		"another could not be read":    {{unread(noon, "A"), noon, "open"}, {unread(at(12*time.Hour), "A"), at(12*time.Hour + 1), "gone"}},
		"launched a moment ago":        {{without(noon, ""), at(-61 * time.Minute), ""}, {without(at(time.Hour), ""), at(-61 * time.Minute), ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var a missingOfferings
			for i, l := range looks {
				f := a.offeringDrift(spotClaim(nil), "default", l.catalog, l.now)
				if (f.reason == InstanceTypeNotFound) != (l.want == "gone") || f.undecided != (l.want == "open") {
					t.Errorf("look %d: %+v, want %q", i, f, l.want)
				}
			}
		})
	}
	t.Run("reserved instances go on as ordinary ones", func(t *testing.T) {
		types := memory.Types()
		types[1].Offerings = []offering.Offering{{Zone: "zone-1", CapacityType: offering.OnDemand}}
		c := spotClaim(map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeReserved})
		if f := new(missingOfferings).offeringDrift(c, "default", &provider.Catalog{Types: types, Taken: noon, Listed: noon}, noon); f != (finding{}) {
			t.Errorf("%+v", f)
		}
	})
}

// Absences that only deleted instances had are forgotten once others miss something.
//
// Rule MEMORY-2.
func TestAbsencesThatNothingSuffersFromAreForgotten(t *testing.T) {
	var a missingOfferings
	now := time.Unix(0, 0)
	for i := range 1000 {
		a.recordMissing(offeringKey{class: fmt.Sprint("class", i), name: "t"}, now)
		kept := a.recordMissing(offeringKey{class: "stays", name: "t"}, now)
		if !kept.Equal(time.Unix(0, 0)) {
			t.Fatalf("what was missed at first is missed since %v", kept)
		}
		now = now.Add(5 * time.Minute)
	}
	if most := int(missingTTL/(5*time.Minute)) + 2; len(a.since) > most {
		t.Errorf("%d absences are remembered, want %d at most", len(a.since), most)
	}
}
