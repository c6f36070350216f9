// SPDX-License-Identifier: Apache-2.0

package termination_test

import (
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
)

// A VM that two NodeClaims have stays, with its Node and pods, when one of them is deleted, whichever, and
// goes with the other.
//
// Rule DRAIN-12.
func TestInstanceStaysWithTheOtherClaim(t *testing.T) {
	for name, deletesCopy := range map[string]bool{"the copy is deleted": true, "the original is deleted": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := withNode(t, nil, controllertest.Pod("works", "1", "1Gi"))
				e.Steps(5)
				original := e.Claims()[0]
				twin := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: original.Name + "-copy", Labels: original.Labels,
					Annotations: original.Annotations, Finalizers: original.Finalizers}, Spec: *original.Spec.DeepCopy()}
				e.Create(twin)
				twin.Status = *original.Status.DeepCopy()
				if err := e.API.Status().Update(t.Context(), twin); err != nil {
					t.Fatal(err)
				}
				first, second := twin, &original
				if !deletesCopy {
					first, second = second, first
				}
				e.Delete(first)
				e.Until(60, "the first NodeClaim is gone", func() bool { return !exists(e, first.Name) })
				e.Steps(30)
				if !exists(e, second.Name) || len(e.Cloud.ProviderIDs()) != 1 || len(e.Pods()) != 1 || len(e.Nodes()) != 1 {
					t.Fatalf("left are %d NodeClaims, %d VMs, pods %v, %d Nodes; want one of each",
						len(e.Claims()), len(e.Cloud.ProviderIDs()), names(e), len(e.Nodes()))
				}
				e.Delete(second)
				e.Until(200, "the VM is gone", func() bool { return !slices.Contains(e.Cloud.ProviderIDs(), first.Status.ProviderID) })
			})
		})
	}
}
