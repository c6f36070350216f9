// SPDX-License-Identifier: Apache-2.0

package static_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/provider/memory"
)

func pool(replicas int64, limit string) *karpv1.NodePool {
	p := controllertest.Pool("fixed", "30s")
	p.Spec.Replicas = &replicas
	if limit != "" {
		p.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse(limit)}
	}
	return p
}

func scale(t *testing.T, e *controllertest.Env, replicas int64) {
	t.Helper()
	p := controllertest.Get(e, &karpv1.NodePool{}, "fixed")
	p.Spec.Replicas = &replicas
	if err := e.API.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// Rule STATIC-2.
func TestReplicasAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(pool(3, ""))
		e.Until(60, "three nodes", func() bool { e.Join(); return len(e.Nodes()) == 3 })
		e.Steps(90) // empty for three times consolidateAfter: it does not apply
		if got := len(e.Claims()); got != 3 {
			t.Fatalf("%d claims, want 3", got)
		}
		lost := e.Claims()[0]
		e.Delete(&lost)
		e.Until(60, "a replacement", func() bool {
			e.Join()
			return len(e.Nodes()) == 3 && e.Nodes()[0].DeletionTimestamp == nil
		})
		scale(t, e, 1)
		e.Until(60, "one node left", func() bool { return len(e.Claims()) == 1 })
		scale(t, e, 0)
		e.Until(60, "none left", func() bool { return len(e.Claims()) == 0 && len(e.Cloud.ProviderIDs()) == 0 })
	})
}

// Not even a restart in the middle of a launch exceeds limits.nodes, or spec.replicas.
//
// Rule STATIC-2.
func TestLimitOfNodesIsHard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(pool(5, "2"))
		for range 10 {
			e.Step()
			e.Restart()
			if got := len(e.Claims()); got > 2 {
				t.Fatalf("%d claims, limit 2", got)
			}
		}
		if got := len(e.Claims()); got != 2 {
			t.Errorf("%d claims, want what the limit allows", got)
		}
		e.Delete(&e.Claims()[0]) // on its way out it still counts
		e.Steps(1)
		if got := len(e.Claims()); got > 2 {
			t.Errorf("%d claims, limit 2", got)
		}
	})
}

// The nodes of a static pool run pods like any other, and none is launched there
// for pods that do not fit.
func TestStaticNodesHostPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(pool(1, ""))
		e.Until(60, "a node", func() bool { e.Join(); return len(e.Nodes()) == 1 })
		e.Steps(3)
		e.Create(controllertest.Pod("small", "100m", "64Mi"))
		e.Create(controllertest.Pod("large", "31", "1Gi"))
		e.Steps(20)
		synctest.Wait()
		if texts := e.EventTexts("small"); len(texts) == 0 || texts[0][:len("Nominated")] != "Nominated" {
			t.Errorf("events %q", texts)
		}
		if got := len(e.Claims()); got != 1 {
			t.Errorf("%d claims", got)
		}
	})
}

// Empty nodes are deleted first, then those with the lowest eviction cost; nodes with
// do-not-disrupt are last.
//
// Rule STATIC-2.
func TestScaleDownOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(pool(4, ""))
		e.Until(60, "four nodes", func() bool { e.Join(); return len(e.Nodes()) == 4 })
		e.Steps(5)
		nodes := e.Nodes()
		for i, host := range map[string]int{"one": 0, "two": 1, "three": 1, "held": 2} {
			pod := controllertest.Pod(i, "10m", "1Mi")
			if i == "held" {
				pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			}
			e.Create(pod)
			e.Bind(i, nodes[host].Name)
		}
		e.Feed()
		gone := map[int]bool{}
		look := func() string {
			text := ""
			for i := range nodes {
				n := &corev1.Node{}
				err := e.API.Get(t.Context(), client.ObjectKeyFromObject(&nodes[i]), n)
				if gone[i] = gone[i] || err != nil || n.DeletionTimestamp != nil; gone[i] {
					text += fmt.Sprint(i)
				}
			}
			return text
		}
		// Empty, one pod, two pods; the protected one is kept.
		for i, want := range []string{"3", "03", "013"} {
			scale(t, e, int64(3-i))
			e.Until(30, "one less", func() bool { return len(look()) == i+1 })
			if got := look(); got != want {
				t.Fatalf("gone: %s, want %s", got, want)
			}
		}
	})
}

// A decision may find too few offerings: the missing nodes are requested again.
func TestShortDecisionIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Pace = time.Second
		asked := []int{}
		e.Static.Choose = func(_ *cluster.Snapshot, _ string, n int) []schedule.Launch {
			asked = append(asked, n)
			return nil
		}
		e.Create(pool(2, ""))
		e.Steps(3)
		if len(asked) < 2 || asked[0] != 2 || len(e.Claims()) != 0 {
			t.Errorf("asked for %v", asked)
		}
	})
}

// A pool that is deleted while karve chooses what to launch for it gets no nodes.
//
// Rule LAUNCH-12.
func TestPoolDeletedWhileLaunchesAreChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(pool(2, ""))
		chosen := 0
		e.Static.Choose = func(snapshot *cluster.Snapshot, name string, n int) []schedule.Launch {
			launches := schedule.StaticLaunches(snapshot, name, n)
			chosen += len(launches)
			e.Mirror.RemovePool(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}})
			return launches
		}
		e.Steps(3)
		if got := len(e.Claims()); chosen == 0 || got > 0 {
			t.Errorf("%d launches were chosen, and %d NodeClaims created, want none", chosen, got)
		}
	})
}
