// SPDX-License-Identifier: Apache-2.0

package termination_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
)

// drifted creates an app whose budget never allows the eviction of its only pod, on a drifted
// node.
func drifted(t *testing.T, change func(*appsv1.Deployment, *corev1.Pod)) *app {
	t.Helper()
	a := surging(t, nil, change)
	a.e.Create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{}},
		Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, DesiredHealthy: 1, CurrentHealthy: 1},
	})
	a.e.Steps(30) // nominations lapse
	claim := controllertest.Get(a.e, &karpv1.NodeClaim{}, a.e.Claims()[0].Name)
	claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "NodePoolDrifted", "")
	if err := a.e.API.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return a
}

// A budget that never allows the eviction of the only pod does not hold its node when the pod
// surges: first the new node is initialized, then the new pod is ready, then the old pod ends,
// without an eviction.
//
// Rule SURGE-1.
func TestBudgetDoesNotHoldWhatSurges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := drifted(t, nil)
		old := a.e.Claims()[0].Name
		a.until(120, "the node that is due is gone", func() bool { return !exists(a.e, old) })
		if a.gap || a.rolled != 1 || a.e.Counter("karpenter_pods_eviction_requests_total") != 0 {
			t.Errorf("restarted %d times, a gap: %t, evictions: %v", a.rolled, a.gap, a.e.Counter("karpenter_pods_eviction_requests_total"))
		}
		if launched := a.e.Cloud.Launched(); launched != 2 {
			t.Errorf("%d instances were launched, the replacement is enough", launched-1)
		}
	})
}

// A pod that could not surge is held by its budget, like any pod.
//
// Rule SURGE-1.
func TestBudgetHoldsWhatDoesNotSurge(t *testing.T) {
	for name, change := range map[string]func(*appsv1.Deployment, *corev1.Pod){
		"not asked for": func(d *appsv1.Deployment, _ *corev1.Pod) { delete(d.Annotations, "karve.dev/surge") },
		"paused":        func(d *appsv1.Deployment, _ *corev1.Pod) { d.Spec.Paused = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := drifted(t, change)
				for range 60 {
					a.step()
				}
				synctest.Wait()
				node := a.e.Nodes()[0]
				if len(a.e.Claims()) != 1 || len(node.Spec.Taints) != 0 || !slices.ContainsFunc(a.e.EventTexts(node.Name), func(s string) bool {
					return strings.HasPrefix(s, "DisruptionBlocked: Pdb prevents pod evictions")
				}) {
					t.Errorf("%d claims, taints %v, said %q", len(a.e.Claims()), node.Spec.Taints, a.e.EventTexts(node.Name))
				}
			})
		})
	}
}
