// SPDX-License-Identifier: Apache-2.0

package buffer_test

import (
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

func buffer(name string, change func(*autoscalingv1beta1.CapacityBufferSpec)) *autoscalingv1beta1.CapacityBuffer {
	b := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	change(&b.Spec)
	return b
}

func template(name, cpu string) *corev1.PodTemplate {
	pod := controllertest.Pod("x", cpu, "1Gi")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "nobody-makes-it"}}}}
	return &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Template:   corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: pod.Spec},
	}
}

func ofTemplate(name string, replicas int32) func(*autoscalingv1beta1.CapacityBufferSpec) {
	return func(s *autoscalingv1beta1.CapacityBufferSpec) {
		s.PodTemplateRef, s.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: name}, &replicas
	}
}

func reasons(e *controllertest.Env, name string) [2]string {
	var out [2]string
	b := controllertest.Get(e, &autoscalingv1beta1.CapacityBuffer{}, name)
	for i, kind := range []string{autoscalingv1beta1.ReadyForProvisioningCondition, autoscalingv1beta1.ProvisioningCondition} {
		if c := meta.FindStatusCondition(b.Status.Conditions, kind); c != nil {
			out[i] = c.Reason
		}
	}
	return out
}

// A node is launched for a buffer, kept while no pod runs on it, and deleted with
// the buffer.
//
// Rule BUFFER-1.
func TestBufferKeepsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		e.Create(template("chunk", "31"))
		b := buffer("spare", ofTemplate("chunk", 2))
		e.Create(b)
		e.Step()
		if got := reasons(e, "spare"); got != [2]string{"Resolved", "RequiresNewCapacity"} {
			t.Errorf("conditions %v", got)
		}
		e.Until(60, "two nodes", func() bool { e.Join(); return len(e.Nodes()) == 2 })
		e.Steps(120) // four times consolidateAfter
		if got := len(e.Claims()); got != 2 {
			t.Fatalf("%d claims for two chunks", got)
		}
		if got := reasons(e, "spare"); got != [2]string{"Resolved", "FitsExistingCapacity"} {
			t.Errorf("conditions %v", got)
		}
		e.Restart()
		e.Steps(60)
		if got := len(e.Claims()); got != 2 {
			t.Errorf("%d claims after a restart", got)
		}
		e.Delete(b)
		if _, err := e.Buffers.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)}); err != nil {
			t.Fatal(err)
		}
		e.Until(120, "the nodes are given back", func() bool { return len(e.Claims()) == 0 })
	})
}

// A pod uses the capacity of a buffer at once; a node is launched to restore the buffer.
//
// Rule BUFFER-1.
func TestPodsTakeTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		e.Create(template("chunk", "31"))
		e.Create(buffer("spare", ofTemplate("chunk", 1)))
		e.Until(60, "an initialized node", func() bool {
			e.Join()
			return len(e.Nodes()) == 1 && reasons(e, "spare")[1] == "FitsExistingCapacity"
		})
		e.Steps(5)
		want := "Nominated: Pod should schedule on: nodeclaim/" + e.Claims()[0].Name + ", node/" + e.Nodes()[0].Name
		e.Create(controllertest.Pod("a", "31", "1Gi"))
		e.Steps(2)
		synctest.Wait()
		if texts := e.EventTexts("a"); len(texts) != 1 || texts[0] != want {
			t.Errorf("events %q", texts)
		}
		e.Until(30, "new room for the buffer", func() bool { return len(e.Claims()) == 2 })
		e.Steps(30)
		if got := len(e.Claims()); got != 2 {
			t.Errorf("%d claims", got)
		}
	})
}

// Rule BUFFER-1.
func TestWhatBuffersAskFor(t *testing.T) {
	ten := int32(10)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &ten, Template: corev1.PodTemplateSpec{Spec: controllertest.Pod("x", "2", "1Gi").Spec}}}
	number := func(n int32) *int32 { return &n }
	cores := func(n string) autoscalingv1beta1.Limits {
		return autoscalingv1beta1.Limits{corev1.ResourceCPU: resource.MustParse(n)}
	}
	web := func(s *autoscalingv1beta1.CapacityBufferSpec) {
		s.ScalableRef = &autoscalingv1beta1.ScalableRef{Kind: "Deployment", Name: "web"}
	}
	for name, tc := range map[string]struct {
		change func(*autoscalingv1beta1.CapacityBufferSpec)
		want   int32
		reason string
	}{
		"percentage rounds up": {func(s *autoscalingv1beta1.CapacityBufferSpec) { web(s); s.Percentage = number(11) }, 2, "Resolved"},
		"the larger counts": {func(s *autoscalingv1beta1.CapacityBufferSpec) {
			web(s)
			s.Percentage, s.Replicas = number(50), number(3)
		}, 5, "Resolved"},
		"limits bound": {func(s *autoscalingv1beta1.CapacityBufferSpec) {
			web(s)
			s.Replicas, s.Limits = number(9), cores("7")
		}, 3, "Resolved"},
		"limits alone":       {func(s *autoscalingv1beta1.CapacityBufferSpec) { web(s); s.Limits = cores("8") }, 4, "Resolved"},
		"not without bounds": {func(s *autoscalingv1beta1.CapacityBufferSpec) { web(s); s.Limits = cores("100M") }, 10_000, "Resolved"},
		"nothing there": {func(s *autoscalingv1beta1.CapacityBufferSpec) {
			s.ScalableRef = &autoscalingv1beta1.ScalableRef{Kind: "StatefulSet", Name: "web"}
		}, -1, "ScalableRefNotFound"},
		"strange kind": {func(s *autoscalingv1beta1.CapacityBufferSpec) {
			s.ScalableRef = &autoscalingv1beta1.ScalableRef{Kind: "CronJob", Name: "web"}
		}, -1, "ResolutionFailed"},
		"no template": {ofTemplate("none", 1), -1, "PodTemplateNotFound"},
		"no shape":    {func(*autoscalingv1beta1.CapacityBufferSpec) {}, -1, "ResolutionFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				e.Create(deployment.DeepCopy())
				b := buffer("spare", tc.change)
				e.Create(b)
				if _, err := e.Buffers.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)}); err != nil {
					t.Fatal(err)
				}
				got := int32(-1)
				if n := controllertest.Get(e, &autoscalingv1beta1.CapacityBuffer{}, "spare").Status.Replicas; n != nil {
					got = *n
				}
				if got != tc.want || reasons(e, "spare")[0] != tc.reason {
					t.Errorf("%d chunks, %v; want %d, %s", got, reasons(e, "spare"), tc.want, tc.reason)
				}
			})
		})
	}
}
