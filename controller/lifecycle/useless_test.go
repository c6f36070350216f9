// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// complaints records the offerings reported as unusable.
type complaints []offering.Ref

func (c *complaints) NodeUnusable(_ string, o offering.Ref, _ string) { *c = append(*c, o) }

func rewrite(e *controllertest.Env, node *corev1.Node) {
	e.T.Helper()
	if err := e.API.Status().Update(context.Background(), node); err != nil {
		e.T.Fatal(err)
	}
}

// A node that never shows the GPU it was launched for is replaced after 20 minutes, and its
// offering is reported to the provider. A node whose driver starts in time is kept, and so is a
// node that waits for something else.
//
// Rule REFUSAL-11.
func TestNodeWithoutRequestedResource(t *testing.T) {
	for _, test := range []struct {
		name                     string
		broken, silent, recovers bool
		replaced                 bool
	}{
		{"the driver is broken", true, false, false, true},
		{"the driver comes late", false, false, false, false},
		{"it is not ready", true, true, false, false},
		{"it was not ready, and has not had its time since", true, true, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				var heard complaints
				e.Lifecycle.FailureObserver = &heard
				e.Create(controllertest.Pool("web", "Never"))
				pod := controllertest.Pod("train", "1", "1Gi")
				pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
				pod.Spec.Containers[0].Resources.Limits = pod.Spec.Containers[0].Resources.Requests
				e.Create(pod)
				e.Until(8, "an instance", func() bool {
					return len(e.Claims()) == 1 && kube.ConditionTrue(&e.Claims()[0], karpv1.ConditionTypeLaunched)
				})
				e.Join()
				node := e.Nodes()[0]
				gpus := node.Status.Allocatable["nvidia.com/gpu"]
				delete(node.Status.Allocatable, "nvidia.com/gpu")
				if test.silent {
					node.Status.Conditions[0].Status = "False"
				}
				rewrite(e, &node)
				claim, start := e.Claims()[0], time.Now()
				e.Pace = 30 * time.Second
				for time.Since(start) < 15*time.Minute {
					e.Step()
				}
				if c := e.Claims()[0]; c.UID != claim.UID || c.DeletionTimestamp != nil {
					t.Fatalf("the claim went after %v", time.Since(start))
				}
				if !test.broken {
					late := e.Nodes()[0]
					late.Status.Allocatable["nvidia.com/gpu"] = gpus
					rewrite(e, &late)
				}
				for time.Since(start) < 21*time.Minute {
					e.Step()
				}
				if test.recovers {
					ready := e.Nodes()[0]
					ready.Status.Conditions[0].Status = "True"
					rewrite(e, &ready)
				}
				for time.Since(start) < 25*time.Minute {
					e.Step()
				}
				replaced := true
				for _, c := range e.Claims() {
					replaced = replaced && (c.UID != claim.UID || c.DeletionTimestamp != nil)
				}
				if replaced != test.replaced {
					t.Errorf("replaced: %v", replaced)
				}
				if reported := len(heard) > 0 && heard[0] == (offering.Ref{Type: "gpu-8", Zone: heard[0].Zone, CapacityType: heard[0].CapacityType}) && heard[0].Zone != ""; reported != test.replaced {
					t.Errorf("the provider heard of %+v", heard)
				}
			})
		})
	}
}
