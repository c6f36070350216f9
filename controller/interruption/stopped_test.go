package interruption_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// A machine that somebody deallocates, or that has failed, will not come back by itself: as
// soon as its node is silent it is replaced, and given back.
//
// Rule 227. Rule 282.
func TestLostMachineIsReplaced(t *testing.T) {
	for name, lose := range map[string]func(*memory.Cloud, string) bool{"deallocated": (*memory.Cloud).Stop, "failed": (*memory.Cloud).Fail} {
		t.Run(name, func(t *testing.T) { lostMachineIsReplaced(t, lose) })
	}
}

func lostMachineIsReplaced(t *testing.T, lose func(*memory.Cloud, string) bool) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		lost, machine := e.Claims()[0].UID, e.Cloud.Machines()[0]
		if !lose(e.Cloud, machine) {
			t.Fatal("there is no machine")
		}
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
