// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/kube"
)

func agent(generation string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", UID: "owner", Annotations: map[string]string{generationOfSet: generation}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{container("cpu", "100m")}
	return d
}

// agentPod is a pod of agent, created at a given second, with requests that admission changed.
func agentPod(uid, generation string, made int64, cpu string) *corev1.Pod {
	p := pendingPod(uid)
	p.UID = types.UID(uid)
	p.OwnerReferences = owned("DaemonSet", "apps/v1").OwnerReferences
	p.CreationTimestamp = metav1.Unix(made, 0)
	p.Labels = map[string]string{generationOfPod: generation}
	p.Spec.Containers = []corev1.Container{container("cpu", cpu)}
	return p
}

// The overhead of a DaemonSet on new nodes is that of its newest pod of the current template, as
// admission may have changed it; without such a pod it is the template's.
//
// Rule PLAN-2.
func TestDaemonOverheadIsThatOfRealPods(t *testing.T) {
	m := NewMirror(nil)
	cpu := func() int64 {
		return m.parts.builder.daemons["owner"].Requests["cpu"]
	}
	devices := agent("2")
	devices.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	finished := agentPod("c", "2", 3, "9")
	finished.Status.Phase = corev1.PodFailed
	for _, step := range []struct {
		name   string
		change func()
		want   int64
	}{
		{"a pod whose DaemonSet is not known yet", func() { m.SetPod(agentPod("a", "1", 1, "300m"), false) }, 0},
		{"the DaemonSet comes", func() { m.SetDaemon(agent("1")) }, 300},
		{"a newer pod", func() { m.SetPod(agentPod("b", "1", 2, "400m"), false) }, 400},
		{"an older pod changes", func() { m.SetPod(agentPod("a", "1", 1, "350m"), false) }, 400},
		{"the newest pod goes", func() { m.RemovePod(agentPod("b", "1", 2, "400m")) }, 350},
		{"a new template", func() { m.SetDaemon(agent("2")) }, 100},
		{"its first pod", func() { m.SetPod(agentPod("c", "2", 3, "500m"), false) }, 500},
		{"a pod that finished tells nothing", func() { m.SetPod(finished, false) }, 100},
		{"a template that needs devices lands on no new node", func() { m.SetDaemon(devices) }, 0},
		{"and one that does not", func() { m.SetDaemon(agent("2")) }, 100},
		{"the DaemonSet goes", func() { m.RemoveDaemon(agent("2")) }, 0},
	} {
		step.change()
		if got := cpu(); got != step.want {
			t.Errorf("%s: cpu %d, want %d", step.name, got, step.want)
		}
	}
	m.RemovePod(agentPod("a", "1", 1, "350m"))
	if len(m.parts.daemonSets.byUID) != 0 {
		t.Errorf("something is remembered: %v", m.parts.daemonSets.byUID)
	}
}

func TestDaemonOfRealPod(t *testing.T) {
	zones := func(fields []corev1.NodeSelectorRequirement) *corev1.Affinity {
		a, b := zoned(corev1.LabelTopologyZone, "z1"), zoned(corev1.LabelTopologyZone, "z2")
		a.MatchFields, b.MatchFields = fields, fields
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{a, b}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				{Weight: 1, Preference: zoned(corev1.LabelTopologyZone, "z1")}},
		}}
	}
	d := agent("1")
	d.Spec.Template.Spec.Affinity = zones(nil)
	p := agentPod("a", "1", 1, "300m")
	p.Spec.Affinity = zones([]corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}})
	p.Spec.NodeSelector = map[string]string{"gpu": "yes"}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	want := cluster.DaemonSet{
		PodRef:      cluster.PodRef{Namespace: "kube-system", Name: "agent", UID: "owner"},
		Requests:    quantity.Amounts{"cpu": 300, "pods": 1},
		Required:    cluster.Term{{Key: "gpu", Operator: constraint.In, Values: []string{"yes"}}},
		AnyOf:       []cluster.Term{{in(cluster.LabelZone, "z1")}, {in(cluster.LabelZone, "z2")}},
		Tolerations: []cluster.Toleration{{Operator: "Exists"}},
	}
	if diff := cmp.Diff(want, kube.DaemonFromPod(d, p)); diff != "" {
		t.Error(diff)
	}
	if got := kube.Pod(p, time.Time{}).DaemonSet; got != "owner" {
		t.Errorf("the pod is of %q", got)
	}
}

// A pod that its DaemonSet no longer owns does not affect new nodes, and is forgotten.
//
// Rule PLAN-2.
func TestDaemonPodLosesItsOwner(t *testing.T) {
	for name, seen := range map[string]bool{"seen before it goes": true, "seen as it goes": false} {
		t.Run(name, func(t *testing.T) {
			m, d := NewMirror(nil), agent("1")
			m.SetDaemon(d)
			p := agentPod("a", "1", 1, "300m")
			m.SetPod(p, false)
			orphan := p.DeepCopy()
			orphan.OwnerReferences = nil
			if seen {
				m.SetPod(orphan, false)
			} else {
				m.RemovePod(orphan)
			}
			if got := m.parts.builder.daemons[string(d.UID)].Requests["cpu"]; got != 100 {
				t.Errorf("a new node keeps cpu %dm for the DaemonSet, want the template's 100m", got)
			}
			m.RemovePod(orphan)
			m.RemoveDaemon(d)
			if len(m.parts.daemonSets.byUID) != 0 {
				t.Errorf("something is remembered: %v", m.parts.daemonSets.byUID)
			}
		})
	}
}
