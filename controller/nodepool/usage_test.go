// SPDX-License-Identifier: Apache-2.0

package nodepool_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/provider/memory"
)

// series are the values of a metric about a NodePool, by resource.
func series(e *controllertest.Env, metric, pool string) map[string]float64 {
	e.T.Helper()
	families, err := e.Registry.Gather()
	if err != nil {
		e.T.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == metric && labels["nodepool"] == pool {
				out[labels["resource_type"]] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

// The usage of a NodePool is 0 once its last node is deleted, and a limit that was
// removed is not exported. Deleting the NodePool ends both.
//
// Rule METRIC-2.
func TestUsageEndsWithTheLastNode(t *testing.T) {
	const usage, limit = "karpenter_nodepools_usage", "karpenter_nodepools_limit"
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		p := controllertest.Pool("web", "Never")
		p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("100")}
		e.Create(p)
		pod := controllertest.Pod("a", "3", "1Gi")
		e.Create(pod)
		e.Steps(5)
		before := series(e, usage, "web")
		if before["cpu"] < 3 || before["memory"] <= 0 || before["nodes"] != 1 || series(e, limit, "web")["cpu"] != 100 {
			t.Fatalf("usage %v, limit %v", before, series(e, limit, "web"))
		}
		e.Delete(pod)
		e.Delete(&e.Claims()[0])
		p = controllertest.Get(e, &karpv1.NodePool{}, "web")
		p.Spec.Limits = nil
		if err := e.API.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		e.Until(60, "no NodeClaims", func() bool { return len(e.Claims()) == 0 })
		e.Steps(2)
		after := series(e, usage, "web")
		if len(after) != len(before) {
			t.Errorf("usage of %v, was of %v: series of a NodePool that lives must not go", after, before)
		}
		for name, v := range after {
			if v != 0 {
				t.Errorf("no node is left, and the usage of %s is %v", name, v)
			}
		}
		if got := series(e, limit, "web"); len(got) != 0 {
			t.Errorf("the limits are off, and shown as %v", got)
		}
		e.Delete(controllertest.Get(e, &karpv1.NodePool{}, "web"))
		reconcilePool(e, "web")
		if got := series(e, usage, "web"); len(got) != 0 {
			t.Errorf("the NodePool is gone, and its usage is %v", got)
		}
	})
}

func reconcilePool(e *controllertest.Env, name string) reconcile.Result {
	e.T.Helper()
	result, err := e.Pools.Reconcile(e.T.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	if err != nil {
		e.T.Fatal(err)
	}
	return result
}

// After a restart a NodePool keeps its count until the mirror is synced: its status does
// not report zero nodes.
//
// Rule METRIC-2.
func TestStatusWaitsForTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := twoNodes(t)
		e.Pools.Mirror = state.NewMirror(nil)
		if result := reconcilePool(e, "web"); result.RequeueAfter == 0 {
			t.Error("nobody looks again once the cluster is known")
		}
		if got := *controllertest.Get(e, &karpv1.NodePool{}, "web").Status.Nodes; got != 2 {
			t.Errorf("status.nodes is %d while the cluster is not known, want the 2 from before", got)
		}
	})
}

// A NodePool counts the NodeClaim whose event queued it, although the Mirror handles
// the same event later.
//
// Rule METRIC-2.
func TestStatusCountsTheClaimThatWokeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := twoNodes(t)
		for want := 1; want >= 0; want-- {
			claim := e.Claims()[0]
			claim.Finalizers = nil
			if err := e.API.Update(t.Context(), &claim); err != nil {
				t.Fatal(err)
			}
			e.Delete(&claim)
			reconcilePool(e, "web")
			p := controllertest.Get(e, &karpv1.NodePool{}, "web")
			if got := *p.Status.Nodes; got != int64(want) || p.Status.Resources.Cpu().Value() != int64(32*want) {
				t.Errorf("status.nodes is %d, resources %v: want %d", got, p.Status.Resources, want)
			}
		}
	})
}

// A deleted NodePool has no series of budgets either, though disruption may have looked
// at it once more after the deletion.
//
// Rule METRIC-2.
func TestBudgetsEndWithThePool(t *testing.T) {
	const allowed, consuming = "karpenter_nodepools_allowed_disruptions", "karpenter_nodepools_nodes_consuming_budgets"
	synctest.Test(t, func(t *testing.T) {
		e := twoNodes(t)
		e.Steps(10)
		if len(series(e, allowed, "web")) == 0 || len(series(e, consuming, "web")) == 0 {
			t.Fatal("budgets are not shown")
		}
		p := controllertest.Get(e, &karpv1.NodePool{}, "web")
		e.Delete(p)
		reconcilePool(e, "web")
		if len(series(e, allowed, "web"))+len(series(e, consuming, "web")) != 0 {
			t.Error("budgets are shown of a NodePool that is gone")
		}
		e.Mirror.SetPDB(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}) // a reason to search
		if err := e.Disruption.Disrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(series(e, allowed, "web")) == 0 {
			t.Fatal("disruption does not look at the NodePool that it has not yet heard is gone")
		}
		e.Steps(5) // the first of them shows the Mirror the deletion
		if len(series(e, allowed, "web"))+len(series(e, consuming, "web")) != 0 {
			t.Error("budgets are shown again, for ever")
		}
	})
}

// twoNodes is a cluster of a NodePool "web" that has two nodes of 32 cores.
func twoNodes(t *testing.T) *controllertest.Env {
	t.Helper()
	e := controllertest.New(t, memory.Options{})
	e.Create(controllertest.Pool("web", "Never"))
	e.Create(controllertest.Pod("a", "31", "1Gi"))
	e.Create(controllertest.Pod("b", "31", "1Gi"))
	e.Steps(5)
	p := controllertest.Get(e, &karpv1.NodePool{}, "web")
	if *p.Status.Nodes != 2 || p.Status.Resources.Cpu().Value() != 64 {
		t.Fatalf("nodes %d, resources %v", *p.Status.Nodes, p.Status.Resources)
	}
	return e
}
