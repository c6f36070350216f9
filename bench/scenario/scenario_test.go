// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// same compares scenarios by everything a scheduler sees; conditions carry the
// time of day at which they were set.
func same(t *testing.T, a, b *Scenario) {
	t.Helper()
	for _, s := range []*Scenario{a, b} {
		for _, p := range s.Pools {
			p.Status.Conditions = nil
		}
		for _, c := range s.Claims {
			c.Status.Conditions = nil
		}
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("%s: a second one differs:\n%s", a.Name, diff)
	}
}

func TestScenariosAreTheSameEachTime(t *testing.T) {
	same(t, Diverse(103), Diverse(103))
	same(t, Preferences(7, cluster.Settings{}), Preferences(7, cluster.Settings{}))
	one, two := Existing(9, 40, 25), Existing(9, 40, 25)
	same(t, one, two)
	if diff := cmp.Diff(Shuffled(one.Pending), Shuffled(two.Pending)); diff != "" {
		t.Errorf("another order the second time:\n%s", diff)
	}
}

func TestDiverseIsAFifthOfEach(t *testing.T) {
	kinds := map[string]int{}
	for _, p := range Diverse(503).Pending {
		kinds[kind(p)]++
	}
	want := map[string]int{"plain": 103, "spread " + corev1.LabelTopologyZone: 100, "spread " + corev1.LabelHostname: 100, "together": 100, "apart": 100}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds of pods (-want +got):\n%s", diff)
	}
}

func kind(p *corev1.Pod) string {
	switch {
	case len(p.Spec.TopologySpreadConstraints) > 0:
		return "spread " + p.Spec.TopologySpreadConstraints[0].TopologyKey
	case p.Spec.Affinity == nil:
		return "plain"
	case p.Spec.Affinity.PodAffinity != nil:
		return "together"
	}
	return "apart"
}

func TestAzureIsARegionWithManySizes(t *testing.T) {
	s, err := Azure(t.Context(), 1000, false)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, x := range s.Types {
		names[x.Name] = true
	}
	if len(names) < 1100 || len(names) != len(s.Types) {
		t.Errorf("%d sizes of %d names, want 1,100 at least", len(s.Types), len(names))
	}
	apps := map[string]int{}
	for _, p := range s.Pending {
		apps[p.Labels["app"]]++
	}
	if len(s.Pending) != 1000 || len(apps) != 200 || apps["app-000"] < 10*apps["app-199"] {
		t.Errorf("%d pods of %d Deployments, the largest has %d and the smallest %d", len(s.Pending), len(apps), apps["app-000"], apps["app-199"])
	}
}

func TestPodNamesAreUnique(t *testing.T) {
	s := Existing(9, 40, 25)
	seen := map[string]bool{}
	for _, pods := range [][]*corev1.Pod{s.Bound, s.Pending} {
		for _, p := range pods {
			if seen[string(p.UID)] {
				t.Errorf("two pods have UID %s", p.UID)
			}
			seen[string(p.UID)] = true
		}
	}
}
