package interruption_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/controller/controllertest"
)

// A machine that somebody deallocates will not come back by itself: as soon as its node
// is silent it is replaced, and given back.
//
// Rule 227.
func TestDeallocatedMachineIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		lost, machine := e.Claims()[0].UID, e.Cloud.Machines()[0]
		e.Cloud.Stop(machine)
		e.Steps(5)
		if got := e.Claims(); len(got) != 1 || got[0].DeletionTimestamp != nil {
			t.Fatal("its node reports, and it is given up")
		}
		setCondition(t, e, corev1.NodeReady, corev1.ConditionUnknown, "")
		start := time.Now()
		e.Until(10, "the end of its claim", func() bool {
			return len(e.Claims()) == 0 || e.Claims()[0].UID != lost || e.Claims()[0].DeletionTimestamp != nil
		})
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
		e.Create(controllertest.Pod("successor", "1", "1Gi"))
		e.Until(60, "its replacement alone", func() bool {
			e.Join()
			machines := e.Cloud.Machines()
			return len(machines) == 1 && machines[0] != machine && e.Ready() == 1
		})
	})
}
