// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/kube"
)

func in(key string, values ...string) constraint.Rule {
	return constraint.Rule{Key: key, Operator: constraint.In, Values: values}
}

func notIn(key string, values ...string) constraint.Rule {
	return constraint.Rule{Key: key, Operator: constraint.NotIn, Values: values}
}

func picks(labels ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		s.MatchLabels[labels[i]] = labels[i+1]
	}
	return s
}

var (
	honor, ignore = corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	own           = []string{"shop"}
)

// shopper is a pod with labels in a namespace of its own.
func shopper() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Labels: map[string]string{"app": "web", "rev": "7"}}}
}

func TestSpreads(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   corev1.TopologySpreadConstraint
		want cluster.TopologySpreadConstraint
	}{
		{"defaults: affinity honoured, taints ignored",
			corev1.TopologySpreadConstraint{TopologyKey: "zone", MaxSkew: 1, LabelSelector: picks("app", "web")},
			cluster.TopologySpreadConstraint{Key: "zone", MaxSkew: 1, Selector: cluster.Selector{Namespaces: own, Labels: cluster.Term{in("app", "web")}}}},
		{"everything said", corev1.TopologySpreadConstraint{
			TopologyKey: "failure-domain.beta.kubernetes.io/zone", MaxSkew: 2, MinDomains: new(int32(3)), WhenUnsatisfiable: corev1.ScheduleAnyway,
			NodeAffinityPolicy: &ignore, NodeTaintsPolicy: &honor, LabelSelector: picks("b", "2", "a", "1")},
			cluster.TopologySpreadConstraint{Key: cluster.LabelZone, MaxSkew: 2, MinDomains: 3, Soft: true, IgnoreAffinity: true, HonorTaints: true,
				Selector: cluster.Selector{Namespaces: own, Labels: cluster.Term{in("a", "1"), in("b", "2")}}}},
		{"match keys: the pod's values, unknown keys ignored",
			corev1.TopologySpreadConstraint{LabelSelector: picks("app", "web"), MatchLabelKeys: []string{"rev", "unknown"}},
			cluster.TopologySpreadConstraint{Selector: cluster.Selector{Namespaces: own, Labels: cluster.Term{in("app", "web"), in("rev", "7")}}}},
		{"match keys that the API server merged already",
			corev1.TopologySpreadConstraint{LabelSelector: picks("rev", "7"), MatchLabelKeys: []string{"rev"}},
			cluster.TopologySpreadConstraint{Selector: cluster.Selector{Namespaces: own, Labels: cluster.Term{in("rev", "7")}}}},
		{"an empty selector picks none, as in kube-scheduler", corev1.TopologySpreadConstraint{LabelSelector: &metav1.LabelSelector{}},
			cluster.TopologySpreadConstraint{Selector: cluster.Selector{Namespaces: own, Nothing: true}}},
		{"no selector picks none", corev1.TopologySpreadConstraint{MatchLabelKeys: []string{"rev"}},
			cluster.TopologySpreadConstraint{Selector: cluster.Selector{Namespaces: own, Nothing: true}}},
		{"a selector without values picks none", corev1.TopologySpreadConstraint{LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}}},
			cluster.TopologySpreadConstraint{Selector: cluster.Selector{Namespaces: own, Nothing: true}}},
		{"a selector with a strange operator picks none", corev1.TopologySpreadConstraint{LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
			cluster.TopologySpreadConstraint{Selector: cluster.Selector{Namespaces: own, Nothing: true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := shopper()
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{tc.in}
			before := p.DeepCopy()
			if diff := cmp.Diff([]cluster.TopologySpreadConstraint{tc.want}, kube.Pod(p, time.Time{}).Spreads); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, p); diff != "" {
				t.Errorf("the pod was changed: %s", diff)
			}
		})
	}
}

func TestPodTerms(t *testing.T) {
	web := cluster.Term{in("app", "web")}
	for _, tc := range []struct {
		name string
		in   corev1.PodAffinityTerm
		want cluster.Selector
	}{
		{"the pod's own namespace", corev1.PodAffinityTerm{LabelSelector: picks("app", "web")},
			cluster.Selector{Namespaces: own, Labels: web}},
		{"named namespaces", corev1.PodAffinityTerm{LabelSelector: picks("app", "web"), Namespaces: []string{"x"}},
			cluster.Selector{Namespaces: []string{"x"}, Labels: web}},
		{"every namespace", corev1.PodAffinityTerm{LabelSelector: picks("app", "web"), NamespaceSelector: &metav1.LabelSelector{}},
			cluster.Selector{NamespaceLabels: cluster.Term{}, Labels: web}},
		{"named and selected namespaces", corev1.PodAffinityTerm{LabelSelector: picks("app", "web"), Namespaces: []string{"x"}, NamespaceSelector: picks("team", "a")},
			cluster.Selector{Namespaces: []string{"x"}, NamespaceLabels: cluster.Term{in("team", "a")}, Labels: web}},
		{"a namespace selector that cannot be read admits none", corev1.PodAffinityTerm{LabelSelector: picks("app", "web"),
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
			cluster.Selector{Labels: web}},
		{"match and mismatch keys", corev1.PodAffinityTerm{LabelSelector: picks("app", "web"), MatchLabelKeys: []string{"rev", "none"}, MismatchLabelKeys: []string{"app"}},
			cluster.Selector{Namespaces: own, Labels: cluster.Term{in("app", "web"), in("rev", "7"), notIn("app", "web")}}},
		{"no selector picks none", corev1.PodAffinityTerm{}, cluster.Selector{Namespaces: own, Nothing: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := shopper()
			tc.in.TopologyKey = "beta.kubernetes.io/arch"
			p.Spec.Affinity = &corev1.Affinity{
				PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{tc.in}},
				PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 7, PodAffinityTerm: tc.in}, {Weight: 0, PodAffinityTerm: tc.in}}},
			}
			got := kube.Pod(p, time.Time{})
			if diff := cmp.Diff([]cluster.PodAffinityTerm{{Key: "kubernetes.io/arch", Selector: tc.want}}, got.Affinity); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]cluster.PodAffinityTerm{{Key: "kubernetes.io/arch", Selector: tc.want, Weight: 7}}, got.AntiAffinity); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPreferences(t *testing.T) {
	wants := func(key string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}}
	}
	p := shopper()
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
		{Weight: 1, Preference: wants("beta.kubernetes.io/os")}, {Weight: 100, Preference: wants("gpu")},
		{Weight: 50}, {Weight: 0, Preference: wants("nothing")},
		{Weight: 9, Preference: corev1.NodeSelectorTerm{MatchFields: wants("metadata.name").MatchExpressions}},
	}}}
	want := []cluster.PreferredSchedulingTerm{
		{Weight: 1, Term: cluster.Term{{Key: "kubernetes.io/os", Operator: constraint.Exists}}},
		{Weight: 100, Term: cluster.Term{{Key: "gpu", Operator: constraint.Exists}}},
	}
	got := kube.Pod(p, time.Time{})
	if diff := cmp.Diff(want, got.Preferred); diff != "" || got.Refused != "" {
		t.Errorf("%s, refused %q", diff, got.Refused)
	}
}

func TestHostPorts(t *testing.T) {
	ports := func(p ...corev1.ContainerPort) corev1.Container { return corev1.Container{Ports: p} }
	sidecar := ports(corev1.ContainerPort{HostPort: 1, Protocol: corev1.ProtocolUDP})
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	p := shopper()
	p.Spec.InitContainers = []corev1.Container{ports(corev1.ContainerPort{HostPort: 99}), sidecar}
	p.Spec.Containers = []corev1.Container{
		ports(corev1.ContainerPort{ContainerPort: 80}),
		ports(corev1.ContainerPort{HostPort: 443, HostIP: "10.0.0.1"}, corev1.ContainerPort{HostPort: 53, Protocol: corev1.ProtocolSCTP}),
	}
	want := []cluster.Port{{Protocol: "UDP", Port: 1}, {Protocol: "TCP", IP: "10.0.0.1", Port: 443}, {Protocol: "SCTP", Port: 53}}
	if diff := cmp.Diff(want, kube.Pod(p, time.Time{}).Ports); diff != "" {
		t.Error(diff)
	}
}

// A template with hostNetwork need not repeat its ports as host ports, and admission may have
// changed those of existing pods.
func TestDaemonPorts(t *testing.T) {
	d := agent("1")
	d.Spec.Template.Spec.HostNetwork = true
	d.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 9100}, {ContainerPort: 53, HostPort: 54, Protocol: corev1.ProtocolUDP}}
	if diff := cmp.Diff([]cluster.Port{{Protocol: "TCP", Port: 9100}, {Protocol: "UDP", Port: 54}}, kube.DaemonFromPod(d, nil).Ports); diff != "" {
		t.Error(diff)
	}
	p := agentPod("a", "1", 1, "300m")
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 9100, HostPort: 9200}}
	if diff := cmp.Diff([]cluster.Port{{Protocol: "TCP", Port: 9200}}, kube.DaemonFromPod(d, p).Ports); diff != "" {
		t.Error(diff)
	}
}

func TestTolerates(t *testing.T) {
	taint := corev1.Taint{Key: "gen", Value: "5", Effect: corev1.TaintEffectNoSchedule}
	for _, tc := range []struct {
		t    corev1.Toleration
		want bool
	}{
		{corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Key: "gen", Value: "5"}, true},
		{corev1.Toleration{Key: "gen", Value: "6"}, false},
		{corev1.Toleration{Key: "gen", Operator: corev1.TolerationOpGt, Value: "4"}, true},
		{corev1.Toleration{Key: "gen", Operator: corev1.TolerationOpGt, Value: "5"}, false},
		{corev1.Toleration{Key: "gen", Operator: corev1.TolerationOpLt, Value: "6"}, true},
		{corev1.Toleration{Key: "gen", Operator: corev1.TolerationOpLt, Value: "many"}, false},
		{corev1.Toleration{Key: "gen", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, false},
	} {
		if got := kube.Tolerates(tc.t, taint); got != tc.want {
			t.Errorf("%+v: tolerates %t, want %t", tc.t, got, tc.want)
		}
	}
}
