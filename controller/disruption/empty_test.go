// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// withNodes brings up n nodes, each with one pod bound that fills it.
func withNodes(t *testing.T, n int, change func(*karpv1.NodePool)) *controllertest.Env {
	t.Helper()
	e := controllertest.New(t, memory.Options{Create: time.Second})
	pool := controllertest.Pool("web", "30s")
	if change != nil {
		change(pool)
	}
	e.Create(pool)
	for i := range n {
		e.Create(controllertest.Pod(fmt.Sprint("web-", i), "31", "1Gi"))
	}
	e.Until(30, "initialized nodes", func() bool {
		e.Join()
		return e.Ready() == n
	})
	for i, node := range e.Nodes() {
		e.Bind(fmt.Sprint("web-", i), node.Name)
	}
	e.Steps(30) // nominations lapse
	return e
}

func empty(e *controllertest.Env) {
	for _, p := range e.Pods() {
		e.Delete(&p)
	}
}

func disrupted(e *controllertest.Env) int {
	n := 0
	for _, node := range e.Nodes() {
		if slices.ContainsFunc(node.Spec.Taints, func(x corev1.Taint) bool { return x.Key == karpv1.DisruptedTaintKey }) {
			n++
		}
	}
	return n
}

// Rule CONSOLIDATION-1.
func TestEmptyNodesGoAfterConsolidateAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNodes(t, 2, nil)
		empty(e)
		e.Steps(29)
		if disrupted(e) != 0 {
			t.Error("a node was taken before consolidateAfter")
		}
		e.Until(20, "nothing is left", func() bool { return len(e.Claims())+len(e.Nodes())+len(e.Cloud.ProviderIDs()) == 0 })
	})
}

// Rule CONSOLIDATION-1.
func TestBudgets(t *testing.T) {
	for name, tc := range map[string]struct {
		budget karpv1.Budget
		want   int // nodes disrupted at once, of 5
	}{
		"percent rounds up":       {karpv1.Budget{Nodes: "21%"}, 2},
		"count":                   {karpv1.Budget{Nodes: "3"}, 3},
		"none":                    {karpv1.Budget{Nodes: "0"}, 0},
		"none for another reason": {karpv1.Budget{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}, 5},
		"none in an open window":  {karpv1.Budget{Nodes: "0", Schedule: new("* * * * *"), Duration: &metav1.Duration{Duration: time.Hour}}, 0},
		"none in a closed window": {karpv1.Budget{Nodes: "0", Schedule: new("0 0 31 12 *"), Duration: &metav1.Duration{Duration: time.Hour}}, 5},
		"unreadable allows none":  {karpv1.Budget{Nodes: "1", Schedule: new("TZ=UTC * * * * *"), Duration: &metav1.Duration{Duration: time.Hour}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := withNodes(t, 5, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{tc.budget} })
				empty(e)
				e.Feed()
				time.Sleep(30 * time.Second)
				e.Step()
				if got := disrupted(e); got != tc.want {
					t.Errorf("%d nodes disrupted at once, want %d", got, tc.want)
				}
			})
		})
	}
}

// A pod that slips in between the decision and the taint saves its node.
//
// Rule CONSOLIDATION-2.
func TestRecheckSavesNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNodes(t, 1, nil)
		empty(e)
		e.Until(40, "the node is tainted", func() bool { return disrupted(e) == 1 })
		e.Feed() // the cache of karve is up to date
		late := controllertest.Pod("late", "1", "1Gi")
		late.Status.Conditions = nil
		e.Create(late)
		e.Bind("late", e.Nodes()[0].Name) // and lacks this pod
		if err := e.Disruption.Disrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if disrupted(e) != 0 || len(e.Claims()) != 1 || e.Claims()[0].DeletionTimestamp != nil {
			t.Error("a node that a pod had just been bound to was taken")
		}
	})
}

// A taint that an earlier process left behind is removed.
func TestStaleTaintComesOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNodes(t, 1, nil)
		node := e.Nodes()[0]
		node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		if err := e.API.Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Restart()
		e.Steps(2)
		if disrupted(e) != 0 || len(e.Pods()) != 1 {
			t.Error("a node in use stays tainted")
		}
	})
}

// Rule CONSOLIDATION-2.
func TestProtectedNodesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNodes(t, 1, nil)
		node := e.Nodes()[0]
		node.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		if err := e.API.Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		empty(e)
		e.Steps(60)
		if disrupted(e) != 0 {
			t.Error("a node marked do-not-disrupt was taken")
		}
		claim := e.Claims()[0]
		if !kube.ConditionTrue(&claim, karpv1.ConditionTypeConsolidatable) || claim.Status.LastPodEventTime.IsZero() {
			t.Errorf("quiet for a minute, yet: %+v", claim.Status)
		}
	})
}
