// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"
	"testing/synctest"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// A node whose instance is deallocated or fails before it joins is replaced a few minutes later,
// not at the timeout; one that is merely slow is waited for.
//
// Rule VM-6. Rule VM-5.
func TestInstanceStoppedBeforeItJoins(t *testing.T) {
	for name, stop := range map[string]func(*memory.Cloud, string) bool{"stopped": (*memory.Cloud).Stop, "failed": (*memory.Cloud).Fail, "slow": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				e.Create(controllertest.Pool("web", "Never"))
				e.Create(controllertest.Pod("web", "1", "1Gi"))
				e.Until(8, "an instance", func() bool {
					return len(e.Claims()) == 1 && kube.ConditionTrue(&e.Claims()[0], karpv1.ConditionTypeLaunched)
				})
				claim, start := e.Claims()[0], time.Now()
				if stop != nil && !stop(e.Cloud, e.Cloud.ProviderIDs()[0]) {
					t.Fatal("there is no instance")
				}
				e.Pace = 20 * time.Second
				for time.Since(start) < 6*time.Minute {
					e.Step()
				}
				replaced := len(e.Claims()) != 1 || e.Claims()[0].UID != claim.UID
				if replaced != (stop != nil) {
					t.Errorf("after %v, replaced: %v", time.Since(start), replaced)
				}
			})
		})
	}
}
