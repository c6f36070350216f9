// SPDX-License-Identifier: Apache-2.0

package overlay_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

func overlay(name string, change func(*karpv1alpha1.NodeOverlaySpec), in ...string) *karpv1alpha1.NodeOverlay {
	o := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := 0; i+1 < len(in); i += 2 {
		o.Spec.Requirements = append(o.Spec.Requirements, karpv1alpha1.NodeSelectorRequirement{
			Key: in[i], Operator: corev1.NodeSelectorOpIn, Values: []string{in[i+1]}})
	}
	change(&o.Spec)
	return o
}

func costs(price string) func(*karpv1alpha1.NodeOverlaySpec) {
	return func(s *karpv1alpha1.NodeOverlaySpec) { s.Price = &price }
}

func holds(fpgas string) func(*karpv1alpha1.NodeOverlaySpec) {
	return func(s *karpv1alpha1.NodeOverlaySpec) {
		s.Capacity = corev1.ResourceList{"example.com/fpga": resource.MustParse(fpgas)}
	}
}

func condition(e *controllertest.Env, name string) (status, reason string) {
	c := controllertest.Get(e, &karpv1alpha1.NodeOverlay{}, name).StatusConditions().Get(karpv1alpha1.ConditionTypeValidationSucceeded)
	return string(c.Status), c.Reason
}

// Spot offerings that an overlay makes too expensive are not launched first.
//
// Rule OVERLAY-1.
func TestPricesOfOverlaysDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		e.Create(overlay("no-spot", costs("99"), karpv1.CapacityTypeLabelKey, "spot"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(60, "a launched claim", func() bool {
			return len(e.Claims()) == 1 && e.Claims()[0].Labels[karpv1.CapacityTypeLabelKey] != ""
		})
		claim := e.Claims()[0]
		if got := claim.Labels[karpv1.CapacityTypeLabelKey]; got != "on-demand" {
			t.Errorf("launched %s", got)
		}
		if claim.Annotations[karpv1alpha1.PriceOverlayAppliedAnnotationKey] != "true" {
			t.Errorf("annotations %v", claim.Annotations)
		}
		if status, _ := condition(e, "no-spot"); status != "True" {
			t.Errorf("ValidationSucceeded is %s", status)
		}
	})
}

// A node is launched for a device that the cloud's catalog lacks once an overlay adds it.
//
// Rule OVERLAY-2.
func TestCapacityOfOverlaysCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		pod := controllertest.Pod("a", "1", "1Gi")
		pod.Spec.Containers[0].Resources.Requests["example.com/fpga"] = resource.MustParse("1")
		e.Create(pod)
		e.Steps(20)
		if len(e.Claims()) != 0 {
			t.Fatal("launched a node without the device")
		}
		e.Create(overlay("fpga", holds("2")))
		e.Until(60, "a launched claim", func() bool { return len(e.Claims()) == 1 && len(e.Claims()[0].Status.Capacity) > 0 })
		claim := e.Claims()[0]
		fpgas := claim.Status.Allocatable["example.com/fpga"]
		if fpgas.Value() != 2 || claim.Annotations[karpv1alpha1.CapacityOverlayAppliedAnnotationKey] != "true" {
			t.Errorf("allocatable %v, annotations %v", claim.Status.Allocatable, claim.Annotations)
		}
		e.Steps(20)
		if got := len(e.Claims()); got != 1 {
			t.Errorf("%d claims for one pod", got)
		}
	})
}

// Rule OVERLAY-1, Rule OVERLAY-2.
func TestOverlaysHearWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		e.Create(overlay("z-first", costs("1")))
		e.Create(overlay("a-second", costs("2")))
		e.Create(overlay("per-pool", costs("3"), karpv1.NodePoolLabelKey, "web"))
		e.Create(overlay("memory", func(s *karpv1alpha1.NodeOverlaySpec) {
			s.Capacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		}))
		e.Steps(3)
		for name, want := range map[string][2]string{
			"z-first":  {"True", karpv1alpha1.ConditionTypeValidationSucceeded},
			"a-second": {"False", "Conflict"},
			"per-pool": {"False", "RuntimeValidation"},
			"memory":   {"False", "RuntimeValidation"},
		} {
			if status, reason := condition(e, name); status != want[0] || reason != want[1] {
				t.Errorf("%s: %s (%s), want %v", name, status, reason, want)
			}
		}
	})
}
