// SPDX-License-Identifier: Apache-2.0

package interruption_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// An instance that a user deallocates will not start by itself: as soon as its node does not
// report it is replaced, and terminated. An instance whose state is Failed may only restart: it
// has two minutes.
//
// Rule VM-6. Rule VM-5.
func TestLostInstanceIsReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		lose  func(*memory.Cloud, string) bool
		after time.Duration
	}{
		"deallocated": {(*memory.Cloud).Stop, 0},
		"failed":      {(*memory.Cloud).Fail, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) { lostInstanceIsReplaced(t, test.lose, test.after) })
	}
}

func lostInstanceIsReplaced(t *testing.T, lose func(*memory.Cloud, string) bool, after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		lost, instance := e.Claims()[0].UID, e.Cloud.ProviderIDs()[0]
		if !lose(e.Cloud, instance) {
			t.Fatal("there is no instance")
		}
		e.Steps(5)
		if got := e.Claims(); len(got) != 1 || got[0].DeletionTimestamp != nil {
			t.Fatal("its node reports, and it is given up")
		}
		setCondition(t, e, corev1.NodeReady, corev1.ConditionUnknown, "")
		start := time.Now()
		e.Until(150, "the end of its claim", func() bool {
			return len(e.Claims()) == 0 || e.Claims()[0].UID != lost || e.Claims()[0].DeletionTimestamp != nil
		})
		if took := time.Since(start); took < after || took > after+30*time.Second {
			t.Errorf("it took %v", took)
		}
		e.Create(controllertest.Pod("successor", "1", "1Gi"))
		e.Until(60, "its replacement alone", func() bool {
			e.Join()
			instances := e.Cloud.ProviderIDs()
			return len(instances) == 1 && instances[0] != instance && e.Ready() == 1
		})
	})
}

// The provider is notified of the offering of a spot instance that ended without notice, before
// its replacement is chosen, and of no other instance's.
//
// Rule INTERRUPTION-9.
func TestSpotInstanceLostWithoutNotice(t *testing.T) {
	for sold, want := range map[string]int{karpv1.CapacityTypeSpot: 1, karpv1.CapacityTypeOnDemand: 0} {
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t)
			var heard listener
			e.Interruption.SpotObserver = &heard
			claim := e.Claims()[0]
			claim.Labels[karpv1.CapacityTypeLabelKey] = sold
			if err := e.API.Update(t.Context(), &claim); err != nil {
				t.Fatal(err)
			}
			e.Cloud.Stop(e.Cloud.ProviderIDs()[0])
			setCondition(t, e, corev1.NodeReady, corev1.ConditionUnknown, "")
			e.Until(10, "the end of its claim", func() bool { return len(e.Claims()) == 0 || e.Claims()[0].DeletionTimestamp != nil })
			if len(heard) != want {
				t.Fatalf("%s: heard of %+v", sold, heard)
			}
			for _, c := range heard {
				if c.Type == "" || c.Zone == "" || c.CapacityType != sold {
					t.Errorf("heard of %+v", c)
				}
			}
		})
	}
}
