// SPDX-License-Identifier: Apache-2.0

package gc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
)

// busy launches n instances whose Nodes are ready and run a pod each, and collects once.
func busy(t *testing.T, n int) *controllertest.Env {
	t.Helper()
	e := launched(t, n)
	e.Join()
	e.Until(20, "initialized claims", func() bool { return e.Ready() == n })
	for i, node := range e.Nodes() {
		e.Bind(fmt.Sprint("web-", i), node.Name)
	}
	e.Disruption = nil
	if err := e.Collector.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// lose removes claims from the API without any finalization.
func lose(e *controllertest.Env, claims ...karpv1.NodeClaim) {
	e.T.Helper()
	for _, claim := range claims {
		claim.Finalizers = nil
		write(e, &claim)
		e.Delete(&claim)
	}
}

func loseNodes(e *controllertest.Env) {
	for _, node := range e.Nodes() {
		node.Finalizers = nil
		write(e, &node)
		e.Delete(&node)
	}
}

func write(e *controllertest.Env, o client.Object) {
	e.T.Helper()
	if err := e.API.Update(e.T.Context(), o); err != nil {
		e.T.Fatal(err)
	}
}

// collect lets the collector work for a while and returns its last error.
func collect(e *controllertest.Env, d time.Duration) (err error) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(30 * time.Second) {
		err = e.Collector.Collect(e.T.Context())
	}
	return err
}

// orphaned is the NodePool's message about instances without a claim.
func orphaned(e *controllertest.Env) (message string, said bool) {
	c := controllertest.Get(e, &karpv1.NodePool{}, "web").StatusConditions().Get(kube.ConditionInstancesClaimed)
	if c == nil {
		return "", false
	}
	return c.Message, c.IsFalse() && c.Reason == "OrphanedInstances"
}

// When NodeClaims vanish while their instances work, no instance is terminated, however long that
// takes and however small the cluster is: pool, event and metrics report it. It ends when the
// claims are back.
//
// Rule COLLECT-4.
func TestLostNodeClaimsCostNoInstance(t *testing.T) {
	for _, n := range []int{1, 2, 3, 40} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := busy(t, n)
				claims := e.Claims()
				lose(e, claims...)
				if err := collect(e, 3*time.Hour); err == nil {
					t.Error("no word about it")
				}
				if got := len(e.Cloud.ProviderIDs()); got != n || len(e.Nodes()) != n {
					t.Fatalf("%d instances and %d nodes of %d are left", got, len(e.Nodes()), n)
				}
				text, said := orphaned(e)
				if !said || !strings.Contains(text, fmt.Sprintf("%d of %d instances", n, n)) || !strings.Contains(text, "karve.dev/collect-orphans=") {
					t.Errorf("the pool says %q", text)
				}
				if e.Counter("karve_garbage_collection_halted") != 1 || e.Counter("karve_orphaned_instances") != float64(n) {
					t.Error("the alarm is not raised")
				}
				events := slices.DeleteFunc(e.EventTexts("web"), func(s string) bool { return !strings.HasPrefix(s, "GarbageCollectionHalted: ") })
				if len(events) == 0 || len(events) > 20 {
					t.Errorf("%d events of the pool in three hours", len(events))
				}
				for _, claim := range claims {
					claim.ResourceVersion = ""
					e.Create(&claim)
					status := controllertest.Get(e, &karpv1.NodeClaim{}, claim.Name)
					status.Status = claim.Status
					if err := e.API.Status().Update(t.Context(), status); err != nil {
						t.Fatal(err)
					}
				}
				if err := collect(e, time.Minute); err != nil || e.Counter("karve_garbage_collection_halted") != 0 || e.Counter("karve_orphaned_instances") != 0 {
					t.Errorf("the claims are back, and the halt goes on: %v", err)
				}
				if text, said := orphaned(e); said || len(e.Cloud.ProviderIDs()) != n {
					t.Errorf("the pool still says %q; %d instances", text, len(e.Cloud.ProviderIDs()))
				}
			})
		})
	}
}

// A karve that is installed in another cluster under the same name sees instances of which its
// cluster has neither claims nor Nodes. It does not terminate them.
//
// Rule COLLECT-4.
func TestInstancesOfNamesakeAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := busy(t, 40)
		lose(e, e.Claims()...)
		loseNodes(e)
		e.Restart() // a process that has never seen them
		if err := collect(e, 24*time.Hour); err == nil || len(e.Cloud.ProviderIDs()) != 40 {
			t.Errorf("%d of 40 instances are left: %v", len(e.Cloud.ProviderIDs()), err)
		}
	})
}

// Instances that lost their claims and whose Nodes were deleted, or do not report for ten minutes,
// run nothing any more: they are terminated, many at once ten minutes later than few.
//
// Rule COLLECT-5.
func TestOrphansWithoutWorkingNodesGo(t *testing.T) {
	for name, end := range map[string]func(*controllertest.Env){
		"gone": loseNodes,
		"silent": func(e *controllertest.Env) {
			for _, node := range e.Nodes() {
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.Now()}}
				if err := e.API.Status().Update(e.T.Context(), &node); err != nil {
					e.T.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := busy(t, 40)
				lose(e, e.Claims()...)
				end(e)
				if err := collect(e, 9*time.Minute); err == nil || len(e.Cloud.ProviderIDs()) != 40 {
					t.Fatalf("nine minutes later %d of 40 instances are left: %v", len(e.Cloud.ProviderIDs()), err)
				}
				if err := collect(e, 2*time.Minute); err != nil || len(e.Cloud.ProviderIDs()) != 0 || e.Counter("karve_garbage_collection_halted") != 0 {
					t.Errorf("eleven minutes later %d instances are left: %v", len(e.Cloud.ProviderIDs()), err)
				}
				if text, said := orphaned(e); said {
					t.Errorf("the pool still says %q", text)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := busy(t, 40)
		for _, claim := range e.Claims()[:4] {
			node := e.Nodes()[slices.IndexFunc(e.Nodes(), ofClaim(claim))]
			node.Finalizers = nil
			write(e, &node)
			e.Delete(&node)
			lose(e, claim)
		}
		if err := e.Collector.Collect(t.Context()); err != nil || len(e.Cloud.ProviderIDs()) != 36 {
			t.Errorf("of 4 orphans among 40, %d went: %v", 40-len(e.Cloud.ProviderIDs()), err)
		}
	})
}

// A user confirms that the instances may be terminated, by the mark in the pool's condition. The
// confirmation holds for these instances in this halt: the annotation is removed, and setting it
// again confirms nothing.
//
// Rule COLLECT-6.
func TestConfirmationIsForTheseInstancesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := busy(t, 10)
		annotate := func(value string) {
			pool := controllertest.Get(e, &karpv1.NodePool{}, "web")
			metav1.SetMetaDataAnnotation(&pool.ObjectMeta, kube.CollectOrphansAnnotation, value)
			write(e, pool)
		}
		annotated := func() string {
			return controllertest.Get(e, &karpv1.NodePool{}, "web").Annotations[kube.CollectOrphansAnnotation]
		}
		token := func() string {
			text, _ := orphaned(e)
			_, token, _ := strings.Cut(text, "karve.dev/collect-orphans=")
			token, _, _ = strings.Cut(token, " ")
			return token
		}
		annotate("true") // before anything has happened
		if err := collect(e, time.Minute); err != nil || annotated() != "" {
			t.Fatalf("a confirmation of nothing stays: %q, %v", annotated(), err)
		}
		lose(e, e.Claims()[:5]...)
		first := collectMark(e, token)
		lose(e, e.Claims()[0]) // one more than the message named
		annotate(first)
		if err := collect(e, time.Minute); err == nil || len(e.Cloud.ProviderIDs()) != 10 || annotated() != "" {
			t.Fatalf("confirmed for others: %d instances, %q, %v", len(e.Cloud.ProviderIDs()), annotated(), err)
		}
		second := token()
		annotate(second)
		if err := collect(e, time.Minute); err != nil || len(e.Cloud.ProviderIDs()) != 4 || annotated() != "" || e.Counter("karve_garbage_collection_halted") != 0 {
			t.Fatalf("confirmed: %d instances, %q, %v", len(e.Cloud.ProviderIDs()), annotated(), err)
		}
		lose(e, e.Claims()...)
		annotate(second)
		if err := collect(e, time.Hour); err == nil || len(e.Cloud.ProviderIDs()) != 4 || annotated() != "" {
			t.Errorf("an old confirmation holds: %d instances, %q, %v", len(e.Cloud.ProviderIDs()), annotated(), err)
		}
	})
}

func collectMark(e *controllertest.Env, token func() string) string {
	e.T.Helper()
	if err := collect(e, time.Minute); err == nil || token() == "" {
		e.T.Fatalf("no mark is told: %v", err)
	}
	return token()
}

// One instance of many that works and has lost its claim is not terminated under its pods: ten
// minutes later its Node is drained like any other, and then the instance is terminated.
//
// Rule COLLECT-7.
func TestSingleOrphanIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := busy(t, 5)
		claim := e.Claims()[0]
		node := e.Nodes()[slices.IndexFunc(e.Nodes(), ofClaim(claim))]
		lose(e, claim)
		if err := collect(e, 9*time.Minute); err != nil || len(e.Cloud.ProviderIDs()) != 5 || len(e.Nodes()) != 5 {
			t.Fatalf("nine minutes later: %d instances, %d nodes, %v", len(e.Cloud.ProviderIDs()), len(e.Nodes()), err)
		}
		if texts := e.EventTexts(node.Name); !slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "NodeClaimMissing: ") }) {
			t.Errorf("the node says %q", texts)
		}
		protect(e, node.Name, "true")
		alive := func() bool { return slices.Contains(e.Cloud.ProviderIDs(), claim.Status.ProviderID) }
		for range 20 {
			if err := e.Collector.Collect(t.Context()); err != nil || !alive() {
				t.Fatalf("the instance went although its pod may not be disrupted: %v", err)
			}
			e.Steps(10)
		}
		protect(e, node.Name, "false")
		for i := 0; alive() && i < 20; i++ {
			e.Steps(10)
			if err := e.Collector.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if alive() || slices.ContainsFunc(e.Nodes(), func(n corev1.Node) bool { return n.Name == node.Name }) {
			t.Error("the instance is never given back")
		}
		if n := e.Counter("karpenter_pods_drained_total"); n != 1 {
			t.Errorf("%v pods were evicted, want the one on the node", n)
		}
	})
}

// protect sets or removes do-not-disrupt on the pods of a node.
func protect(e *controllertest.Env, node, value string) {
	e.T.Helper()
	for _, p := range e.Pods() {
		if p.Spec.NodeName == node {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, karpv1.DoNotDisruptAnnotationKey, value)
			write(e, &p)
		}
	}
}

// Failed instances run nothing and are no sign of lost claims, however many they are. Claims
// whose instance does not exist are collected while instances without a claim are kept.
//
// Rule COLLECT-4. Rule COLLECT-5.
func TestHaltKeepsNeitherFailedInstancesNorLostClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := busy(t, 20)
		claims := e.Claims()
		for _, claim := range claims[:5] {
			e.Cloud.Fail(claim.Status.ProviderID)
			node := e.Nodes()[slices.IndexFunc(e.Nodes(), ofClaim(claim))]
			node.Finalizers = nil
			write(e, &node)
			e.Delete(&node)
		}
		lose(e, claims[:5]...)
		e.Restart()
		if err := e.Collector.Collect(t.Context()); err != nil || len(e.Cloud.ProviderIDs()) != 15 {
			t.Fatalf("%d instances are left of 15 that have not failed: %v", len(e.Cloud.ProviderIDs()), err)
		}
		lose(e, claims[5:10]...)
		gone := claims[10]
		node := e.Nodes()[slices.IndexFunc(e.Nodes(), ofClaim(gone))]
		node.Finalizers = nil
		write(e, &node)
		e.Delete(&node)
		e.Cloud.Reclaim(gone.Status.ProviderID)
		if err := e.Collector.Collect(t.Context()); err == nil || len(e.Cloud.ProviderIDs()) != 14 {
			t.Errorf("%d instances are left of 14: %v", len(e.Cloud.ProviderIDs()), err)
		}
		if controllertest.Get(e, &karpv1.NodeClaim{}, gone.Name).DeletionTimestamp == nil {
			t.Error("the claim whose instance is gone stays")
		}
	})
}

// An instance without a claim that runs only DaemonSet pods is terminated without delay.
//
// Rule COLLECT-7.
func TestIdleOrphanGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := busy(t, 5)
		claim := e.Claims()[0]
		node := e.Nodes()[slices.IndexFunc(e.Nodes(), ofClaim(claim))]
		for _, p := range e.Pods() {
			if p.Spec.NodeName == node.Name {
				e.Delete(&p)
			}
		}
		daemon := controllertest.Pod("daemon", "1", "1Gi")
		daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d"}}
		e.Create(daemon)
		e.Bind("daemon", node.Name)
		lose(e, claim)
		if err := e.Collector.Collect(t.Context()); err != nil || len(e.Cloud.ProviderIDs()) != 4 {
			t.Errorf("%d instances are left, want 4: %v", len(e.Cloud.ProviderIDs()), err)
		}
	})
}

// While karve is paused, a node without a NodeClaim that runs pods is not drained.
//
// Rule PAUSE-1.
func TestPauseKeepsBusyOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := busy(t, 5)
		lose(e, e.Claims()[0])
		e.Control(kube.PauseAnnotation, "true")
		e.Pause.Read(t.Context())
		leaving := func() int {
			return len(slices.DeleteFunc(e.Nodes(), func(n corev1.Node) bool { return n.DeletionTimestamp == nil }))
		}
		if err := collect(e, time.Hour); err != nil || leaving() != 0 {
			t.Fatalf("%d nodes are being drained: %v", leaving(), err)
		}
		e.Control(kube.PauseAnnotation, "")
		e.Pause.Read(t.Context())
		if err := collect(e, time.Minute); err != nil || leaving() != 1 {
			t.Errorf("%d nodes are being drained, want 1: %v", leaving(), err)
		}
	})
}
