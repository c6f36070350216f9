// SPDX-License-Identifier: Apache-2.0

package termination_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// An instance that the cloud does not delete costs money: the claim's condition gives the reason
// at once, and an event does after a minute. As soon as the cloud can delete the instance, it
// does.
//
// Rule DRAIN-10.
func TestInstanceThatIsNotTerminatedSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		pod := controllertest.Pod("a", "1", "1Gi")
		e.Create(pod)
		e.Until(20, "a node", func() bool { e.Join(); return len(e.Nodes()) == 1 && len(e.Nodes()[0].Finalizers) == 1 })
		e.Delete(pod)
		claim := e.Claims()[0]
		e.Cloud.SetFault(func(op string) error {
			if op == "terminate" {
				return errors.New("scope mc_rg is locked, please remove the lock")
			}
			return nil
		})
		e.Delete(&claim)
		told := func() bool {
			return slices.ContainsFunc(e.EventTexts(claim.Name), func(s string) bool {
				return strings.HasPrefix(s, "TerminationFailed: ") && strings.Contains(s, "remove the lock")
			})
		}
		e.Until(20, "the claim says why", func() bool {
			c := e.Claims()[0].StatusConditions().Get(karpv1.ConditionTypeInstanceTerminating)
			return c != nil && c.IsUnknown() && c.Reason == "TerminationFailed" && strings.Contains(c.Message, "remove the lock")
		})
		if told() {
			t.Error("an event was published at once: many failures last for a moment")
		}
		e.Until(300, "an event", told)
		e.Cloud.SetFault(nil)
		e.Until(300, "the instance is gone", func() bool { return len(e.Claims()) == 0 && len(e.Cloud.ProviderIDs()) == 0 })
	})
}
