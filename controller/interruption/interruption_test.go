// SPDX-License-Identifier: Apache-2.0

package interruption_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/termination"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

func withNode(t *testing.T) *controllertest.Env {
	t.Helper()
	e := controllertest.New(t, memory.Options{})
	e.Create(controllertest.Pool("web", "Never"))
	e.Create(controllertest.Pod("web", "1", "1Gi"))
	e.Until(20, "an initialized node", func() bool {
		e.Join()
		return len(e.Claims()) == 1 && kube.ConditionTrue(&e.Claims()[0], karpv1.ConditionTypeInitialized)
	})
	e.Bind("web", e.Nodes()[0].Name)
	return e
}

func setCondition(t *testing.T, e *controllertest.Env, kind corev1.NodeConditionType, status corev1.ConditionStatus, message string) {
	t.Helper()
	node := e.Nodes()[0]
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			node.Status.Conditions[i].Status = status
			node.Status.Conditions[i].LastTransitionTime = metav1.Now()
		}
	}
	if kind != corev1.NodeReady {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Message: message})
	}
	if err := e.API.Status().Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
}

// An evicted instance is replaced at once, and all its objects are removed.
func TestReclaimedInstanceIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		lost := e.Claims()[0].Name
		e.Cloud.Reclaim(e.Cloud.ProviderIDs()[0])
		setCondition(t, e, corev1.NodeReady, corev1.ConditionUnknown, "")
		e.Steps(5)
		claims := e.Claims()
		if len(claims) > 1 || len(claims) == 1 && claims[0].Name == lost {
			t.Fatalf("claims %v, want the lost one gone", claims)
		}
		// Its pod is deleted with it; the replacement pod that its owner creates gets a node.
		e.Create(controllertest.Pod("successor", "1", "1Gi"))
		e.Until(10, "a replacement", func() bool { e.Join(); return len(e.Nodes()) == 1 && len(e.Cloud.ProviderIDs()) == 1 })
	})
}

// Nodes for pods that lose their instance are launched before any others, from the
// first step on, and the mirror shows them at once.
//
// Rule INTERRUPTION-7.
func TestReplacementIsUrgent(t *testing.T) {
	for _, how := range []string{"announced", "announced to a protected pod", "gone"} {
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t)
			if strings.Contains(how, "protected") {
				pod := e.Pods()[0]
				pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
				if err := e.API.Update(t.Context(), &pod); err != nil {
					t.Fatal(err)
				}
			}
			var hurried []string
			e.Mirror.OnUrgent = func(pod string) { hurried = append(hurried, pod) }
			lost := e.Claims()[0].Name
			if how != "gone" {
				mark(t, e, kube.NoticePreempt, time.Now().Add(30*time.Second))
			} else {
				e.Cloud.Reclaim(e.Cloud.ProviderIDs()[0])
				setCondition(t, e, corev1.NodeReady, corev1.ConditionUnknown, "")
			}
			e.Steps(2)
			if len(hurried) != 1 {
				t.Errorf("%s: %d pods are in a hurry, want 1", how, len(hurried))
			}
			for _, c := range e.Claims() {
				if urgent := c.Annotations[kube.UrgentAnnotation] == "true"; urgent != (c.Name != lost) {
					t.Errorf("%s: claim %s is urgent: %v", how, c.Name, urgent)
				}
			}
			if how != "gone" && len(e.Claims()) != 2 {
				t.Errorf("%d claims after two steps, want the old and its replacement", len(e.Claims()))
			}
		})
	}
}

// A node that does not report is kept while its instance runs.
func TestSilentNodeIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		setCondition(t, e, corev1.NodeReady, corev1.ConditionUnknown, "")
		e.Steps(30)
		if e.Claims()[0].DeletionTimestamp != nil {
			t.Error("a node that merely does not report lost its claim")
		}
	})
}

// An announced end starts the drain with the announced time as its deadline.
//
// Rule INTERRUPTION-1.
func TestAnnouncedEndDrainsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		pod := e.Pods()[0]
		pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(10))
		if err := e.API.Update(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		end := start.Add(39 * time.Second).Truncate(time.Second)
		setCondition(t, e, kube.ConditionPreemption, corev1.ConditionTrue, "Preempt Scheduled: "+end.UTC().Format(http.TimeFormat)+". EventId: a")
		e.Step()
		claim := e.Claims()[0]
		if deadline := deadlineOf(t, &claim); !deadline.Equal(end) || claim.DeletionTimestamp == nil {
			t.Fatalf("deadline %v, want %v; deletion %v", deadline, end, claim.DeletionTimestamp)
		}
		e.Until(40, "the pod is gone", func() bool { return len(e.Pods()) == 0 })
		if took := time.Since(start); took > 34*time.Second {
			t.Errorf("the protected pod left after %s, too late for its 10s of grace", took)
		}
	})
}

// A notice without a time leaves the least time that Azure gives, one that has begun none.
//
// Rule INTERRUPTION-1.
func TestNoticesWithoutATime(t *testing.T) {
	for message, left := range map[string]time.Duration{
		"Preempt Scheduled: unknown.": 30 * time.Second,
		"Preempt Started.":            0,
	} {
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t)
			start := time.Now()
			setCondition(t, e, kube.ConditionPreemption, corev1.ConditionTrue, message)
			e.Step()
			claim := e.Claims()[0]
			if got := deadlineOf(t, &claim).Sub(start); got < left-time.Second || got > left+time.Second {
				t.Errorf("%q leaves %s, want %s", message, got, left)
			}
		})
	}
}

// Advice to move and other conditions do not end an instance that runs.
//
// Rule INTERRUPTION-1.
func TestAdviceIsNoInterruption(t *testing.T) {
	for _, message := range []string{
		"SpotRebalanceRecommendation Advisory: Sat, 01 Aug 2026 12:00:30 GMT. For more information, see https://aka.ms/x",
		"Freeze Scheduled: Sat, 01 Aug 2026 12:00:30 GMT.", "no words that anyone knows", "",
	} {
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t)
			setCondition(t, e, kube.ConditionPreemption, corev1.ConditionTrue, message)
			e.Steps(5)
			if claims := e.Claims(); len(claims) != 1 || claims[0].DeletionTimestamp != nil {
				t.Errorf("%q ended the claim", message)
			}
		})
	}
}

// mark writes on the node what an agent would write.
func mark(t *testing.T, e *controllertest.Env, kind kube.NoticeKind, at time.Time) {
	t.Helper()
	node := e.Nodes()[0]
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: kube.InterruptionTaint, Value: string(kind), Effect: corev1.TaintEffectNoSchedule})
	node.Annotations = map[string]string{kube.NotBeforeAnnotation: at.UTC().Format(time.RFC3339)}
	if err := e.API.Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
}

// An instance that is restarted, moved or deleted from outside is replaced before it is
// drained while there are five minutes left, and drained before it ends.
//
// Rule INTERRUPTION-5.
func TestMaintenanceIsPrepared(t *testing.T) {
	for _, kind := range []kube.NoticeKind{kube.NoticeReboot, kube.NoticeRedeploy, kube.NoticeTerminate} {
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t)
			old, end := e.Claims()[0].Name, time.Now().Add(15*time.Minute)
			mark(t, e, kind, end)
			most := 0
			e.Until(300, "the old instance is gone", func() bool {
				e.Join()
				most = max(most, e.Ready())
				claims := e.Claims()
				return len(claims) == 1 && claims[0].Name != old
			})
			if most != 2 || time.Now().After(end) {
				t.Errorf("%s: at most %d nodes were ready at once, want 2: the replacement comes first", kind, most)
			}
		})
	}
}

// If disruption may not replace the node, because a budget forbids it, the node is drained when
// five minutes are left, with the instance's end as its deadline.
//
// Rule INTERRUPTION-5.
func TestMaintenanceThatNothingPrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		pod := e.Pods()[0]
		// Without the finalizer its claim would be deleted within seconds.
		pod.Finalizers = []string{"example.com/runs"}
		if err := e.API.Update(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
		pool := e.NodePools()[0]
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
		if err := e.API.Update(t.Context(), &pool); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(10 * time.Minute).Truncate(time.Second)
		mark(t, e, kube.NoticeTerminate, end)
		e.Steps(290)
		if claim := e.Claims()[0]; claim.DeletionTimestamp != nil || !kube.ConditionTrue(&claim, kube.ConditionMaintenance) {
			t.Fatalf("deleted at %v, conditions %v", claim.DeletionTimestamp, claim.Status.Conditions)
		}
		name := e.Claims()[0].Name
		e.Steps(15)
		claim := controllertest.Get(e, &karpv1.NodeClaim{}, name)
		if claim.DeletionTimestamp == nil || !deadlineOf(t, claim).Equal(end) || !kube.Interrupted(claim) {
			t.Errorf("with five minutes left: deleted at %v, annotations %v", claim.DeletionTimestamp, claim.Annotations)
		}
	})
}

// A notice that is withdrawn does not end the instance.
//
// Rule INTERRUPTION-5.
func TestMaintenanceTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		e.Disruption = nil
		mark(t, e, kube.NoticeReboot, time.Now().Add(15*time.Minute))
		e.Steps(5)
		node := e.Nodes()[0]
		node.Spec.Taints, node.Annotations = nil, nil
		if err := e.API.Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Steps(1000)
		if claim := e.Claims()[0]; claim.DeletionTimestamp != nil || kube.ConditionTrue(&claim, kube.ConditionMaintenance) {
			t.Errorf("deleted at %v, conditions %v", claim.DeletionTimestamp, claim.Status.Conditions)
		}
	})
}

// Every pod has its own grace period, or the time that the instance has left, whatever else
// protects it.
//
// Rule INTERRUPTION-6.
func TestPodsGetTheWholeNotice(t *testing.T) {
	for grace, protected := range map[int64]bool{5: false, 10: true, 20: false, 25: true, 30: true, 600: false, 3600: true} {
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t)
			e.Pace = 250 * time.Millisecond
			pod := e.Pods()[0]
			pod.Finalizers = []string{"example.com/runs"} // removed by its kubelet
			pod.Spec.TerminationGracePeriodSeconds = &grace
			if protected {
				pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			}
			if err := e.API.Update(t.Context(), &pod); err != nil {
				t.Fatal(err)
			}
			gets := time.Duration(grace) * time.Second
			e.Termination.Evictor = termination.NewEvictor(interceptor.NewClient(e.API, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					gets = time.Duration(*(&client.DeleteOptions{}).ApplyOptions(opts).GracePeriodSeconds) * time.Second
					return c.Delete(ctx, o, opts...)
				},
			}), e.Events, e.Metrics, e.Termination.Log)
			end := time.Now().Add(30 * time.Second).Truncate(time.Second)
			mark(t, e, kube.NoticePreempt, end)
			var asked time.Time
			e.Until(200, "the pod is asked to go", func() bool {
				if e.Pods()[0].DeletionTimestamp == nil {
					asked = time.Now() // the next step begins now
					return false
				}
				return true
			})
			least := min(time.Duration(grace)*time.Second, 28*time.Second)
			if gets < least || asked.Add(gets).After(end.Add(time.Second)) {
				t.Errorf("a pod with %ds of grace gets %s, %s before the instance goes", grace, gets, end.Sub(asked))
			}
		})
	}
}

func deadlineOf(t *testing.T, claim *karpv1.NodeClaim) time.Time {
	t.Helper()
	deadline, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey])
	if err != nil {
		t.Fatalf("claim %s has no deadline: %v", claim.Name, err)
	}
	return deadline
}

// listener records the offerings of evicted instances.
type listener []offering.Ref

func (l *listener) SpotReclaimed(c offering.Ref) { *l = append(*l, c) }

// The provider is notified of the offering of an evicted instance, and not of instances
// that end for other reasons.
//
// Rule INTERRUPTION-9.
func TestSpotObserverGetsOffering(t *testing.T) {
	for kind, want := range map[kube.NoticeKind]int{kube.NoticePreempt: 1, kube.NoticeReboot: 0} {
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t)
			var heard listener
			e.Interruption.SpotObserver = &heard
			labels := e.Claims()[0].Labels
			mark(t, e, kind, time.Now().Add(30*time.Second))
			e.Steps(3)
			if len(heard) != want {
				t.Fatalf("%s: heard of %+v", kind, heard)
			}
			for _, c := range heard {
				if c.Type == "" || c.Type != labels[corev1.LabelInstanceTypeStable] || c.Zone != labels[corev1.LabelTopologyZone] || c.CapacityType != labels[karpv1.CapacityTypeLabelKey] {
					t.Errorf("heard of %+v, the instance was %v", c, labels)
				}
			}
		})
	}
}
