// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// fullPod has a value in everything that karve reads of a pod, and in most of what it does not read.
func fullPod() *corev1.Pod {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("3Gi")}
	container := corev1.Container{
		Name: "main", Image: "registry.example/app:v1", Command: []string{"/app"}, Args: []string{"--verbose"}, WorkingDir: "/",
		Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, EnvFrom: []corev1.EnvFromSource{{Prefix: "P"}}, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		Ports:     []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080, HostIP: "10.0.0.1", Protocol: corev1.ProtocolUDP}},
		Resources: corev1.ResourceRequirements{Requests: amounts, Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Gi")}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep"}}}},
	}
	sidecar, start := *container.DeepCopy(), *container.DeepCopy()
	always := corev1.ContainerRestartPolicyAlways
	sidecar.Name, sidecar.RestartPolicy, start.Name = "sidecar", &always, "start"
	sidecar.Ports[0].HostPort = 9090
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	terms := []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: corev1.LabelHostname}}
	name := "data-claim"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web-1", GenerateName: "web-5d8c9-", UID: "uid-1", CreationTimestamp: at, ResourceVersion: "7",
		DeletionTimestamp: &at, DeletionGracePeriodSeconds: new(int64(30)),
		Labels:          map[string]string{"app": "web", "pod-template-hash": "5d8c9"},
		Annotations:     map[string]string{karpv1.DoNotDisruptAnnotationKey: "10m", corev1.PodDeletionCost: "7", "checksum/config": "abc"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d8c9", UID: "uid-rs", Controller: new(true)}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
	}}
	p.Spec = corev1.PodSpec{
		NodeName: "node-1", NodeSelector: map[string]string{"disk": "ssd"}, PriorityClassName: "high", Priority: new(int32(10)),
		TerminationGracePeriodSeconds: new(int64(60)), ServiceAccountName: "web", SchedulerName: "default-scheduler", Overhead: amounts,
		Containers: []corev1.Container{container}, InitContainers: []corev1.Container{start, sidecar},
		Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpEqual, Value: "b", Effect: corev1.TaintEffectNoSchedule}},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}},
			{Name: "inline", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "disk.csi.azure.com"}}},
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}},
		},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"1"}}}}}}},
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 3, PodAffinityTerm: terms[0]}}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}},
		SecurityContext:           &corev1.PodSecurityContext{RunAsUser: new(int64(1))},
	}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodFailed, StartTime: &at, PodIP: "10.244.0.1", HostIP: "10.0.0.1", NominatedNodeName: "node-2", QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: "registry.example/app:v1", ImageID: "sha256:1", ContainerID: "containerd://1",
			Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
			State:     corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at, Message: "a long log"}},
		}},
	}
	return p
}

// What karve reads of a stripped pod is what it reads of the pod.
//
// Rule MEMORY-3.
func TestAStrippedPodIsReadAlike(t *testing.T) {
	running, pending := fullPod(), fullPod()
	running.DeletionTimestamp, running.Status.Phase = nil, corev1.PodRunning
	pending.DeletionTimestamp, pending.Status.Phase, pending.Status.NominatedNodeName, pending.Spec.NodeName = nil, corev1.PodPending, "", ""
	pending.Spec.Containers[0].Ports[0].HostPort, pending.Spec.HostNetwork = 0, true
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	storage := NewStorage()
	storage.SetPVC(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-claim"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}}})
	read := func(p *corev1.Pod) map[string]any {
		out := Pod(p, now)
		storage.Mount(&out, p)
		workload, owned := WorkloadOf(p)
		return map[string]any{
			"pod": out, "facts": PodFactsOf(p), "requests": Requests(p), "claims": PVCsOf(p), "workload": workload, "owned": owned, "stayed": Stayed(p, now),
			"left": LeftAt(p), "disrupted": Disrupted(p), "cost": EvictionCost(p), "identity": p.ResourceVersion, "grace": *p.Spec.TerminationGracePeriodSeconds, "class": p.Spec.PriorityClassName,
		}
	}
	for name, p := range map[string]*corev1.Pod{"ended": fullPod(), "running": running, "pending": pending} {
		want, before := read(p.DeepCopy()), size(t, p)
		stripped, err := StripPod(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read(stripped.(*corev1.Pod))); diff != "" {
			t.Errorf("%s: karve reads another pod (-whole +stripped):\n%s", name, diff)
		}
		if after := size(t, stripped); after > before*3/4 {
			t.Errorf("%s: %d bytes are left of %d", name, after, before)
		}
	}
	if _, err := StripPod(&corev1.Node{}); err == nil {
		t.Error("a Node counts as a Pod")
	}
}

// What karve reads of a stripped Node is what it reads of the Node.
//
// Rule MEMORY-3.
func TestAStrippedNodeIsReadAlike(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"zone": "1"}, Annotations: map[string]string{"karve.dev/x": "y"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}}
	n.Spec = corev1.NodeSpec{ProviderID: "azure:///a", Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"an image"}}}
	want := n.DeepCopy()
	want.ManagedFields, want.Status.Images = nil, nil
	stripped, err := StripNode(n)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stripped); diff != "" {
		t.Errorf("a stripped Node (-want +got):\n%s", diff)
	}
	if _, err := StripNode(&corev1.Pod{}); err == nil {
		t.Error("a Pod counts as a Node")
	}
}

func size(t *testing.T, o any) int {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}
