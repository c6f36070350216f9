// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func container(requests ...string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: resources(requests...)}}
}

func TestAmountsRoundTrip(t *testing.T) {
	want := quantity.Amounts{"cpu": 1500, "memory": 3 << 30, "nvidia.com/gpu": 2, "pods": 110}
	if diff := cmp.Diff(want, Amounts(ResourceList(want))); diff != "" {
		t.Error(diff)
	}
	if got := Amounts(resources("cpu", "1.0001"))["cpu"]; got != 1001 {
		t.Errorf("a fraction of a milli-core became %d, want it rounded up to 1001", got)
	}
}

// An amount that does not fit into 64 bits is more than any node has, not zero.
func TestHugeAmountsDoNotWrapAround(t *testing.T) {
	got := Amounts(resources("cpu", "1e16", "memory", "100E", "nvidia.com/gpu", "9223372036854775807"))
	want := quantity.Amounts{"cpu": quantity.Most, "memory": quantity.Most, "nvidia.com/gpu": quantity.Most}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Rule POD-4.
func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("cpu", "200m")
	sidecar.RestartPolicy = &always
	limited := corev1.Container{Resources: corev1.ResourceRequirements{Limits: resources("cpu", "2", "memory", "1Gi"), Requests: resources("cpu", "1")}}

	for _, tc := range []struct {
		name string
		pod  corev1.Pod
		want quantity.Amounts
	}{
		{"containers add up", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "1", "memory", "1Gi"), container("cpu", "500m")}}},
			quantity.Amounts{"cpu": 1500, "memory": 1 << 30, "pods": 1}},
		{"nothing asked is still a pod", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}},
			quantity.Amounts{"pods": 1}},
		{"the largest init container counts when it is larger", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("cpu", "3"), container("cpu", "2")}, Containers: []corev1.Container{container("cpu", "1")}}},
			quantity.Amounts{"cpu": 3000, "pods": 1}},
		{"sidecars run beside containers and later init containers", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{sidecar, container("cpu", "2")}, Containers: []corev1.Container{container("cpu", "1")}}},
			quantity.Amounts{"cpu": 2200, "pods": 1}},
		{"overhead", corev1.Pod{Spec: corev1.PodSpec{Overhead: resources("cpu", "250m", "memory", "120Mi"), Containers: []corev1.Container{container("cpu", "1")}}},
			quantity.Amounts{"cpu": 1250, "memory": 120 << 20, "pods": 1}},
		{"pod-level resources replace the sum", corev1.Pod{Spec: corev1.PodSpec{
			Resources: &corev1.ResourceRequirements{Requests: resources("cpu", "4")}, Containers: []corev1.Container{container("cpu", "1", "nvidia.com/gpu", "1")}}},
			quantity.Amounts{"cpu": 4000, "nvidia.com/gpu": 1, "pods": 1}},
		{"pod-level resources and the overhead on top", corev1.Pod{Spec: corev1.PodSpec{Overhead: resources("cpu", "250m"),
			Resources: &corev1.ResourceRequirements{Requests: resources("cpu", "4")}, Containers: []corev1.Container{container("cpu", "1", "memory", "1Gi")}}},
			quantity.Amounts{"cpu": 4250, "memory": 1 << 30, "pods": 1}},
		{"huge pages are a resource for each size", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
			container("hugepages-2Mi", "4Mi"), container("hugepages-2Mi", "6Mi", "hugepages-1Gi", "1Gi")}}},
			quantity.Amounts{"hugepages-2Mi": 10 << 20, "hugepages-1Gi": 1 << 30, "pods": 1}},
		{"limits stand in for missing requests", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{limited}}},
			quantity.Amounts{"cpu": 1000, "memory": 1 << 30, "pods": 1}},
		{"a resize counts the larger of asked and allocated", corev1.Pod{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "1")}}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", AllocatedResources: resources("cpu", "3"),
				Resources: &corev1.ResourceRequirements{Requests: resources("cpu", "3")}}}}},
			quantity.Amounts{"cpu": 3000, "pods": 1}},
		{"also while it grows", corev1.Pod{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "5")}}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", AllocatedResources: resources("cpu", "3"),
				Resources: &corev1.ResourceRequirements{Requests: resources("cpu", "3")}}}}},
			quantity.Amounts{"cpu": 5000, "pods": 1}},
		{"unless the node can never give it", corev1.Pod{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "5")}}}},
			Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "a", AllocatedResources: resources("cpu", "3"),
					Resources: &corev1.ResourceRequirements{Requests: resources("cpu", "3")}}}}},
			quantity.Amounts{"cpu": 3000, "pods": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.pod.DeepCopy()
			if diff := cmp.Diff(tc.want, Requests(&tc.pod)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, &tc.pod); diff != "" {
				t.Errorf("the pod was changed: %s", diff)
			}
		})
	}
}

func TestPodConstraints(t *testing.T) {
	p := corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"team": "a", "beta.kubernetes.io/arch": "arm64"},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "gen", Operator: corev1.NodeSelectorOpGt, Values: []string{"3"}},
					{Key: "old", Operator: corev1.NodeSelectorOpDoesNotExist},
				}},
				{}, // matches nothing, and so adds no alternative
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"z1"}}}},
			}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}},
		}},
		Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
	}}
	want := cluster.Pod{
		Requests: quantity.Amounts{"pods": 1},
		Required: cluster.Term{
			{Key: "kubernetes.io/arch", Operator: constraint.In, Values: []string{"arm64"}},
			{Key: "team", Operator: constraint.In, Values: []string{"a"}},
		},
		AnyOf: []cluster.Term{
			{{Key: "gen", Operator: constraint.Gt, Values: []string{"3"}}, {Key: "old", Operator: constraint.DoesNotExist}},
			{{Key: "zone", Operator: constraint.NotIn, Values: []string{"z1"}}},
		},
		Tolerations: []cluster.Toleration{{Key: "gpu", Operator: "Exists", Effect: cluster.NoSchedule}},
	}
	if diff := cmp.Diff(want, Pod(&p, time.Time{})); diff != "" {
		t.Error(diff)
	}
}

// Deprecated labels mean the current ones wherever a node label is named.
//
// Rule REQUIREMENT-5.
func TestLabelsOfOld(t *testing.T) {
	for old, today := range karpv1.NormalizedLabels {
		exists := corev1.NodeSelectorRequirement{Key: old, Operator: corev1.NodeSelectorOpExists}
		anywhere := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{exists}}}
		p := &corev1.Pod{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{old: "x"},
			Affinity: &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: anywhere},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: anywhere[0]}},
				},
				PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: old}},
				},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: old}},
		}}
		w := Pod(p, time.Time{})
		pool := &karpv1.NodePool{}
		pool.Spec.Template.Labels = map[string]string{old: "x"}
		if got := Pool(pool).Labels; got[today] != "x" || len(got) != 1 {
			t.Errorf("a template's label %s is taken for %v", old, got)
		}
		pool.Spec.Template.Labels[today] = "y"
		if got := Pool(pool).Labels; got[today] != "y" || len(got) != 1 {
			t.Errorf("a template's labels %s and %s are taken for %v", old, today, got)
		}
		for where, got := range map[string]string{
			"nodeSelector": w.Required[0].Key, "required affinity": w.AnyOf[0][0].Key, "preferred affinity": w.Preferred[0].Term[0].Key,
			"pod anti-affinity": w.AntiAffinity[0].Key, "topology spread": w.Spreads[0].Key,
			"NodePool": Rules([]karpv1.NodeSelectorRequirementWithMinValues{{Key: old, Operator: corev1.NodeSelectorOpExists}})[0].Key,
			"volume":   places(tiedTo(&corev1.PersistentVolume{}, anywhere...))[0][0].Key,
		} {
			if got != today {
				t.Errorf("%s by %s asks for %s, want %s", where, old, got, today)
			}
		}
	}
}

// Karpenter's own operators, which pods cannot use, hold for NodePools, NodeClaims and
// NodeOverlays, and are kept in the claims of a pool.
//
// Rule REQUIREMENT-1.
func TestOperatorsOfPools(t *testing.T) {
	var rules []constraint.Rule
	for _, o := range []constraint.Operator{constraint.Gt, constraint.Lt, constraint.Gte, constraint.Lte} {
		rules = append(rules, constraint.Rule{Key: "cpus", Operator: o, Values: []string{"8"}})
	}
	asked := Requirements(rules)
	pool, claim, overlay := &karpv1.NodePool{}, &karpv1.NodeClaim{}, &karpv1alpha1.NodeOverlay{}
	pool.Spec.Template.Spec.Requirements, claim.Spec.Requirements = asked, Claim(schedule.Launch{Rules: rules}, pool, "a").Spec.Requirements
	for _, r := range asked {
		if err := karpv1.ValidateRequirement(t.Context(), r); err != nil {
			t.Error(err)
		}
		overlay.Spec.Requirements = append(overlay.Spec.Requirements, karpv1alpha1.NodeSelectorRequirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	read, err := Overlay(overlay)
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]cluster.Term{"NodePool": Pool(pool).Requirements, "NodeClaim": Rules(claim.Spec.Requirements), "NodeOverlay": read.Rules} {
		if diff := cmp.Diff(cluster.Term(rules), got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// Rule POD-3, Rule REQUIREMENT-4, Rule REASON-7.
func TestRefusal(t *testing.T) {
	term := func(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}}
	}
	by := func(key string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}
	}
	for _, tc := range []struct {
		name  string
		spec  corev1.PodSpec
		want  reason.Reason
		words string
	}{
		{"plain", corev1.PodSpec{}, "", ""},
		{"a hard spread is planned", corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.DoNotSchedule}}}, "", ""},
		{"host ports are planned", corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80}}}}}, "", ""},
		{"resource claims", corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}}, reason.Unsupported, "not yet supported"},
		{"fields", term(corev1.NodeSelectorTerm{MatchFields: by("metadata.name")}), reason.Unsupported, "matchFields"},
		{"only empty terms", term(corev1.NodeSelectorTerm{}), reason.Invalid, "matches no node"},
		{"one empty term", term(corev1.NodeSelectorTerm{}, corev1.NodeSelectorTerm{MatchExpressions: by("team")}), "", ""},
		{"no label value", term(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "team", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a b"}}}}), reason.Invalid, "no term can be read"},
		{"no integer", term(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"many"}}}}), reason.Invalid, "no term can be read"},
		{"one term that can be read", term(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"many"}}}},
			corev1.NodeSelectorTerm{MatchExpressions: by("team")}), "", ""},
		{"hostname", corev1.PodSpec{NodeSelector: map[string]string{"kubernetes.io/hostname": "n1"}}, reason.Invalid, "nodeSelector: using label kubernetes.io/hostname"},
		{"Karpenter's own label", term(corev1.NodeSelectorTerm{MatchExpressions: by("karpenter.sh/registered")}), reason.Invalid, "required node affinity: using label karpenter.sh/registered"},
		{"a subdomain", corev1.PodSpec{NodeSelector: map[string]string{"team.karpenter.sh/x": "y", "b.karpenter.sh/x": "y"}}, reason.Invalid, "b.karpenter.sh/x"},
		{"well-known labels", corev1.PodSpec{NodeSelector: map[string]string{"karpenter.sh/nodepool": "a", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "z"}}, "", ""},
		{"other domains", corev1.PodSpec{NodeSelector: map[string]string{"node-restriction.kubernetes.io/a": "b", "karpenter.azure.com/sku-family": "D", "mykarpenter.sh/x": "y"}}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := Pod(&corev1.Pod{Spec: tc.spec}, time.Time{})
			if w.Refused != tc.want || !strings.Contains(w.RefusedDetail, tc.words) || (w.Refused == "") != (w.RefusedDetail == "") {
				t.Errorf("refused %q (%s), want %q with %q", w.Refused, w.RefusedDetail, tc.want, tc.words)
			}
			if key := w.RefusedFacts.Text("key"); (w.Refused == "") != (w.RefusedFacts.Text("field") == "") || !strings.Contains(w.RefusedDetail, key) {
				t.Errorf("facts %v", w.RefusedFacts)
			}
		})
	}
}

func owned(kind, version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, UID: "owner"}}}
}

// Rule POD-1.
func TestProvisionable(t *testing.T) {
	pending := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}}
		change(p)
		return p
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"unschedulable":    {pending(func(*corev1.Pod) {}), true},
		"not tried yet":    {pending(func(p *corev1.Pod) { p.Status.Conditions = nil }), false},
		"gated":            {pending(func(p *corev1.Pod) { p.Status.Conditions[0].Reason = "SchedulingGated" }), false},
		"bound":            {pending(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), false},
		"preempting":       {pending(func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" }), false},
		"of a DaemonSet":   {pending(func(p *corev1.Pod) { p.ObjectMeta = owned("DaemonSet", "apps/v1") }), false},
		"of a node":        {pending(func(p *corev1.Pod) { p.ObjectMeta = owned("Node", "v1") }), false},
		"finished":         {pending(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), false},
		"being terminated": {pending(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), false},
	} {
		if got := Provisionable(tc.pod); got != tc.want {
			t.Errorf("%s: Provisionable = %t, want %t", name, got, tc.want)
		}
	}
}

func TestDoNotDisrupt(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	started := metav1.NewTime(now.Add(-10 * time.Minute))
	for value, want := range map[string]bool{"": false, "true": true, "false": false, "5m": false, "15m": true, "soon": false, "-1h": false} {
		p := &corev1.Pod{Status: corev1.PodStatus{StartTime: &started}}
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: value}
		if got := DoNotDisrupt(p, now); got != want {
			t.Errorf("%q on a pod 10 minutes old: %t, want %t", value, got, want)
		}
	}
	notStarted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: "1s"}}}
	if !DoNotDisrupt(notStarted, now) {
		t.Error("a pod that has not started is not protected by a duration")
	}
}

func catalogOfTwo() *InstanceTypes {
	t := func(name string, cpu, gib int64, price offering.Price) offering.InstanceType {
		return offering.InstanceType{Name: name, Labels: map[string][]string{"arch": {"amd64"}, "many": {"a", "b"}},
			Capacity: quantity.Amounts{"cpu": cpu, "memory": gib << 30}, Overhead: quantity.Amounts{"cpu": 100},
			Offerings: []offering.Offering{{Zone: "z1", CapacityType: offering.Spot, Price: price, QuotaUses: []offering.QuotaUse{{Quota: "spot", Amount: cpu / 1000}}}}}
	}
	return NewInstanceTypes([]offering.InstanceType{t("lean", 4000, 8, 10), t("fat", 2000, 32, 20)})
}

func TestNodeOfClaimWithoutInstance(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "web"}}}
	claim.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	claim.Spec.StartupTaints = []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoSchedule}}
	cat := catalogOfTwo()
	choices := []offering.Ref{{Type: "lean", Zone: "z1", CapacityType: offering.Spot, Price: 10}, {Type: "fat", Zone: "z1", CapacityType: offering.Spot, Price: 20}}
	want := cluster.Node{
		Key: "web-1", Name: "nodeclaim/web-1", Pool: "web", HasNodeClaim: true, Price: 10,
		Labels: map[string]string{karpv1.NodePoolLabelKey: "web", "arch": "amd64", cluster.LabelInstanceType: "lean", cluster.LabelZone: "z1", cluster.LabelCapacityType: "spot"},
		Taints: []cluster.Taint{{Key: "gpu", Effect: cluster.NoSchedule}},
		// Limits count the largest node that it may become, pods the smallest.
		Capacity:    quantity.Amounts{"cpu": 4000, "memory": 32 << 30},
		Allocatable: quantity.Amounts{"cpu": 1900, "memory": 8 << 30},
		QuotaUses:   []offering.QuotaUse{{Quota: "spot", Amount: 4}},
	}
	if diff := cmp.Diff(want, Node(nil, claim, cat, choices)); diff != "" {
		t.Error(diff)
	}
	claim.Status.ProviderID = "launched" // from here on the cloud counts it
	if got := Node(nil, claim, cat, choices); got.QuotaUses != nil {
		t.Errorf("a launched instance still draws %v", got.QuotaUses)
	}
}

// Limits are hard also while the offerings of a claim are out of stock: the instance may be
// launched already.
//
// Rule LIMIT-1.
func TestLimitsCountTypesOutOfStock(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
	claim.Spec.Resources.Requests = resources("cpu", "1")
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"lean", "fat"}},
	}
	want := quantity.Amounts{"cpu": 4000, "memory": 32 << 30}
	for _, choices := range [][]offering.Ref{nil, {{Type: "fat", Zone: "z1", CapacityType: offering.Spot, Price: 20}}} {
		got := Node(nil, claim, catalogOfTwo(), choices)
		if diff := cmp.Diff(want, got.Capacity); diff != "" {
			t.Errorf("%d choices left: %s", len(choices), diff)
		}
	}
}

func TestNodeBeforeAndAfterInitialization(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "web"}}}
	claim.Spec.StartupTaints = []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoSchedule}}
	claim.Status.Allocatable = resources("cpu", "4", "nvidia.com/gpu", "1")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{karpv1.NodeRegisteredLabelKey: "true"}}}
	node.Spec.Taints = []corev1.Taint{
		{Key: "starting", Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		{Key: "readiness.k8s.io/cni", Effect: corev1.TaintEffectNoSchedule}, {Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
	}
	node.Status.Allocatable = resources("cpu", "3900m")

	early := Node(node, claim, nil, nil)
	if diff := cmp.Diff([]cluster.Taint{{Key: "team", Value: "a", Effect: cluster.NoSchedule}}, early.Taints); diff != "" {
		t.Errorf("before initialization only lasting taints count: %s", diff)
	}
	if diff := cmp.Diff(quantity.Amounts{"cpu": 3900, "nvidia.com/gpu": 1}, early.Allocatable); diff != "" {
		t.Errorf("the estimate stands in for what the kubelet does not report yet: %s", diff)
	}
	node.Labels[karpv1.NodeInitializedLabelKey] = "true"
	node.Spec.Unschedulable = true
	late := Node(node, claim, nil, nil)
	if len(late.Taints) != 5 || !late.Initialized {
		t.Errorf("after initialization every taint counts, and the cordon: %+v", late.Taints)
	}
	if diff := cmp.Diff(quantity.Amounts{"cpu": 3900}, late.Allocatable); diff != "" {
		t.Errorf("and only what the kubelet reports: %s", diff)
	}
}

func TestClaimOfLaunch(t *testing.T) {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "pool-uid"}}
	pool.Spec.Template.Labels = map[string]string{"team": "a"}
	pool.Spec.Template.Annotations = map[string]string{"note": "x"}
	pool.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef:  &karpv1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "default"},
		Taints:        []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}},
		StartupTaints: []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoSchedule}},
		ExpireAfter:   karpv1.MustParseNillableDuration("720h"),
	}
	launch := schedule.Launch{
		Pool:     "web",
		Rules:    []constraint.Rule{{Key: "sku", Operator: constraint.In, Values: []string{"D4"}, MinValues: 1}},
		Labels:   map[string]string{"kubernetes.io/arch": "amd64"},
		Requests: quantity.Amounts{"cpu": 1500, "pods": 3},
	}
	c := Claim(launch, pool, "web-abcde")
	wantLabels := map[string]string{"team": "a", "kubernetes.io/arch": "amd64", karpv1.NodePoolLabelKey: "web", "karpenter.azure.com/aksnodeclass": "default"}
	if diff := cmp.Diff(wantLabels, c.Labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	wantAnnotations := map[string]string{"note": "x", karpv1.NodePoolHashAnnotationKey: pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: "v3", karpv1.NodeClaimMinValuesRelaxedAnnotationKey: "false"}
	if diff := cmp.Diff(wantAnnotations, c.Annotations); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
	if len(c.Finalizers) != 1 || c.OwnerReferences[0].UID != "pool-uid" || !*c.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("finalizers %v, owners %v", c.Finalizers, c.OwnerReferences)
	}
	if diff := cmp.Diff(launch.Rules, []constraint.Rule(Rules(c.Spec.Requirements))); diff != "" {
		t.Errorf("requirements: %s", diff)
	}
	if diff := cmp.Diff(launch.Requests, Amounts(c.Spec.Resources.Requests)); diff != "" {
		t.Errorf("requests: %s", diff)
	}
	if pool.Spec.Template.Labels[karpv1.NodePoolLabelKey] != "" {
		t.Error("the pool's template was changed")
	}
}

// Rule REASON-7.
// Rule CATALOG-5.
func TestPoolThatCountsOnBursts(t *testing.T) {
	for value, want := range map[string]bool{"full": true, "baseline": false, "all": false, "": false} {
		pool := &karpv1.NodePool{}
		pool.Annotations = map[string]string{BurstableCPUAnnotation: value}
		if got := Pool(pool).FullCPU; got != want {
			t.Errorf("annotation %q: all CPU counts: %v", value, got)
		}
	}
}

func TestPoolReadiness(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*karpv1.NodePool)
		want   reason.Reason
	}{
		"ready":       {func(p *karpv1.NodePool) { ready(p) }, ""},
		"fresh":       {func(*karpv1.NodePool) {}, reason.NodePoolNotReady},
		"being ended": {func(p *karpv1.NodePool) { ready(p); p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, reason.NodePoolNotReady},
		"static":      {func(p *karpv1.NodePool) { ready(p); p.Spec.Replicas = new(int64(3)) }, ""},
		"no class": {func(p *karpv1.NodePool) {
			ready(p)
			p.StatusConditions().SetFalse(karpv1.ConditionTypeNodeClassReady, "NodeClassNotFound", "create it")
		}, reason.NodePoolNotReady},
	} {
		p := &karpv1.NodePool{}
		tc.change(p)
		got := Pool(p)
		if got.Static != (name == "static") {
			t.Errorf("%s: static %t", name, got.Static)
		}
		if got.Blocked != tc.want || (got.Blocked != "") != (got.BlockedDetail != "") {
			t.Errorf("%s: blocked %q (%s), want %q", name, got.Blocked, got.BlockedDetail, tc.want)
		}
		if condition := got.BlockedFacts.Text("condition"); name == "no class" && condition != karpv1.ConditionTypeNodeClassReady {
			t.Errorf("%s: it is the condition %q", name, condition)
		}
	}
}

func ready(p *karpv1.NodePool) {
	p.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	p.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
}

func TestDaemon(t *testing.T) {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", UID: "d"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: resources("cpu", "100m")}}}
	got := Daemon(d)
	if diff := cmp.Diff(quantity.Amounts{"cpu": 100, "pods": 1}, got.Requests); diff != "" {
		t.Error(diff)
	}
	cordon := cluster.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: "Exists", Effect: cluster.NoSchedule}
	if !slices.Contains(got.Tolerations, cordon) {
		t.Errorf("daemons run on cordoned nodes too: %+v", got.Tolerations)
	}
}

// Requirements that the API server does not accept in a NodeClaim are not written into it: a pod
// may select any label of AKS.
//
// Rule REQUIREMENT-6.
func TestClaimLacksLabelsThatItMayNotAskFor(t *testing.T) {
	rule := func(key string) constraint.Rule {
		return constraint.Rule{Key: key, Operator: constraint.In, Values: []string{"x"}}
	}
	launch := schedule.Launch{Rules: []constraint.Rule{
		rule("kubernetes.azure.com/podnetwork-type"), rule("kubernetes.azure.com/ebpf-dataplane"), rule("kubernetes.azure.com/role"), rule("my.kubernetes.azure.com.example/role"),
	}}
	c := Claim(launch, &karpv1.NodePool{}, "web-abcde")
	want := []constraint.Rule{launch.Rules[1], launch.Rules[3]}
	if diff := cmp.Diff(want, []constraint.Rule(Rules(c.Spec.Requirements))); diff != "" {
		t.Errorf("requirements (-want +got):\n%s", diff)
	}
	if len(launch.Rules) != 4 || launch.Rules[0].Key != "kubernetes.azure.com/podnetwork-type" {
		t.Errorf("the plan was changed: %v", launch.Rules)
	}
}
