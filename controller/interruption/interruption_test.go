package interruption_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
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
		}
	}
	if kind != corev1.NodeReady {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Message: message})
	}
	if err := e.API.Status().Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
}

// A machine that was taken back is replaced at once, and everything of it goes.
func TestReclaimedMachineIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		lost := e.Claims()[0].Name
		e.Cloud.Reclaim(e.Cloud.Machines()[0])
		setCondition(t, e, corev1.NodeReady, corev1.ConditionUnknown, "")
		e.Steps(5)
		claims := e.Claims()
		if len(claims) > 1 || len(claims) == 1 && claims[0].Name == lost {
			t.Fatalf("claims %v, want the lost one gone", claims)
		}
		// Its pod is gone with it; the successor that its owner makes finds room.
		e.Create(controllertest.Pod("successor", "1", "1Gi"))
		e.Until(10, "a replacement", func() bool { e.Join(); return len(e.Nodes()) == 1 && len(e.Cloud.Machines()) == 1 })
	})
}

// A silent node whose machine runs is left alone.
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
// Rule 180.
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
// Rule 180.
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

// Advice to move and other conditions do not end a machine that runs.
//
// Rule 180.
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

func deadlineOf(t *testing.T, claim *karpv1.NodeClaim) time.Time {
	t.Helper()
	deadline, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey])
	if err != nil {
		t.Fatalf("claim %s has no deadline: %v", claim.Name, err)
	}
	return deadline
}
