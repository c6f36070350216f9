// SPDX-License-Identifier: Apache-2.0

package repair_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/repair"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

const diskHealthy = "example.com/DiskHealthy"

type ward struct {
	*controllertest.Env
	*repair.Reconciler
}

// admit makes n nodes of the pool.
func admit(t *testing.T, pool *karpv1.NodePool, n int) *ward {
	e := controllertest.New(t, memory.Options{})
	w := &ward{Env: e, Reconciler: &repair.Reconciler{Client: e.Client, Events: e.Events, Metrics: e.Metrics, Log: logr.Discard(), NodeClassKind: controllertest.NodeClassGVK().GroupKind()}}
	w.Policies = append(memory.New(e.Cloud).RepairPolicies(), provider.RepairPolicy{Condition: diskHealthy, Status: "False", Tolerate: time.Minute})
	e.Create(pool)
	for i := range n {
		e.Create(controllertest.Pod(fmt.Sprint("pod-", i), "26", "1Gi")) // one to a node
	}
	e.Until(60, "nodes", func() bool { e.Join(); return len(e.Nodes()) == n })
	e.Steps(5)
	return w
}

// set gives the i-th node a condition.
func (w *ward) set(i int, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.T.Helper()
	n := w.Nodes()[i]
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()})
	if err := w.API.Status().Update(w.T.Context(), &n); err != nil {
		w.T.Fatal(err)
	}
}

// round reconciles every claim and returns the shortest time after which one is requeued.
func (w *ward) round() time.Duration {
	w.T.Helper()
	var first time.Duration
	for _, claim := range w.Claims() {
		result, err := w.Reconciler.Reconcile(w.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)})
		if err != nil {
			w.T.Fatal(err)
		}
		if result.RequeueAfter > 0 && (first == 0 || result.RequeueAfter < first) {
			first = result.RequeueAfter
		}
	}
	return first
}

func (w *ward) leaving() int {
	n := 0
	for _, c := range w.Claims() {
		if c.DeletionTimestamp != nil {
			n++
		}
	}
	return n
}

// A node that remains unhealthy for as long as is tolerated is deleted at once, even with
// do-not-disrupt; one that recovers in time is kept.
//
// Rule REPAIR-1.
func TestBrokenNodesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := controllertest.Pool("web", "Never")
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
		pool.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
		pool.Spec.Template.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		w := admit(t, pool, 5)
		if again := w.round(); again != 0 || w.leaving() != 0 {
			t.Fatalf("healthy nodes: %d leave, again after %s", w.leaving(), again)
		}
		w.set(0, corev1.NodeReady, corev1.ConditionUnknown)
		if again := w.round(); again != 10*time.Minute {
			t.Errorf("again after %s, want 10m", again)
		}
		time.Sleep(9 * time.Minute)
		w.round()
		w.set(0, corev1.NodeReady, corev1.ConditionTrue)
		time.Sleep(9 * time.Minute)
		w.round()
		w.set(0, corev1.NodeReady, corev1.ConditionFalse)
		time.Sleep(10*time.Minute - time.Second)
		w.round()
		if w.leaving() != 0 {
			t.Fatal("a node went although it was not broken for as long as that is borne")
		}
		time.Sleep(time.Second)
		w.round()
		if w.leaving() != 1 {
			t.Fatal("a broken node stays")
		}
		claim := w.Claims()[slices.IndexFunc(w.Claims(), func(c karpv1.NodeClaim) bool { return c.DeletionTimestamp != nil })]
		if deadline := claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey]; deadline != time.Now().Format(time.RFC3339) {
			t.Errorf("its deadline is %q, want now", deadline)
		}
		if unhealthy, disrupted := w.Counter("karpenter_nodeclaims_unhealthy_disrupted_total"), w.Counter("karpenter_nodeclaims_disrupted_total"); unhealthy != 1 || disrupted != 1 {
			t.Errorf("counted %v unhealthy, %v disrupted", unhealthy, disrupted)
		}
	})
}

// With more than a fifth of a pool unhealthy, rounded up, nothing is repaired, and events on the
// node, its claim and its pool report it.
//
// Rule REPAIR-2.
func TestManyBrokenNodesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := admit(t, controllertest.Pool("web", "Never"), 6)
		for i := range 3 {
			w.set(i, diskHealthy, corev1.ConditionFalse)
		}
		time.Sleep(time.Minute)
		if again := w.round(); again != 5*time.Minute || w.leaving() != 0 {
			t.Fatalf("%d of 6 leave, again after %s", w.leaving(), again)
		}
		synctest.Wait()
		const want = "NodeRepairBlocked: more than 20% of the nodes of nodepool web are unhealthy: 3 of 6, 2 may be repaired at once"
		about := map[string]int{}
		events := &corev1.EventList{}
		if err := w.API.List(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason == "NodeRepairBlocked" {
				about[e.InvolvedObject.Kind]++
				if e.Reason+": "+e.Message != want {
					t.Error(e.Message)
				}
			}
		}
		if diff := cmp.Diff(map[string]int{"Node": 3, "NodeClaim": 3, "NodePool": 1}, about); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		w.set(1, diskHealthy, corev1.ConditionTrue)
		time.Sleep(time.Minute)
		w.round()
		if w.leaving() != 2 {
			t.Errorf("%d leave, want the two that are broken now", w.leaving())
		}
	})
}

// A claim without a pool counts among all nodes of the cluster.
//
// Rule REPAIR-2.
func TestClaimsWithoutAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := admit(t, controllertest.Pool("web", "Never"), 6)
		alone := w.Claims()[0]
		delete(alone.Labels, karpv1.NodePoolLabelKey)
		if err := w.API.Update(t.Context(), &alone); err != nil {
			t.Fatal(err)
		}
		mine := slices.IndexFunc(w.Nodes(), func(n corev1.Node) bool { return n.Spec.ProviderID == alone.Status.ProviderID })
		for i := range 3 {
			w.set((mine+i)%6, diskHealthy, corev1.ConditionFalse)
		}
		time.Sleep(time.Minute)
		look := func() {
			if _, err := w.Reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&alone)}); err != nil {
				t.Fatal(err)
			}
		}
		look()
		synctest.Wait()
		const want = "NodeRepairBlocked: more than 20% of the nodes of the cluster are unhealthy: 3 of 6, 2 may be repaired at once"
		if texts := w.EventTexts(alone.Name); w.leaving() != 0 || !slices.Contains(texts, want) {
			t.Errorf("%d leave, events %q", w.leaving(), texts)
		}
		w.set((mine+1)%6, diskHealthy, corev1.ConditionTrue)
		look()
		if w.leaving() != 1 {
			t.Errorf("%d leave, want the claim without a pool", w.leaving())
		}
	})
}

// A pool may ask to be graceful: while the kubelet works, the node is due for
// disruption, however many are; when it does not, pods cannot be moved gracefully.
//
// Rule REPAIR-3.
func TestGracefulRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := controllertest.Pool("web", "Never")
		pool.Annotations = map[string]string{kube.RepairAnnotation: "graceful"}
		w := admit(t, pool, 3)
		dues := func() (all []disrupt.DueCause) {
			for _, c := range w.Claims() {
				all = append(all, kube.DueCauses(&c, false, time.Now())...)
			}
			return all
		}
		w.set(0, diskHealthy, corev1.ConditionFalse)
		w.set(1, diskHealthy, corev1.ConditionFalse)
		w.round()
		if got := dues(); got != nil {
			t.Errorf("due before the time: %v", got)
		}
		time.Sleep(time.Minute)
		w.round()
		if got := dues(); w.leaving() != 0 || len(got) != 2 || got[0].Detail != "DiskHealthyFalse" || got[0].Cause != disrupt.Drifted {
			t.Errorf("%d leave, due are %v", w.leaving(), got)
		}
		w.set(1, diskHealthy, corev1.ConditionTrue)
		w.round()
		if got := dues(); len(got) != 1 {
			t.Errorf("one is well again, due are %v", got)
		}
		w.set(0, corev1.NodeReady, corev1.ConditionFalse)
		w.round()
		if w.leaving() != 1 {
			t.Errorf("%d leave, want the one whose kubelet does not work", w.leaving())
		}
	})
}
