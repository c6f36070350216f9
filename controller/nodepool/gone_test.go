// SPDX-License-Identifier: Apache-2.0

package nodepool_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// The counters of a pool can be read for ten minutes after the last of its nodes is
// deleted, and no longer. Usage and limits end with the pool.
//
// Rule METRIC-3.
func TestMetricsGoWithTheirPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		pool := controllertest.Pool("web", "30s")
		e.Create(pool)
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(60, "an initialized node", func() bool { e.Join(); return e.Ready() == 1 })
		e.Delete(pool)
		e.Feed()
		hear := func() time.Duration {
			result, err := e.Pools.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pool)})
			if err != nil {
				t.Fatal(err)
			}
			return result.RequeueAfter
		}
		for range 3 {
			time.Sleep(hear())
		}
		if names := poolMetrics(t, e, "web"); !slices.Contains(names, "karpenter_nodeclaims_created_total") || slices.Contains(names, "karpenter_nodepools_usage") {
			t.Errorf("while its node exists, there are metrics of the pool %q", names)
		}
		claim := e.Claims()[0]
		e.Delete(controllertest.Pod("a", "1", "1Gi"))
		e.Delete(&claim)
		e.Until(60, "the node is gone", func() bool { return len(e.Claims()) == 0 })
		e.Feed()
		again := hear()
		time.Sleep(again / 2)
		hear()
		if names := poolMetrics(t, e, "web"); !slices.Contains(names, "karpenter_nodeclaims_terminated_total") {
			t.Errorf("%v after its node, there are metrics of the pool %q", again/2, names)
		}
		time.Sleep(again / 2)
		if wait := hear(); wait != 0 {
			t.Errorf("the pool is looked at again after %v", wait)
		}
		if names := poolMetrics(t, e, "web"); len(names) > 0 {
			t.Errorf("%v after its node, there are metrics of the pool %q", again, names)
		}
	})
}

// A pool that is created again keeps its counts.
//
// Rule METRIC-3.
func TestMetricsOfAPoolThatComesBackStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		request := reconcile.Request{NamespacedName: client.ObjectKey{Name: "web"}}
		hear := func() {
			if _, err := e.Pools.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		e.Metrics.ClaimsCreated.WithLabelValues("provisioned", "web", "false").Inc()
		hear()
		e.Create(controllertest.Pool("web", "30s"))
		hear()
		time.Sleep(time.Hour)
		e.Delete(controllertest.Pool("web", "30s"))
		hear()
		if names := poolMetrics(t, e, "web"); !slices.Contains(names, "karpenter_nodeclaims_created_total") {
			t.Errorf("there are metrics of the pool %q", names)
		}
	})
}

// poolMetrics lists the metrics that have series of a pool.
func poolMetrics(t *testing.T, e *controllertest.Env, pool string) (names []string) {
	t.Helper()
	families, err := e.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "nodepool" && l.GetValue() == pool && !slices.Contains(names, f.GetName()) {
					names = append(names, f.GetName())
				}
			}
		}
	}
	return names
}
