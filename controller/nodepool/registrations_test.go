// SPDX-License-Identifier: Apache-2.0

package nodepool_test

import (
	"testing"
	"testing/synctest"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

func healthy(t *testing.T, e *controllertest.Env) (status, reason string) {
	t.Helper()
	c := controllertest.Get(e, &karpv1.NodePool{}, "web").StatusConditions().Get(karpv1.ConditionTypeNodeRegistrationHealthy)
	return string(c.Status), c.Reason
}

// Instances that never join make the pool's registrations unhealthy, across a
// restart, until the pool is changed or enough instances join.
//
// Rule LAUNCH-11.
func TestRegistrationHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Pace = 30 * time.Second
		e.Create(controllertest.Pool("web", "Never"))
		e.Step()
		if status, _ := healthy(t, e); status != "Unknown" {
			t.Errorf("%s before any node", status)
		}
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(120, "two instances given up", func() bool { status, _ := healthy(t, e); return status == "False" })
		if _, reason := healthy(t, e); reason != "RegistrationFailed" {
			t.Errorf("reason %s", reason)
		}
		e.Restart()
		e.Steps(3)
		if status, _ := healthy(t, e); status != "False" {
			t.Errorf("%s after a restart", status)
		}
		p := controllertest.Get(e, &karpv1.NodePool{}, "web")
		p.Generation++ // as the API server does when the spec changes
		if err := e.API.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		e.Step()
		if status, _ := healthy(t, e); status != "Unknown" {
			t.Errorf("%s after the pool was changed", status)
		}
		e.Until(120, "an instance that joins", func() bool { e.Join(); status, _ := healthy(t, e); return status == "True" })
	})
}
