// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pdbOf selects app=web and allows one disruption.
func pdbOf(name string, changes ...func(*policyv1.PodDisruptionBudget)) policyv1.PodDisruptionBudget {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	b.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2, ExpectedPods: 3}
	for _, change := range changes {
		change(&b)
	}
	return b
}

func runningPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := boundTo(pendingPod(name), "node-a")
	p.Labels = map[string]string{"app": "web"}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for _, change := range changes {
		change(p)
	}
	return p
}

// Rule BLOCK-3: PodDisruptionBudgets are judged as the eviction API judges them.
func TestRefusals(t *testing.T) {
	type pdb = policyv1.PodDisruptionBudget
	zero := func(b *pdb) { b.Status.DisruptionsAllowed, b.Status.CurrentHealthy = 0, 2 }
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	always := func(b *pdb) {
		policy := policyv1.AlwaysAllow
		b.Spec.UnhealthyPodEvictionPolicy = &policy
	}
	selecting := func(s *metav1.LabelSelector) func(*pdb) { return func(b *pdb) { b.Spec.Selector = s } }
	most := func(v intstr.IntOrString) func(*pdb) { return func(b *pdb) { b.Spec.MaxUnavailable = &v } }
	least := func(v intstr.IntOrString) func(*pdb) { return func(b *pdb) { b.Spec.MinAvailable = &v } }
	is := func(op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: op, Values: values}}}
	}
	for _, tc := range []struct {
		name    string
		pod     *corev1.Pod
		budgets []pdb
		by      []string
		forGood bool
	}{
		{"no budget", runningPod("p"), nil, nil, false},
		{"one may go", runningPod("p"), []pdb{pdbOf("b")}, nil, false},
		{"none may go", runningPod("p"), []pdb{pdbOf("b", zero)}, []string{"default/b"}, false},
		{"another namespace", runningPod("p"), []pdb{pdbOf("b", zero, func(b *pdb) { b.Namespace = "other" })}, nil, false},
		{"another app", runningPod("p", func(p *corev1.Pod) { p.Labels["app"] = "db" }), []pdb{pdbOf("b", zero)}, nil, false},
		{"no labels", runningPod("p", func(p *corev1.Pod) { p.Labels = nil }), []pdb{pdbOf("b", zero)}, nil, false},
		{"two budgets", runningPod("p"), []pdb{pdbOf("z"), pdbOf("a")}, []string{"default/a", "default/z"}, true},
		{"two budgets, not started", runningPod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), []pdb{pdbOf("z"), pdbOf("a")}, nil, false},
		{"finished", runningPod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), []pdb{pdbOf("b", zero)}, nil, false},
		{"everything", runningPod("p"), []pdb{pdbOf("b", zero, selecting(&metav1.LabelSelector{}))}, []string{"default/b"}, false},
		{"everything, no labels", runningPod("p", func(p *corev1.Pod) { p.Labels = nil }), []pdb{pdbOf("b", zero, selecting(&metav1.LabelSelector{}))}, []string{"default/b"}, false},
		{"nothing", runningPod("p"), []pdb{pdbOf("b", zero, selecting(nil))}, nil, false},
		{"in", runningPod("p"), []pdb{pdbOf("b", zero, selecting(is("In", "web", "db")))}, []string{"default/b"}, false},
		{"not in", runningPod("p"), []pdb{pdbOf("b", zero, selecting(is("NotIn", "web")))}, nil, false},
		{"not in, no label", runningPod("p", func(p *corev1.Pod) { p.Labels = nil }), []pdb{pdbOf("b", zero, selecting(is("NotIn", "web")))}, []string{"default/b"}, false},
		{"exists", runningPod("p"), []pdb{pdbOf("b", zero, selecting(is("Exists")))}, []string{"default/b"}, false},
		{"does not exist", runningPod("p"), []pdb{pdbOf("b", zero, selecting(is("DoesNotExist")))}, nil, false},
		{"unreadable", runningPod("p"), []pdb{pdbOf("b", zero, selecting(is("Like", "web")))}, nil, false},
		{"old status", runningPod("p"), []pdb{pdbOf("b", func(b *pdb) { b.Generation, b.Status.ObservedGeneration = 2, 1 })}, []string{"default/b"}, false},
		{"not ready, enough others", runningPod("p", unready), []pdb{pdbOf("b", zero)}, nil, false},
		{"not ready, too few others", runningPod("p", unready), []pdb{pdbOf("b", zero, func(b *pdb) { b.Status.CurrentHealthy = 1 })}, []string{"default/b"}, false},
		{"not ready, too few others, always", runningPod("p", unready), []pdb{pdbOf("b", zero, always, func(b *pdb) { b.Status.CurrentHealthy = 1 })}, nil, false},
		{"ready, always", runningPod("p"), []pdb{pdbOf("b", zero, always)}, []string{"default/b"}, false},
		{"none may ever go", runningPod("p"), []pdb{pdbOf("b", zero, most(intstr.FromInt32(0)))}, []string{"default/b"}, true},
		{"none may ever go, in percent", runningPod("p"), []pdb{pdbOf("b", zero, most(intstr.FromString("0%")))}, []string{"default/b"}, true},
		{"all must stay", runningPod("p"), []pdb{pdbOf("b", zero, least(intstr.FromString("100%")))}, []string{"default/b"}, true},
		{"all must stay, as it happens", runningPod("p"), []pdb{pdbOf("b", zero, func(b *pdb) { b.Status.DesiredHealthy = 3 })}, []string{"default/b"}, true},
		{"nobody counted yet", runningPod("p"), []pdb{pdbOf("b", zero, func(b *pdb) { b.Status.DesiredHealthy, b.Status.ExpectedPods = 0, 0 })}, []string{"default/b"}, false},
	} {
		got := NewPDBs(tc.budgets...).Ask(tc.pod)
		var by []string
		for _, n := range got.RefusedBy {
			by = append(by, n.String())
		}
		if !slices.Equal(by, tc.by) || got.ForGood != tc.forGood {
			t.Errorf("%s: refused by %v, for good: %t; want %v, %t", tc.name, by, got.ForGood, tc.by, tc.forGood)
		}
	}
}

// Budgets that are added, changed and removed are found by the pods they select, and by no
// others.
func TestPDBsOfPod(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	b, kept := NewPDBs(), map[string]policyv1.PodDisruptionBudget{}
	value := func() string { return fmt.Sprint(random.IntN(3)) }
	for step := range 3000 {
		name := fmt.Sprint("b", random.IntN(12))
		if random.IntN(3) == 0 {
			gone := kept[name]
			gone.Namespace, gone.Name = "default", name
			if _, had := kept[name]; b.remove(&gone).any != had {
				t.Fatalf("step %d: removing %s reports wrongly whether it was there", step, name)
			}
			delete(kept, name)
		} else {
			s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
			for _, key := range []string{"app", "tier", "env"} {
				if random.IntN(2) == 0 {
					s.MatchLabels[key] = value()
				}
			}
			if random.IntN(3) == 0 {
				s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{value()}}}
			}
			one := pdbOf(name, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = s })
			b.Set(&one)
			kept[name] = one
		}
		p := runningPod("p", func(p *corev1.Pod) { p.Labels = map[string]string{"app": value(), "tier": value(), "else": "x"} })
		var want, got []string
		for name, one := range kept {
			if s, _ := metav1.LabelSelectorAsSelector(one.Spec.Selector); s.Matches(labels.Set(p.Labels)) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		for _, x := range b.of(p, nil) {
			got = append(got, x.name.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("step %d: %s", step, diff)
		}
	}
	for name := range kept {
		gone := kept[name]
		b.remove(&gone)
	}
	if len(b.namespaces) != 0 {
		t.Error("something is left of budgets that are gone")
	}
}

// Only changes of the answer for some pod are reported.
func TestPDBChanges(t *testing.T) {
	b := NewPDBs()
	for _, tc := range []struct {
		name             string
		change           func(*policyv1.PodDisruptionBudget)
		changed, lasting bool // lasting: pods may be blocked for good, or no longer are
	}{
		{"new", func(*policyv1.PodDisruptionBudget) {}, true, true},
		{"same", func(*policyv1.PodDisruptionBudget) {}, false, false},
		{"two may go", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 2 }, false, false},
		{"none may go", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 0 }, true, false},
		{"too few are ready", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed, b.Status.CurrentHealthy = 0, 1 }, true, false},
		{"none may ever go", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed, b.Status.DesiredHealthy = 0, 3 }, true, true},
		{"none may ever go but those that are not ready", func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptionsAllowed, b.Status.DesiredHealthy, b.Status.CurrentHealthy = 0, 3, 2
		}, true, true},
		{"another selector", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }, true, true},
	} {
		one := pdbOf("b", tc.change)
		if got := b.set(&one); got.any != tc.changed || len(got.about) > 0 != tc.lasting {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

func BenchmarkAsk(bench *testing.B) {
	b := NewPDBs()
	for i := range 200 {
		one := pdbOf(fmt.Sprint("b", i), func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app-", i), "tier": "web"}}
		})
		b.Set(&one)
	}
	p := runningPod("p", func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "app-7", "tier": "web", "pod-template-hash": "x", "env": "prod"}
	})
	for bench.Loop() {
		b.Ask(p)
	}
}
