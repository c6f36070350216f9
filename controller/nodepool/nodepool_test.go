// SPDX-License-Identifier: Apache-2.0

package nodepool_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

func class(name string, conditions ...any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
	u.SetGroupVersionKind(controllertest.NodeClassGVK())
	u.SetName(name)
	return u
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(class("broken", map[string]any{"type": "Ready", "status": "False", "reason": "SubnetNotFound", "message": "create it"}))
		e.Create(class("fresh"))
		e.Create(controllertest.Pool("good", "30s"))
		for name, class := range map[string]string{"on-broken": "broken", "on-fresh": "fresh", "on-nothing": "nothing"} {
			p := controllertest.Pool(name, "30s")
			p.Spec.Template.Spec.NodeClassRef.Name = class
			e.Create(p)
		}
		malformed := controllertest.Pool("malformed", "30s")
		malformed.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"cheap"}},
		}
		e.Create(malformed)
		e.Create(controllertest.Pod("web", "1", "1Gi"))
		e.Steps(5)

		for name, want := range map[string][3]string{ // condition, status, reason
			"good":       {"Ready", "True", "Ready"},
			"on-broken":  {karpv1.ConditionTypeNodeClassReady, "False", "SubnetNotFound"},
			"on-fresh":   {karpv1.ConditionTypeNodeClassReady, "Unknown", "NodeClassReadinessUnknown"},
			"on-nothing": {karpv1.ConditionTypeNodeClassReady, "False", "NodeClassNotFound"},
			"malformed":  {karpv1.ConditionTypeValidationSucceeded, "False", "NodePoolValidationFailed"},
		} {
			c := controllertest.Get(e, &karpv1.NodePool{}, name).StatusConditions().Get(want[0])
			if string(c.Status) != want[1] || c.Reason != want[2] {
				t.Errorf("%s: %s is %s (%s), want %s (%s)", name, want[0], c.Status, c.Reason, want[1], want[2])
			}
		}
		if len(e.Claims()) != 1 || e.Claims()[0].Labels[karpv1.NodePoolLabelKey] != "good" {
			t.Error("the pools in trouble stopped the good one, or launched nodes")
		}
	})
}

// A pool has the condition about quota of its class, and is ready all the same.
//
// Rule QUOTA-4.
func TestQuotaOfTheClassIsThePools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(class("poor", map[string]any{"type": "Ready", "status": "True", "reason": "Ready"},
			map[string]any{"type": kube.ConditionQuotaAvailable, "status": "False", "reason": "QuotaExhausted", "message": "raise it"}))
		p := controllertest.Pool("on-poor", "30s")
		p.Spec.Template.Spec.NodeClassRef.Name = "poor"
		e.Create(p)
		e.Create(controllertest.Pool("other", "30s"))
		e.Steps(5)
		conditions := controllertest.Get(e, &karpv1.NodePool{}, "on-poor").StatusConditions()
		if c := conditions.Get(kube.ConditionQuotaAvailable); c == nil || !c.IsFalse() || c.Reason != "QuotaExhausted" || c.Message != "raise it" {
			t.Errorf("the pool says %+v", c)
		}
		if !conditions.Root().IsTrue() {
			t.Errorf("the pool is not ready: %+v", conditions.Root())
		}
		if c := controllertest.Get(e, &karpv1.NodePool{}, "other").StatusConditions().Get(kube.ConditionQuotaAvailable); c != nil {
			t.Errorf("a pool whose class says nothing says %+v", c)
		}
	})
}

func TestCountsAndHash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("a", "31", "1Gi"))
		e.Create(controllertest.Pod("b", "31", "1Gi"))
		e.Steps(5)
		p := controllertest.Get(e, &karpv1.NodePool{}, "web")
		if *p.Status.Nodes != 2 || p.Status.Resources.Cpu().Value() != 64 {
			t.Errorf("nodes %d, resources %v", *p.Status.Nodes, p.Status.Resources)
		}
		for _, object := range []client.Object{p, &e.Claims()[0]} {
			a := object.GetAnnotations()
			if a[karpv1.NodePoolHashAnnotationKey] != p.Hash() || a[karpv1.NodePoolHashVersionAnnotationKey] != "v3" {
				t.Errorf("%T: annotations %v", object, a)
			}
		}
	})
}

// Claims stamped under another version of the hash are stamped anew, so that a
// change of the formula is no drift.
func TestHashVersionMigrates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Steps(3)
		claim, p := e.Claims()[0], controllertest.Get(e, &karpv1.NodePool{}, "web")
		for _, object := range []client.Object{&claim, p} {
			object.GetAnnotations()[karpv1.NodePoolHashAnnotationKey] = "old"
			object.GetAnnotations()[karpv1.NodePoolHashVersionAnnotationKey] = "v2"
			if err := e.API.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		e.Steps(2)
		if got := e.Claims()[0].Annotations[karpv1.NodePoolHashAnnotationKey]; got != p.Hash() {
			t.Errorf("hash of the claim is %q", got)
		}
	})
}
