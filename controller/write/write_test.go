// SPDX-License-Identifier: Apache-2.0

package write_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/provider/memory"
)

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		stored := e.NodePools()[0]
		put := func(condition string) error {
			pool := stored.DeepCopy()
			pool.StatusConditions().SetTrue(condition)
			return write.Status(t.Context(), e.API, pool, &stored)
		}
		if err := write.Status(t.Context(), e.API, stored.DeepCopy(), &stored); err != nil || e.NodePools()[0].ResourceVersion != stored.ResourceVersion {
			t.Errorf("nothing changed and was written all the same (%v)", err)
		}
		if err := put(karpv1.ConditionTypeValidationSucceeded); err != nil {
			t.Fatal(err)
		}
		err := put(karpv1.ConditionTypeNodeClassReady)
		if !apierrors.IsConflict(err) || !strings.HasPrefix(err.Error(), "writing the status of nodepool web: ") {
			t.Errorf("over a version not seen: %v", err)
		}
		if write.IgnoreConflict(err) != nil {
			t.Error("a lost race is no news")
		}
		if result, err := write.RetryConflict(reconcile.Result{RequeueAfter: time.Hour}, err); err != nil || result.RequeueAfter != 100*time.Millisecond {
			t.Errorf("after a lost race: %v, %v", result, err)
		}
		e.Delete(&stored)
		if err := put(karpv1.ConditionTypeNodeClassReady); err != nil {
			t.Errorf("of a pool that is gone: %v", err)
		}
	})
}
