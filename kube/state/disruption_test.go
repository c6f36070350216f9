// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/kube"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// readyManagedNode is a node that has been ready for an hour, has a price and may be disrupted.
func readyManagedNode(pods ...*corev1.Pod) kube.ManagedNode {
	c, n := joined(claimNamed("a"))
	c.CreationTimestamp = metav1.NewTime(noon.Add(-2 * time.Hour))
	c.Status.Conditions = append(c.Status.Conditions, conditionOf(karpv1.ConditionTypeInitialized, "Initialized", noon.Add(-time.Hour)))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return kube.ManagedNode{Claim: c, Node: n, Pods: pods, InSnapshot: cluster.Node{Pool: "web", Initialized: true, Price: 1}}
}

func conditionOf(kind, why string, at time.Time) (c status.Condition) {
	c.Type, c.Status, c.Reason, c.LastTransitionTime = kind, "True", why, metav1.NewTime(at)
	return c
}

func annotate(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: value} }
}

func started(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { at := metav1.NewTime(noon.Add(-ago)); p.Status.StartTime = &at }
}

func ownedAs(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, UID: "x"}}
	}
}

func terminating(p *corev1.Pod) { at := metav1.NewTime(noon); p.DeletionTimestamp = &at }

// Rule BLOCK-2, Rule BLOCK-3, Rule BLOCK-4: which nodes pods block, in Karpenter's words.
func TestBlocks(t *testing.T) {
	shut := func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed, b.Status.CurrentHealthy = 0, 2 }
	one, two := []policyv1.PodDisruptionBudget{pdbOf("b", shut)}, []policyv1.PodDisruptionBudget{pdbOf("b"), pdbOf("a")}
	blocked := disrupt.Block{Because: disrupt.PodDisruptionBudget, ByPod: true, Detail: "Pdb prevents pod evictions (PodDisruptionBudget=[default/b])",
		Facts: reason.FactsOf(map[string]any{"pod": "default/p", "podDisruptionBudgets": []string{"default/b"}, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 3})}
	asks := func(until time.Time) disrupt.Block {
		return disrupt.Block{Because: disrupt.DoNotDisrupt, ByPod: true, Detail: `Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/p)`,
			Facts: reason.FactsOf(map[string]any{"pod": "default/p"}), Until: until}
	}
	node := disrupt.Block{Because: disrupt.DoNotDisrupt, Detail: `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`}
	none := func(*corev1.Pod) {}
	for _, tc := range []struct {
		name    string
		pod     *corev1.Pod
		budgets []policyv1.PodDisruptionBudget
		node    string // what its annotation says
		want    []disrupt.Block
	}{
		{"nobody", runningPod("p", none), nil, "", nil},
		{"the node", runningPod("p", none), nil, "true", []disrupt.Block{node}},
		{"the node, for a while, which is not a thing", runningPod("p", none), nil, "1h", nil},
		{"a pod", runningPod("p", annotate("true")), nil, "", []disrupt.Block{asks(time.Time{})}},
		{"a pod for a while", runningPod("p", annotate("1h"), started(time.Minute)), nil, "", []disrupt.Block{asks(noon.Add(59 * time.Minute))}},
		{"a pod, no more", runningPod("p", annotate("1h"), started(time.Hour)), nil, "", nil},
		{"a pod that has not started", runningPod("p", annotate("1h")), nil, "", []disrupt.Block{asks(time.Time{})}},
		{"a pod in no words", runningPod("p", annotate("yes")), nil, "", nil},
		{"a terminating pod", runningPod("p", annotate("true"), terminating), nil, "", nil},
		{"a finished pod", runningPod("p", annotate("true"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), nil, "", nil},
		{"a DaemonSet's pod", runningPod("p", annotate("true"), ownedAs("apps/v1", "DaemonSet")), nil, "", []disrupt.Block{asks(time.Time{})}},
		{"a static pod", runningPod("p", annotate("true"), ownedAs("v1", "Node")), nil, "", []disrupt.Block{asks(time.Time{})}},
		{"a budget", runningPod("p", none), one, "", []disrupt.Block{blocked}},
		{"a budget of a DaemonSet's pod", runningPod("p", ownedAs("apps/v1", "DaemonSet")), one, "", []disrupt.Block{blocked}},
		{"a budget of a static pod", runningPod("p", ownedAs("v1", "Node")), one, "", nil},
		{"a budget of a pod that stays", runningPod("p", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }), one, "", nil},
		{"a budget of a pod that asks", runningPod("p", annotate("true")), one, "true", []disrupt.Block{node, asks(time.Time{})}},
		{"two budgets", runningPod("p", none), two, "", []disrupt.Block{{Because: disrupt.MultiplePodDisruptionBudgets, ByPod: true,
			Detail: "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[default/a default/b])",
			Facts:  reason.FactsOf(map[string]any{"pod": "default/p", "podDisruptionBudgets": []string{"default/a", "default/b"}})}}},
	} {
		m := readyManagedNode(tc.pod)
		if tc.node != "" {
			m.Node.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: tc.node}
		}
		got := kube.DisruptionNode(m, NewPDBs(tc.budgets...), kube.Stays{}, false, noon)
		if diff := cmp.Diff(tc.want, got.Blocks); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// Rule BLOCK-4.
func TestInvalidDoNotDisrupt(t *testing.T) {
	for value, want := range map[string]string{
		"true": "", "10m": "", "false": `failed to parse "false" as a duration: time: invalid duration "false"`, "-1h": `duration "-1h" must be positive`,
	} {
		said := ""
		if err := kube.InvalidDoNotDisrupt(runningPod("p", annotate(value))); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%s: %q, want %q", value, said, want)
		}
	}
	if err := kube.InvalidDoNotDisrupt(runningPod("p")); err != nil {
		t.Error(err)
	}
}

// Rule CONSOLIDATION-18: the cost of evicting the pods of a node.
func TestEvictionCost(t *testing.T) {
	cost := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: text} }
	}
	priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   float64
	}{
		"ordinary": {func(*corev1.Pod) {}, 1}, "dear": {cost("134217728"), 2}, "cheap": {cost("-2147483647"), -10}, "unreadable": {cost("much"), 1},
		"urgent": {priority(1 << 25), 2}, "critical": {priority(2_000_000_000), 10}, "no number": {cost("NaN"), 1},
	} {
		if got := kube.EvictionCost(runningPod("p", tc.change)); max(got-tc.want, tc.want-got) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	m := readyManagedNode(runningPod("a"), runningPod("b", cost("-2147483647")), runningPod("c", ownedAs("apps/v1", "DaemonSet")), runningPod("d", annotate("true")))
	if n := kube.DisruptionNode(m, nil, kube.Stays{}, false, noon); n.Pods != 2 || n.EvictionCost != 1 {
		t.Errorf("%d pods for %v", n.Pods, n.EvictionCost)
	}
}

func TestDisruptionNode(t *testing.T) {
	m := readyManagedNode()
	plain := disrupt.Node{Key: "a", Name: "node-a", Pool: "web", Ready: true, Created: noon.Add(-2 * time.Hour), Initialized: noon.Add(-time.Hour), LastPodEvent: noon.Add(-time.Hour)}
	for name, tc := range map[string]struct {
		change func(*kube.ManagedNode)
		want   func(*disrupt.Node)
	}{
		"plain": {func(*kube.ManagedNode) {}, func(*disrupt.Node) {}},
		"on its way": {func(m *kube.ManagedNode) {
			m.Node, m.InSnapshot.Initialized, m.Claim.Status.Conditions = nil, false, nil
		},
			func(n *disrupt.Node) {
				n.Name, n.Ready, n.Initialized, n.LastPodEvent = "", false, time.Time{}, time.Time{}
			}},
		"initialized by its label": {func(m *kube.ManagedNode) {
			m.Claim.Status.Conditions = nil
			m.Node.CreationTimestamp = metav1.NewTime(noon.Add(-30 * time.Minute))
		}, func(n *disrupt.Node) {
			n.Initialized, n.LastPodEvent = noon.Add(-30*time.Minute), noon.Add(-30*time.Minute)
		}},
		"not ready": {func(m *kube.ManagedNode) { m.Node.Status.Conditions[0].Status = corev1.ConditionUnknown }, func(n *disrupt.Node) { n.Ready = false }},
		"leaving":   {func(m *kube.ManagedNode) { m.InSnapshot.MarkedForDeletion = true }, func(n *disrupt.Node) { n.MarkedForDeletion = true }},
		"terminating": {func(m *kube.ManagedNode) {
			m.Claim.Status.Conditions = append(m.Claim.Status.Conditions, conditionOf(karpv1.ConditionTypeInstanceTerminating, "x", noon))
		}, func(n *disrupt.Node) { n.Terminating = true }},
		"busy": {func(m *kube.ManagedNode) { m.Activity = noon.Add(-time.Minute) }, func(n *disrupt.Node) { n.LastPodEvent = noon.Add(-time.Minute) }},
		"busy before": {func(m *kube.ManagedNode) {
			m.Claim.Status.LastPodEventTime = metav1.NewTime(noon.Add(-2 * time.Minute))
		}, func(n *disrupt.Node) { n.LastPodEvent = noon.Add(-2 * time.Minute) }},
		"nominated by a plan": {func(m *kube.ManagedNode) { m.Nominated = 1 }, func(n *disrupt.Node) { n.Nominated = true }},
		"nominated": {func(m *kube.ManagedNode) { m.InSnapshot.NominatedUntil = noon.Add(time.Second) }, func(n *disrupt.Node) {
			n.Nominated, n.NominatedUntil = true, noon.Add(time.Second)
		}},
		"nominated before": {func(m *kube.ManagedNode) { m.InSnapshot.NominatedUntil = noon }, func(*disrupt.Node) {}},
		"with grace":       {func(m *kube.ManagedNode) { m.Claim.Spec.TerminationGracePeriod = &metav1.Duration{} }, func(n *disrupt.Node) { n.HasTerminationGracePeriod = true }},
		"drifted and past its life": {func(m *kube.ManagedNode) {
			m.Claim.Spec.ExpireAfter = karpv1.MustParseNillableDuration("90m")
			m.Claim.Status.Conditions = append(m.Claim.Status.Conditions, conditionOf(karpv1.ConditionTypeDrifted, "ImageDrift", noon.Add(-time.Minute)))
		}, func(n *disrupt.Node) {
			n.ExpireAfter = 90 * time.Minute
			n.Due = []disrupt.DueCause{{Cause: disrupt.Expired, Detail: string(disrupt.Expired), Since: noon.Add(-30 * time.Minute)}, {Cause: disrupt.Drifted, Detail: "ImageDrift", Since: noon.Add(-time.Minute)}}
		}},
		"within its life": {func(m *kube.ManagedNode) { m.Claim.Spec.ExpireAfter = karpv1.MustParseNillableDuration("121m") }, func(n *disrupt.Node) { n.ExpireAfter = 121 * time.Minute }},
		"no labels": {func(m *kube.ManagedNode) { m.InSnapshot.Price = 0 }, func(n *disrupt.Node) {
			n.PriceUnknownDetail = `Node does not have label "node.kubernetes.io/instance-type"`
		}},
		"an unknown type": {func(m *kube.ManagedNode) { m.InSnapshot.Price, m.InSnapshot.Labels = 0, placed() }, func(n *disrupt.Node) { n.PriceUnknownDetail = `Instance Type "d4" not found` }},
		"a type not on sale": {func(m *kube.ManagedNode) { m.InSnapshot.Price, m.InSnapshot.Labels, m.KnownType = 0, placed(), true },
			func(n *disrupt.Node) { n.PriceUnknownDetail = `Instance Type "d4" has no price in zone "1" as spot` }},
	} {
		x := m
		x.Claim, x.Node = m.Claim.DeepCopy(), m.Node.DeepCopy()
		tc.change(&x)
		want := plain
		tc.want(&want)
		if diff := cmp.Diff(want, kube.DisruptionNode(x, nil, kube.Stays{}, true, noon)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	m.Claim.Spec.ExpireAfter = karpv1.MustParseNillableDuration("90m")
	if n := kube.DisruptionNode(m, nil, kube.Stays{}, false, noon); n.Due != nil {
		t.Error("a node past its life is replaced in a pool that deletes it")
	}
}

// Rule CONSOLIDATION-20: budgets that allow only some evictions decide which of them will be
// late.
func TestPDBsThatAllowSomeEvictions(t *testing.T) {
	m := readyManagedNode()
	m.Pods = []*corev1.Pod{runningPod("a"), runningPod("b"), runningPod("other", func(p *corev1.Pod) { p.Labels = nil })}
	for _, p := range m.Pods {
		p.UID = types.UID(p.Name)
	}
	want := []disrupt.PDB{{Name: "default/web", Allowed: 1, Pods: []string{"a", "b"}}}
	if diff := cmp.Diff(want, kube.DisruptionNode(m, NewPDBs(pdbOf("web")), kube.Stays{}, false, noon).PDBs); diff != "" {
		t.Errorf("one of two may go: %s", diff)
	}
	none := pdbOf("web", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed, b.Status.CurrentHealthy = 0, 2 })
	if n := kube.DisruptionNode(m, NewPDBs(none), kube.Stays{}, false, noon); n.PDBs != nil || len(n.Blocks) != 2 {
		t.Errorf("none may go: PDBs %v, %d blocks", n.PDBs, len(n.Blocks))
	}
}

func placed() map[string]string {
	return map[string]string{cluster.LabelInstanceType: "d4", cluster.LabelCapacityType: "spot", cluster.LabelZone: "1"}
}
